//! The gateway: finds a tool that a caller may use, and runs it. Lists and the decision about access are in
//! `gateway/lists.rs`.

mod as_caller;
mod lists;
pub(crate) mod openrpc;
pub(crate) mod settings;
mod snapshot;
#[cfg(test)]
mod tests;
pub(crate) mod visibility;
mod visible;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::{Caller, Section, Shares};
use crate::catalog::{Catalog, Entry};
use crate::model::arguments::{InputCache, ParamFormat, ParamStyle};
use crate::model::method::Safety;
use crate::secret::Secret;
use crate::upstream::budget::{BudgetExceeded, BudgetReservation, DEFAULT_IN_FLIGHT_BYTES};
use crate::upstream::client::Client;
use crate::upstream::local::TOOL_ERROR;
use crate::upstream::{
    BoxFuture, Call, CallError, CallFailure, CallOutput, Counters, DEFAULT_CALL_TIMEOUT, NotFound,
    Upstream,
};
use crate::wire::jsonrpc::RpcError;
use openrpc::DocumentCache;
use snapshot::{Snapshot, UpstreamMap};
use visibility::Visibility;

pub use as_caller::AsCaller;
pub use openrpc::OpenRpcError;
pub use settings::{KEYS as SETTING_KEYS, SettingError, Settings};
pub(crate) use snapshot::FoundTool;

/// Maximum time that counts as waiting for the client's answers.
const MAX_WAIT: Duration = Duration::from_mins(10);

/// Interval between checks that the client is still being waited for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Grace period beyond an upstream's own timeout, so that its own error arrives first.
const GRACE: Duration = Duration::from_secs(1);

/// Ids are at most this long; what a client asks for may be longer.
const MAX_LOGGED_ID: usize = 255;

/// The catalog in force, what runs its methods, and the settings: shared by every endpoint.
#[derive(Debug)]
pub struct Gateway {
    snapshot: ArcSwap<Snapshot>,
    /// The upstreams that it was made with.
    static_upstreams: UpstreamMap,
    plans: InputCache,
    documents: DocumentCache,
    call_timeout: Duration,
    call_ids: CallIds,
    budget: Arc<Shares>,
    /// Raised when the tools of a caller may have changed.
    changes: watch::Sender<u64>,
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

/// A method's result, with the memory that is reserved for it until the reply is sent.
#[derive(Debug)]
pub struct CallResult<T = CallOutput> {
    /// The result.
    pub value: T,
    pub(crate) reservation: BudgetReservation,
}

impl Gateway {
    /// A gateway with an empty catalog over named upstreams.
    pub fn new(upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>) -> Self {
        let gateway = Self {
            snapshot: ArcSwap::default(),
            static_upstreams: upstreams.into_iter().collect(),
            plans: InputCache::default(),
            documents: DocumentCache::default(),
            call_timeout: DEFAULT_CALL_TIMEOUT,
            call_ids: CallIds::default(),
            budget: Shares::new(DEFAULT_IN_FLIGHT_BYTES),
            changes: watch::Sender::new(0),
        };
        gateway.set_dynamic_upstreams([]);
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
        self.budget = Shares::new(bytes);
        self
    }

    /// How many bytes results have together just now, and how many they may have. Those up to 64 KiB are
    /// not counted.
    pub fn in_flight_bytes(&self) -> (usize, usize) {
        (self.budget.used(), self.budget.limit())
    }

    /// Puts other upstreams in force beside those that it was made with, which count where both have a
    /// name. Calls under way finish with theirs.
    pub fn set_dynamic_upstreams(
        &self,
        upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>,
    ) {
        let mut all: UpstreamMap = upstreams.into_iter().collect();
        all.extend(self.static_upstreams.clone());
        let visibility = Visibility::new(&all, &self.snapshot.load().visibility, &self.changes);
        let wants_tokens = all.values().any(|upstream| upstream.wants_token());
        let (upstreams, visibility) = (Arc::new(all), Arc::new(visibility));
        self.change(|snapshot| {
            snapshot.upstreams = Arc::clone(&upstreams);
            snapshot.visibility = Arc::clone(&visibility);
            snapshot.wants_tokens = wants_tokens;
        });
    }

    fn change(&self, change: impl Fn(&mut Snapshot)) {
        self.snapshot.rcu(|snapshot| {
            let mut changed = Snapshot::clone(snapshot);
            change(&mut changed);
            changed
        });
    }

    /// A known caller with the token that they came with, if any upstream is to be told it.
    pub fn with_token(&self, caller: Caller, token: Option<&str>) -> Caller {
        let is_wanted = self.snapshot.load().wants_tokens && caller.user.is_some();
        match token.filter(|_| is_wanted).and_then(Secret::new) {
            Some(token) => caller.with_token(token),
            None => caller,
        }
    }

    /// Whether it was made with an upstream of this name.
    pub fn has_static_upstream(&self, name: &str) -> bool {
        self.static_upstreams.contains_key(name)
    }

    /// The names of the upstreams, sorted.
    pub fn upstream_names(&self) -> Vec<Arc<str>> {
        self.snapshot.load().upstreams.keys().cloned().collect()
    }

    /// The names of those that cannot be reached, sorted.
    pub fn upstreams_down(&self) -> Vec<Arc<str>> {
        let snapshot = self.snapshot.load();
        let down = snapshot.upstreams.iter().filter(|(_, upstream)| upstream.is_down());
        down.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// How the upstreams that count their calls are, by name.
    pub fn upstream_states(&self) -> Vec<UpstreamState> {
        let snapshot = self.snapshot.load();
        let states = snapshot.upstreams.iter().filter_map(|(name, upstream)| {
            let (name, is_down) = (Arc::clone(name), upstream.is_down());
            Some(UpstreamState { name, is_down, counters: upstream.counters()? })
        });
        states.collect()
    }

    /// The catalog in force.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.load().catalog)
    }

    /// Puts another catalog in force; requests under way finish with theirs.
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        self.change(move |snapshot| snapshot.catalog = Arc::clone(&catalog));
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
        Arc::clone(&self.snapshot.load().settings)
    }

    /// Puts other settings in force.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        self.change(move |snapshot| snapshot.settings = Arc::clone(&settings));
    }

    /// Finds a tool that the caller may use in this way.
    pub(crate) fn find(
        &self,
        caller: &Caller,
        tool: ToolRef<'_>,
        read_only: bool,
    ) -> Result<FoundTool, CallError> {
        let snapshot = self.snapshot.load_full();
        let entry = match Self::decide(&snapshot, caller, tool) {
            Err(_) if wants_login(&snapshot.catalog, caller, tool) => {
                return Err(self.login_required(tool));
            }
            decided => decided?,
        };
        if read_only && entry.safety() != Safety::ReadOnly {
            return Err(CallError::NotReadOnly(tool.as_str().to_owned()));
        }
        let ordinal = entry.ordinal;
        Ok(FoundTool { snapshot, ordinal })
    }

    fn login_required(&self, tool: ToolRef<'_>) -> CallError {
        let message = format!(
            "Tool '{}' is for users who are logged in; send a token, `Authorization: Bearer …`",
            tool.as_str()
        );
        let error_id = self.next_call_id();
        tracing::info!(error_id, "a caller without a token is asked to log in");
        let failure = CallFailure { error_id, ..CallFailure::new(message, "no token") };
        CallError::Unauthorized(failure)
    }

    /// Runs a method for a caller who names it by its id, and gives its result as JSON.
    pub async fn call(
        &self,
        caller: &Caller,
        request: CallRequest<'_>,
    ) -> Result<CallResult<Box<RawValue>>, CallError> {
        let caller = &*self.prepared(caller).await;
        let tool = self.find(caller, ToolRef::Id(request.id), request.read_only)?;
        let outcome = self.invoke(&tool, caller, request.arguments, &Client::default()).await?;
        let value = match outcome.value {
            CallOutput::Json(json) => json,
            CallOutput::Content(content) if content.is_error => {
                return Err(RpcError::new(TOOL_ERROR, content.words()).into());
            }
            CallOutput::Content(content) => to_raw_value(&content).unwrap_or_default(),
        };
        Ok(CallResult { value, reservation: outcome.reservation })
    }

    /// Counts the bytes of a reply against the budget until they are sent.
    #[cfg(feature = "http")]
    pub(crate) fn reserved(
        &self,
        caller: &Caller,
        reply: bytes::Bytes,
    ) -> Result<bytes::Bytes, BudgetExceeded> {
        let reservation = BudgetReservation::new(&self.budget, caller.principal());
        reservation.at_least(reply.len())?;
        Ok(reservation.keep(reply))
    }

    /// The id of a call, new each time.
    pub(crate) fn next_call_id(&self) -> String {
        self.call_ids.next()
    }

    /// How long a call may take.
    pub(crate) fn call_limit(&self) -> Duration {
        self.call_timeout
    }

    /// Runs a tool that was found: checks the arguments, calls the upstream within the time limit. What
    /// fails is logged here, once, under the call's id.
    pub(crate) async fn invoke(
        &self,
        tool: &FoundTool,
        caller: &Caller,
        arguments: Option<&RawValue>,
        client: &Client,
    ) -> Result<CallResult, CallError> {
        let Some(entry) = tool.entry() else { return Err(NotFound(String::new()).into()) };
        let (id, method) = (self.call_ids.next(), entry.id().as_str());
        let outcome = async {
            let upstream = tool.upstream(entry);
            let params = self.params(tool, entry, upstream, arguments)?;
            let upstream = upstream.ok_or_else(|| not_configured(entry.upstream()))?;
            let limit = upstream.time_limit().map_or(self.call_timeout, |own| own + GRACE);
            let (safety, reservation) =
                (entry.safety(), BudgetReservation::new(&self.budget, caller.principal()));
            let call = Call {
                id: &id,
                method,
                params: &params,
                safety,
                caller,
                client,
                reservation: &reservation,
            };
            let value = within(limit, client, upstream.call(call)).await?;
            reservation.at_least(value.len())?;
            Ok(CallResult { value, reservation })
        };
        match outcome.await {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                tool.snapshot.visibility.note_denial(caller, entry, &error).await;
                Err(error.logged(caller, method, id))
            }
        }
    }

    /// Checks the arguments, and puts them into the form that the upstream takes.
    fn params<'a>(
        &self,
        tool: &FoundTool,
        entry: &Entry,
        upstream: Option<&dyn Upstream>,
        arguments: Option<&'a RawValue>,
    ) -> Result<Cow<'a, RawValue>, CallError> {
        let usual = upstream.map_or(ParamStyle::Named, Upstream::param_style);
        let style = entry.param_style.unwrap_or(usual);
        let null_is_absent = upstream.is_some_and(Upstream::null_is_absent);
        let plan = self.plans.get(&entry.plan, || tool.catalog().check_schema(entry));
        let plan = plan.map_err(CallError::failed)?;
        Ok(plan.params(arguments, ParamFormat { style, null_is_absent })?)
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

fn not_configured(upstream: &str) -> CallError {
    let message = "The service behind this tool is not configured. Nothing was run; an administrator has to \
         say where it is.";
    let detail = format!("upstream `{upstream}` is not configured");
    CallError::Failed(CallFailure::new(message, detail))
}

impl From<BudgetExceeded> for CallError {
    fn from(over: BudgetExceeded) -> Self {
        let message = "The method ran, but the results of other calls have all the memory that there is for them. \
                       Ask for less, or try again later if it only reads.";
        Self::Failed(CallFailure::new(message, over))
    }
}

/// Runs what is under way within a time limit, which does not count while the client is asked.
pub(crate) async fn within<T>(
    limit: Duration,
    client: &Client,
    mut running: BoxFuture<'_, Result<T, CallError>>,
) -> Result<T, CallError> {
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
            return Err(CallError::failed(format!("no answer within {took:?}")));
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
