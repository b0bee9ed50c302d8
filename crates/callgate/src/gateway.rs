//! List, describe, call: the one place where access is decided.

mod as_caller;
mod call_error;
mod lists;
#[cfg(test)]
mod tests;
mod visible;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::{Caller, Section};
use crate::arguments::{CallPlans, ParamStyle, Taking};
use crate::budget::{Budget, Hold, OverBudget};
use crate::catalog::{Catalog, Entry};
use crate::client::Client;
use crate::jsonrpc::RpcError;
use crate::local::TOOL_ERROR;
use crate::method::Safety;
use crate::openrpc::Documents;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::upstream::{BoxFuture, Call, Counters, Returned, Upstream, UpstreamError};
use crate::visibility::Visibility;

use call_error::RunError;

pub use as_caller::AsCaller;
pub(crate) use call_error::log_failure;
pub use call_error::{CallError, NotFound};

/// How long a call may take unless told otherwise.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client that is asked something may take.
const MAX_WAIT: Duration = Duration::from_mins(10);

/// How often it is looked whether it still waits.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What an upstream with a time limit of its own has beyond that, to say so.
const GRACE: Duration = Duration::from_secs(1);

/// Ids are at most this long; what a client asks for may be longer.
const MAX_LOGGED_ID: usize = 255;

/// The catalog in force, what runs its methods, and the settings: shared by every face.
#[derive(Debug)]
pub struct Gateway {
    catalog: ArcSwap<Catalog>,
    settings: ArcSwap<Settings>,
    upstreams: UpstreamMap,
    /// Whether one of them wants the tokens of callers.
    own_want_tokens: bool,
    /// Those that come and go.
    more_upstreams: ArcSwap<UpstreamMap>,
    /// Whether one of those wants the tokens of callers.
    more_want_tokens: AtomicBool,
    plans: CallPlans,
    documents: Documents,
    call_timeout: Duration,
    call_ids: CallIds,
    budget: Arc<Budget>,
    /// Raised when the tools of a caller may have changed.
    changes: watch::Sender<u64>,
    pub(crate) visibility: Visibility,
}

/// How an upstream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamState {
    /// What methods call it.
    pub name: Arc<str>,
    /// Whether it is left alone for a while.
    pub is_down: bool,
    /// What became of its calls.
    pub counters: Counters,
}

/// What runs methods, by name.
type UpstreamMap = HashMap<Arc<str>, Arc<dyn Upstream>>;

/// What a caller names: each face knows tools by one form only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRef<'a> {
    /// A method's id, as over REST.
    Id(&'a str),
    /// A tool's name, as over MCP.
    Name(&'a str),
}

impl<'a> ToolRef<'a> {
    fn as_str(self) -> &'a str {
        match self {
            Self::Id(text) | Self::Name(text) => text,
        }
    }
}

/// A tool that a caller may use, in the catalog that it was found in.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    catalog: Arc<Catalog>,
    ordinal: u32,
}

impl Found {
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// There, since it was found.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.catalog.entries().get(self.ordinal as usize)
    }
}

/// A call of a tool that was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundCall<'a> {
    pub(crate) found: &'a Found,
    pub(crate) caller: &'a Caller,
    pub(crate) client: &'a Client,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) hold: &'a Hold,
    /// How long it may take.
    pub(crate) limit: Duration,
}

/// What a caller asks to run.
#[derive(Debug, Clone, Copy)]
pub struct CallRequest<'a> {
    /// The method's id.
    pub id: &'a str,
    /// An object, or a list in the order of the signature; absent is an empty object.
    pub arguments: Option<&'a RawValue>,
    /// Whether methods that change something are out.
    pub read_only: bool,
}

impl Gateway {
    /// A gateway with an empty catalog over named upstreams.
    pub fn new(upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>) -> Self {
        let upstreams: UpstreamMap = upstreams.into_iter().collect();
        let gateway = Self {
            catalog: ArcSwap::default(),
            settings: ArcSwap::default(),
            own_want_tokens: want_tokens(&upstreams),
            upstreams,
            more_upstreams: ArcSwap::default(),
            more_want_tokens: AtomicBool::new(false),
            plans: CallPlans::default(),
            documents: Documents::default(),
            call_timeout: DEFAULT_CALL_TIMEOUT,
            call_ids: CallIds::default(),
            budget: Arc::default(),
            changes: watch::Sender::new(0),
            visibility: Visibility::default(),
        };
        gateway.visibility.set(&gateway.all_upstreams(), &gateway.changes);
        gateway
    }

    /// Sets how long a call may take.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets how many bytes the results of all calls may have together, from when they are read until the
    /// replies are sent.
    #[must_use]
    pub fn max_in_flight_bytes(mut self, bytes: usize) -> Self {
        self.budget = Arc::new(Budget::new(bytes));
        self
    }

    /// How many bytes results have together just now, and how many they may have. Those up to 64 KiB are
    /// not counted.
    pub fn in_flight_bytes(&self) -> (usize, usize) {
        (self.budget.used(), self.budget.limit())
    }

    /// For the result of a call, to be kept until the reply is sent.
    pub(crate) fn hold(&self) -> Hold {
        self.budget.hold()
    }

    /// Puts other upstreams in force beside those that it was made with, which count where both have a
    /// name. Calls under way finish with theirs.
    pub fn set_more_upstreams(
        &self,
        upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>,
    ) {
        let upstreams: UpstreamMap = upstreams.into_iter().collect();
        self.more_want_tokens.store(want_tokens(&upstreams), Ordering::Relaxed);
        self.more_upstreams.store(Arc::new(upstreams));
        self.visibility.set(&self.all_upstreams(), &self.changes);
    }

    /// A known caller with the token that they came with, if any upstream is to be told it.
    pub fn with_token(&self, caller: Caller, token: Option<&str>) -> Caller {
        let is_wanted = self.more_want_tokens.load(Ordering::Relaxed) || self.own_want_tokens;
        match token.filter(|_| is_wanted && caller.user.is_some()).and_then(Secret::new) {
            Some(token) => caller.with_token(token),
            None => caller,
        }
    }

    /// Whether it was made with an upstream of this name.
    pub fn has_own_upstream(&self, name: &str) -> bool {
        self.upstreams.contains_key(name)
    }

    fn upstream(&self, name: &str) -> Option<Arc<dyn Upstream>> {
        let own = self.upstreams.get(name).cloned();
        own.or_else(|| self.more_upstreams.load().get(name).cloned())
    }

    /// Returns `true` if results of a method are not checked against its output schema.
    pub(crate) fn trusts_results(&self, entry: &Entry) -> bool {
        self.upstream(entry.upstream()).is_some_and(|upstream| upstream.trusts_results())
    }

    /// All upstreams, by name.
    fn all_upstreams(&self) -> BTreeMap<Arc<str>, Arc<dyn Upstream>> {
        let mut all: BTreeMap<_, _> = BTreeMap::new();
        for upstreams in [&**self.more_upstreams.load(), &self.upstreams] {
            all.extend(upstreams.iter().map(|(name, one)| (Arc::clone(name), Arc::clone(one))));
        }
        all
    }

    /// The names of the upstreams, sorted.
    pub fn upstream_names(&self) -> Vec<Arc<str>> {
        self.all_upstreams().into_keys().collect()
    }

    /// The names of those that cannot be reached, sorted.
    pub fn upstreams_down(&self) -> Vec<Arc<str>> {
        let all = self.all_upstreams().into_iter();
        all.filter(|(_, upstream)| upstream.is_down()).map(|(name, _)| name).collect()
    }

    /// How the upstreams that count their calls are, by name.
    pub fn upstream_states(&self) -> Vec<UpstreamState> {
        let states = self.all_upstreams().into_iter().filter_map(|(name, upstream)| {
            let counters = upstream.counters()?;
            Some(UpstreamState { name, is_down: upstream.is_down(), counters })
        });
        states.collect()
    }

    /// The catalog in force.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Puts another catalog in force; requests under way finish with theirs.
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        self.catalog.store(catalog);
        self.access_changed();
    }

    /// To be called when what callers may do has changed: those who watch their tools look again.
    pub fn access_changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Tells when a caller's tools may have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts other settings in force.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        self.settings.store(settings);
    }

    /// The tool, if the caller may use it, and in this way.
    pub(crate) fn find(
        &self,
        caller: &Caller,
        tool: ToolRef<'_>,
        read_only: bool,
    ) -> Result<Found, CallError> {
        let catalog = self.catalog.load_full();
        let entry = match self.decide(&catalog, caller, tool) {
            Err(_) if wants_login(&catalog, caller, tool) => {
                let words = format!(
                    "Tool '{}' is for users who are logged in; send a token, `Authorization: Bearer …`",
                    tool.as_str()
                );
                let error_id = self.next_call_id();
                tracing::info!(error_id, "a caller without a token is asked to log in");
                return Err(CallError::Unauthorized { error_id, words });
            }
            decided => decided?,
        };
        if read_only && entry.safety() != Safety::ReadOnly {
            return Err(CallError::NotReadOnly(tool.as_str().to_owned()));
        }
        let ordinal = entry.ordinal;
        Ok(Found { catalog, ordinal })
    }

    /// Runs a method: decide, check the arguments, call the upstream within the time limit.
    pub async fn call(
        &self,
        caller: &Caller,
        request: CallRequest<'_>,
    ) -> Result<Box<RawValue>, CallError> {
        self.call_holding(caller, request, &self.hold()).await
    }

    /// The same, with the result counted for as long as the caller says.
    pub(crate) async fn call_holding(
        &self,
        caller: &Caller,
        request: CallRequest<'_>,
        hold: &Hold,
    ) -> Result<Box<RawValue>, CallError> {
        let caller = &*self.prepared(caller).await;
        let found = &self.find(caller, ToolRef::Id(request.id), request.read_only)?;
        let (client, limit) = (&Client::default(), self.call_timeout);
        let CallRequest { arguments, .. } = request;
        let call = FoundCall { found, caller, client, arguments, hold, limit };
        match self.call_found(call).await? {
            Returned::Json(json) => Ok(json),
            Returned::Content(content) if content.is_error => {
                Err(CallError::Rpc(RpcError::new(TOOL_ERROR, content.words())))
            }
            Returned::Content(content) => Ok(to_raw_value(&content).unwrap_or_default()),
        }
    }

    /// The id of a call, new each time.
    pub(crate) fn next_call_id(&self) -> String {
        self.call_ids.next()
    }

    /// How long a call may take.
    pub(crate) fn call_limit(&self) -> Duration {
        self.call_timeout
    }

    /// Runs a method that was found.
    pub(crate) async fn call_found(&self, call: FoundCall<'_>) -> Result<Returned, CallError> {
        let Some(entry) = call.found.entry() else { return Err(NotFound(String::new()).into()) };
        let call_id = self.call_ids.next();
        let result = self.run(entry, call, &call_id).await;
        self.note_denial(call.caller, entry, &result).await;
        result.map_err(|error| error.into_call_error(call.caller, entry.id().as_str(), call_id))
    }

    async fn run(
        &self,
        entry: &Entry,
        call: FoundCall<'_>,
        call_id: &str,
    ) -> Result<Returned, RunError> {
        let FoundCall { found, caller, client, arguments, hold, limit } = call;
        let upstream = self.upstream(entry.upstream());
        let usual = upstream.as_ref().map_or(ParamStyle::Named, Upstream::param_style);
        let style = entry.param_style.unwrap_or(usual);
        let plan = self
            .plans
            .get(&entry.plan, || found.catalog().check_schema(entry))
            .map_err(UpstreamError::failed)?;
        let null_is_absent = upstream.as_ref().is_some_and(Upstream::null_is_absent);
        let params = plan.params(arguments, Taking { style, null_is_absent })?;
        let upstream = upstream.ok_or_else(|| not_configured(entry.upstream()))?;
        let (method, safety) = (entry.id().as_str(), entry.safety());
        let call = Call { id: call_id, method, params: &params, safety, caller, client, hold };
        let limit = upstream.time_limit().map_or(limit, |own| own + GRACE);
        let returned = within(limit, client, upstream.call(call)).await?;
        hold.at_least(returned.len()).map_err(too_much)?;
        Ok(returned)
    }
}

/// Returns `true` if a method says itself that it needs a login, and the caller has none. Over MCP it is
/// unknown: a client would take it for a reason to sign in to the server.
fn wants_login(catalog: &Catalog, caller: &Caller, tool: ToolRef<'_>) -> bool {
    let ToolRef::Id(id) = tool else { return false };
    let login = Section::authenticated();
    let needs = catalog.by_id(id).map(|entry| catalog.requirement(entry).needs());
    caller.user.is_none() && needs.is_some_and(|needs| needs.iter().any(|(it, _)| *it == login))
}

fn want_tokens(upstreams: &UpstreamMap) -> bool {
    upstreams.values().any(Upstream::wants_token)
}

fn not_configured(upstream: &str) -> UpstreamError {
    let words =
        "The service behind this tool is not configured. Nothing was run; an administrator has to \
                 say where it is."
            .to_owned();
    UpstreamError::Told { words, source: format!("upstream `{upstream}` is not configured").into() }
}

fn too_much(over: OverBudget) -> UpstreamError {
    let words = "The method ran, but the results of other calls have all the memory that there is for them. \
                 Ask for less, or try again later if it only reads."
        .to_owned();
    UpstreamError::Told { words, source: over.into() }
}

/// Runs what is under way within a time limit, which does not count while the client is asked.
pub(crate) async fn within<T>(
    limit: Duration,
    client: &Client,
    mut running: BoxFuture<'_, Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    // What needs not wait needs no clock.
    let at_once = poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
    if let Poll::Ready(result) = at_once {
        return result;
    }
    let started = Instant::now();
    loop {
        if client.is_task() {
            // Its own time is all that limits it.
            return running.await;
        }
        let (waited, is_waiting) = client.waited();
        let end = started + limit + waited.min(MAX_WAIT);
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let took = started.elapsed();
            return Err(UpstreamError::failed(format!("no answer within {took:?}")));
        }
        // While it waits, its end goes away from it.
        let left = if is_waiting { left.max(LOOK_AGAIN) } else { left };
        if let Ok(result) = tokio::time::timeout(left, running.as_mut()).await {
            return result;
        }
    }
}

/// `mcp_` and what no other call, of this process or another, has.
#[derive(Debug)]
struct CallIds {
    /// `mcp_` and the process's own number.
    start: Box<str>,
    count: AtomicU64,
}

impl Default for CallIds {
    fn default() -> Self {
        // Without randomness ids are unique to this process only, which the logs survive.
        let process = getrandom::u64().unwrap_or_default();
        Self { start: format!("mcp_{process:016x}").into(), count: AtomicU64::new(0) }
    }
}

impl CallIds {
    fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(self.start.len() + 16);
        id.push_str(&self.start);
        let _ = write!(id, "{count:08x}");
        id
    }
}
