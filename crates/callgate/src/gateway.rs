//! The gateway: checks access, checks arguments and calls the upstream.

pub(crate) mod settings;
mod snapshot;
pub(crate) mod visibility;
mod authorize;
mod blocking_checks;
mod list;
mod limits;
pub(crate) mod openrpc;
mod call_id;
mod as_caller;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::access::{Caller, RateLimiter, RateLimits, RunningCalls, Shares};
use crate::catalog::listing::bounded_cache;
use crate::catalog::{Catalog, Entry};
use crate::model::arguments::{CompiledInput, ParamFormat, ParamStyle};
use crate::model::schema::cache::SchemaCache;
use crate::secret::Secret;
use crate::upstream::budget::{BudgetExceeded, BudgetReservation, DEFAULT_IN_FLIGHT_BYTES};
use crate::upstream::client::Client;
use crate::upstream::local::TOOL_ERROR;
use crate::upstream::timer::until;
use crate::upstream::{
    BoxFuture, Call, CallError, CallFailure, CallOutput, Counters, DEFAULT_CALL_TIMEOUT, NotFound,
    Upstream,
};
use crate::wire::jsonrpc::RpcError;
use call_id::CallIds;
use list::DocumentCache;
use snapshot::{Snapshot, UpstreamMap};
use visibility::Visibility;

pub use as_caller::AsCaller;
pub(crate) use blocking_checks::BlockingChecks;
pub use openrpc::OpenRpcError;
pub use settings::{KEYS as SETTING_KEYS, OpenMethods, SettingError, Settings};
pub(crate) use snapshot::FoundTool;

/// Time that a call can wait for answers of its client without using up its time limit. Longer waiting counts.
const MAX_WAIT: Duration = Duration::from_mins(10);

/// Interval between checks that the method is still waiting for the client.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Error of a request in a batch whose replies are already too large.
pub(crate) const BATCH_FULL: &str = "Nothing was run: the replies to the earlier requests of this batch are too large. \
    Send this request again, alone or in a smaller batch.";

/// Serves the current catalog with its upstreams and settings; shared by all endpoints.
#[derive(Debug)]
pub struct Gateway {
    snapshot: ArcSwap<Snapshot>,
    /// Upstreams that never change.
    static_upstreams: UpstreamMap,
    /// Compiled check schemas.
    inputs: SchemaCache<CompiledInput>,
    documents: DocumentCache,
    pub(crate) checks: BlockingChecks,
    call_timeout: Duration,
    call_ids: CallIds,
    budget: Arc<Shares>,
    /// Rate limits of the configuration. Settings override them.
    rate_limits: RateLimits,
    rate_limiter: RateLimiter,
    running_calls: RunningCalls,
    /// Counter that is incremented when the tools of a caller may have changed.
    changes: watch::Sender<u64>,
}

/// State of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamState {
    /// Name of the upstream.
    pub name: Arc<str>,
    /// Whether the upstream is unreachable, so that calls fail without being sent.
    pub is_down: bool,
    /// Statistics of its calls.
    pub counters: Counters,
}

/// Reference to a tool. Each endpoint accepts only one of the two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRef<'a> {
    /// Id of the method (REST and JSON-RPC).
    Id(&'a str),
    /// Tool name (MCP).
    Name(&'a str),
}

impl<'a> ToolRef<'a> {
    fn as_str(self) -> &'a str {
        match self {
            Self::Id(text) | Self::Name(text) => text,
        }
    }
}

/// A request to call a method.
#[derive(Debug, Clone, Copy)]
pub struct CallRequest<'a> {
    /// Id of the method.
    pub id: &'a str,
    /// An object, or an array in the order of the signature; `None` is an empty object.
    pub arguments: Option<&'a RawValue>,
    /// Whether only read-only methods are allowed.
    pub read_only: bool,
}

/// Result of a call, with the memory reserved for it until the reply is sent.
#[derive(Debug)]
pub struct CallResult<T = CallOutput> {
    /// The result.
    pub value: T,
    pub(crate) reservation: BudgetReservation,
}

impl Gateway {
    /// Creates a gateway with an empty catalog.
    pub fn new(upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>) -> Self {
        let gateway = Self {
            snapshot: ArcSwap::default(),
            static_upstreams: upstreams.into_iter().collect(),
            inputs: SchemaCache::new(CompiledInput::compile),
            documents: bounded_cache(|_, document: &Bytes| document.len()),
            checks: BlockingChecks::default(),
            call_timeout: DEFAULT_CALL_TIMEOUT,
            call_ids: CallIds::default(),
            budget: Shares::new(DEFAULT_IN_FLIGHT_BYTES),
            rate_limits: RateLimits::default(),
            rate_limiter: RateLimiter::default(),
            running_calls: RunningCalls::default(),
            changes: watch::Sender::new(0),
        };
        gateway.set_dynamic_upstreams([]);
        gateway
    }

    /// Sets the time limit of calls.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets the maximum total size of the results in memory, in bytes.
    #[must_use]
    pub fn max_in_flight_bytes(mut self, bytes: usize) -> Self {
        self.budget = Shares::new(bytes);
        self.warn_of_large_results(&self.static_upstreams);
        self
    }

    /// Logs a warning for each upstream whose largest results would never fit into the budget.
    fn warn_of_large_results(&self, upstreams: &UpstreamMap) {
        let most = self.budget.max_of_one();
        for (name, upstream) in upstreams {
            if let Some(size) = upstream.max_result_bytes().filter(|size| *size > most) {
                tracing::warn!(
                    upstream = &**name,
                    max_result_bytes = size,
                    max_in_flight_bytes = self.budget.limit(),
                    "one caller can use at most three quarters of `max_in_flight_bytes`: larger results fail, \
                     although `max_result_bytes` allows them; raise `max_in_flight_bytes`"
                );
            }
        }
    }

    /// Returns the current and the maximum size of results in memory, in bytes. Results up to 64 KiB are
    /// not counted.
    pub fn in_flight_bytes(&self) -> (usize, usize) {
        (self.budget.used(), self.budget.limit())
    }

    /// Replaces the upstreams that were set before with this function. Upstreams passed to [`Self::new`] take
    /// precedence. Calls in progress keep the previous upstreams.
    pub fn set_dynamic_upstreams(
        &self,
        upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>,
    ) {
        let mut all: UpstreamMap = upstreams.into_iter().collect();
        self.warn_of_large_results(&all);
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

    /// Sets the token of the caller to the result of `token`, if the caller is authenticated and an upstream needs
    /// tokens. Otherwise returns the caller unchanged.
    pub fn with_token<'a>(
        &self,
        caller: Caller,
        token: impl FnOnce() -> Option<&'a str>,
    ) -> Caller {
        if caller.user.is_none() || !self.snapshot.load().wants_tokens {
            return caller;
        }
        match token().and_then(Secret::new) {
            Some(token) => caller.with_token(token),
            None => caller,
        }
    }

    /// Returns `true` if an upstream of this name was passed to [`Self::new`].
    pub fn has_static_upstream(&self, name: &str) -> bool {
        self.static_upstreams.contains_key(name)
    }

    /// Returns the names of all upstreams, sorted.
    pub fn upstream_names(&self) -> Vec<Arc<str>> {
        self.snapshot.load().upstreams.keys().cloned().collect()
    }

    /// Returns the names of unreachable upstreams, sorted.
    pub fn upstreams_down(&self) -> Vec<Arc<str>> {
        let snapshot = self.snapshot.load();
        let down = snapshot.upstreams.iter().filter(|(_, upstream)| upstream.is_down());
        down.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Returns the states of all upstreams that have statistics, sorted by name.
    pub fn upstream_states(&self) -> Vec<UpstreamState> {
        let snapshot = self.snapshot.load();
        let states = snapshot.upstreams.iter().filter_map(|(name, upstream)| {
            let (name, is_down) = (Arc::clone(name), upstream.is_down());
            Some(UpstreamState { name, is_down, counters: upstream.counters()? })
        });
        states.collect()
    }

    /// Returns the current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.load().catalog)
    }

    /// Replaces the catalog. Requests in progress keep the previous one.
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        self.change(move |snapshot| snapshot.catalog = Arc::clone(&catalog));
        self.access_changed();
    }

    /// Notifies subscribers that the permissions of callers changed.
    pub fn access_changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns a receiver that is notified when the tools of a caller may have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.snapshot.load().settings)
    }

    /// Replaces the settings.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        let limits = settings.limits.or(&self.rate_limits);
        self.change(move |snapshot| {
            snapshot.limits = limits.clone();
            snapshot.settings = Arc::clone(&settings);
        });
    }

    /// Calls a method by its id and returns the result as JSON.
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
                return Err(RpcError::new(TOOL_ERROR, content.joined_text()).into());
            }
            CallOutput::Content(content) => to_raw_value(&content).unwrap_or_default(),
        };
        Ok(CallResult { value, reservation: outcome.reservation })
    }

    /// Reserves memory for a reply to a caller.
    pub(crate) fn reserve(
        &self,
        caller: &Caller,
        bytes: usize,
    ) -> Result<BudgetReservation, BudgetExceeded> {
        let reservation = BudgetReservation::new(&self.budget, caller);
        reservation.add(bytes)?;
        Ok(reservation)
    }

    /// Returns a new, unique id for a call.
    pub(crate) fn next_call_id(&self) -> String {
        self.call_ids.next()
    }

    pub(crate) fn call_limit(&self) -> Duration {
        self.call_timeout
    }

    /// Calls a tool: checks the arguments and calls the upstream within the time limit. Logs failures under the id of
    /// the call.
    pub(crate) async fn invoke(
        &self,
        tool: &FoundTool,
        caller: &Caller,
        arguments: Option<&RawValue>,
        client: &Client,
    ) -> Result<CallResult, CallError> {
        let entry = &*tool.entry;
        let method = entry.id().as_str();
        let admitted = self.admit(tool, caller, method, arguments)?;
        let id = self.call_ids.next();
        let outcome = async {
            if caller.is_batch_full() {
                return Err(batch_full());
            }
            let params = self.params(tool, arguments, caller).await?;
            let upstream = tool.upstream.as_ref().ok_or_else(|| not_configured(entry))?;
            let limit = TimeLimit {
                usual: upstream.time_limit().is_none().then_some(self.call_timeout),
                of_tool: admitted.bounds.time,
            };
            let safety = entry.call_safety();
            let mut reservation = BudgetReservation::new(&self.budget, caller)
                .for_result_up_to(admitted.bounds.result_bytes);
            let call = Call {
                id: &id,
                method,
                remote_name: entry.remote_name(),
                params: &params,
                safety,
                caller,
                client,
                reservation: &reservation,
            };
            let value = match upstream.call_now(&call) {
                Some(result) => result?,
                None => with_time_limit(limit, client, upstream.call(call)).await?,
            };
            reservation.hold_result(value.len())?;
            Ok(CallResult { value, reservation })
        };
        match outcome.await {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                Box::pin(tool.snapshot.visibility.note_denial(caller, entry, &error)).await;
                Err(error.logged(caller, method, id))
            }
        }
    }

    /// Checks the arguments of a method without running it.
    pub fn check_arguments(
        &self,
        caller: &Caller,
        id: &str,
        arguments: Option<&RawValue>,
    ) -> Result<(), CallError> {
        let tool = self.find(caller, ToolRef::Id(id), false)?;
        let schema = || tool.catalog().check_schema(&tool.entry);
        let input = self.inputs.get(&tool.entry.input, schema).map_err(CallError::failed)?;
        Ok(input.params(arguments, param_format(&tool)).map(drop)?)
    }

    /// Checks the arguments and converts them to the upstream's parameters.
    async fn params<'a>(
        &self,
        tool: &FoundTool,
        arguments: Option<&'a RawValue>,
        caller: &Caller,
    ) -> Result<Cow<'a, RawValue>, CallError> {
        let (entry, format) = (&tool.entry, param_format(tool));
        let schema = || tool.catalog().check_schema(entry);
        let bytes = arguments.map_or(0, |arguments| arguments.get().len());
        if BlockingChecks::is_inline(caller, bytes, entry.check_schema_len()) {
            let input = self.inputs.get(&entry.input, schema).map_err(CallError::failed)?;
            return Ok(input.params(arguments, format)?);
        }
        let schema = schema();
        let (inputs, arguments) = (self.inputs.clone(), arguments.map(ToOwned::to_owned));
        let check = move || {
            let input = inputs.compiled(&schema).map_err(CallError::failed)?;
            let params = input.params(arguments.as_deref(), format)?.into_owned();
            Ok::<_, CallError>(Cow::Owned(params))
        };
        Box::pin(self.checks.run(caller, check)).await?
    }
}

fn param_format(tool: &FoundTool) -> ParamFormat {
    let upstream = tool.upstream.as_deref();
    let configured = upstream.and_then(Upstream::param_style);
    let style = ParamStyle::resolve(tool.entry.param_style, configured);
    ParamFormat { style, null_is_absent: upstream.is_some_and(Upstream::null_is_absent) }
}

fn not_configured(entry: &Entry) -> CallError {
    let message = "The service behind this tool is not configured. Nothing was run; an administrator has to \
         configure it.";
    let detail = format!("upstream `{}` is not configured", entry.upstream());
    CallError::Failed(CallFailure::new(message, detail))
}

fn batch_full() -> CallError {
    CallError::Failed(CallFailure::new(BATCH_FULL, "the replies to the batch are too large"))
}

impl From<BudgetExceeded> for CallError {
    fn from(over: BudgetExceeded) -> Self {
        let message = match over {
            BudgetExceeded::Tool(limit) => {
                let message = format!(
                    "The method ran, but its result is larger than {limit} bytes, which is the limit of this \
                     tool. Request less data."
                );
                return Self::Failed(CallFailure::new(message, over));
            }
            BudgetExceeded::Total(_) => {
                "The method ran, but no memory is left for its result. \
                 Request less data, or retry later if the tool is read-only."
            }
            BudgetExceeded::Batch => {
                "The method ran, but the replies to this batch are too large. \
                 Request less data, or send fewer requests in a batch."
            }
        };
        Self::Failed(CallFailure::new(message, over))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    /// The limit of all calls, unless the upstream enforces its own. Does not apply to tasks.
    usual: Option<Duration>,
    /// The limit that is configured for the tool. Also applies to tasks.
    of_tool: Option<Duration>,
}

impl From<Duration> for TimeLimit {
    fn from(usual: Duration) -> Self {
        Self { usual: Some(usual), of_tool: None }
    }
}

impl TimeLimit {
    /// Returns the limit that applies, if there is one.
    fn of(self, is_task: bool) -> Option<Duration> {
        [self.of_tool, self.usual.filter(|_| !is_task)].into_iter().flatten().min()
    }

    fn error(self, limit: Duration, took: Duration) -> CallError {
        let detail = format!("no answer within {took:?}");
        if self.of_tool != Some(limit) {
            return CallError::failed(detail);
        }
        let message = format!(
            "The call was stopped after {limit:?}, which is the time limit of this tool. It may have run in part: \
             check before you try again."
        );
        CallError::Failed(CallFailure::new(message, detail))
    }
}

/// Runs a call with a time limit. Time in which the method waits for the client does not count.
pub(crate) async fn with_time_limit<T>(
    limit: impl Into<TimeLimit>,
    client: &Client,
    mut running: BoxFuture<'_, Result<T, CallError>>,
) -> Result<T, CallError> {
    let (limits, started) = (limit.into(), Instant::now());
    loop {
        let Some(limit) = limits.of(client.is_task()) else { return running.await };
        let (waited, is_waiting) = client.waited();
        let end = started + limit + waited.min(MAX_WAIT);
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(limits.error(limit, started.elapsed()));
        }
        // The deadline moves while the method waits for the client.
        let left = if is_waiting { left.max(CLIENT_CHECK_INTERVAL) } else { left };
        if let Some(result) = until(pin!(sleep(left)), running.as_mut()).await {
            return result;
        }
    }
}
