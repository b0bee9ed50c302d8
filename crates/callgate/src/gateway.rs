//! The gateway: checks access, checks arguments and calls the upstream.
//!
//! Most programs use the gateway that [`Callgate`](crate::Callgate) creates. The example of [`Gateway`] creates a
//! gateway directly.

pub(crate) mod settings;
mod snapshot;
pub(crate) mod visibility;
mod authorize;
mod blocking_checks;
mod call;
mod list;
mod limits;
pub(crate) mod openrpc;
mod call_id;
mod as_caller;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::access::{Caller, RateLimiter, RateLimits, RunningCalls, Shares};
use crate::catalog::Catalog;
use crate::catalog::listing::MAX_CACHE_BYTES;
use crate::model::arguments::CompiledInput;
use crate::model::schema::cache::SchemaCache;
use crate::secret::Secret;
use crate::upstream::memory_budget::{BudgetExceeded, BudgetReservation, DEFAULT_IN_FLIGHT_BYTES};
use crate::upstream::{Counters, DEFAULT_CALL_TIMEOUT, Upstream};
use call_id::CallIds;
use list::DocumentCache;
use snapshot::{Snapshot, UpstreamMap};
use visibility::Visibility;

pub use as_caller::AsCaller;
pub(crate) use blocking_checks::{BlockingChecks, CheckError};
pub(crate) use call::{BATCH_FULL, with_time_limit};
pub use call::{CallRequest, CallResult};
pub use openrpc::OpenRpcError;
pub use settings::{KEYS as SETTING_KEYS, OpenMethods, SettingError, Settings};
pub(crate) use snapshot::FoundTool;

/// Serves the current catalog with its upstreams and settings; shared by all endpoints.
///
/// ```
/// use std::sync::Arc;
/// use callgate::Caller;
/// use callgate::catalog::CatalogBuilder;
/// use callgate::gateway::Gateway;
/// use callgate::local::{Error, Local};
/// use callgate::model::{LOCAL, Method, Prefix, Types};
/// use callgate::upstream::Upstream;
/// use serde_json::Value;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut local = Local::default();
/// local.method(Method::new("version".parse()?), async |_, _: Value| Ok::<_, Error>("1.0"));
/// let mut builder = CatalogBuilder::new(Prefix::default(), None);
/// for method in local.methods() {
///     builder.add(method.clone(), 0, &Types::default(), []);
/// }
/// let gateway = Gateway::new([(LOCAL.into(), Arc::new(local) as Arc<dyn Upstream>)]);
/// gateway.set_catalog(Arc::new(builder.finish()));
/// let anonymous = gateway.as_caller(Caller::anonymous());
/// assert_eq!(anonymous.call("version", ()).await?, "1.0");
/// # Ok(())
/// # }
/// ```
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
///
/// Returned by [`Gateway::upstream_states`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamState {
    /// Name of the upstream.
    pub name: Arc<str>,
    /// Whether the upstream is unreachable, so that calls fail without being sent.
    pub is_down: bool,
    /// Statistics of the calls.
    pub counters: Counters,
}

/// Reference to a tool. Each endpoint accepts only one of the two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolRef<'a> {
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

impl Gateway {
    /// Creates a gateway with an empty catalog.
    pub fn new(upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>) -> Self {
        let gateway = Self {
            snapshot: ArcSwap::default(),
            static_upstreams: upstreams.into_iter().collect(),
            inputs: SchemaCache::new(CompiledInput::compile),
            documents: DocumentCache::with_weight(MAX_CACHE_BYTES, |_, document| document.len()),
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

    /// Sets the time limit of calls. It does not apply to tasks, nor to upstreams that have their own time limit.
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

    /// Logs a warning for each upstream that allows larger results than one caller can have in memory.
    fn warn_of_large_results(&self, upstreams: &UpstreamMap) {
        let max_bytes = self.budget.max_per_principal();
        for (name, upstream) in upstreams {
            if let Some(size) = upstream.max_result_bytes().filter(|size| *size > max_bytes) {
                tracing::warn!(
                    upstream = &**name,
                    max_result_bytes = size,
                    max_in_flight_bytes = self.budget.limit(),
                    "one caller can use at most three quarters of `max_in_flight_bytes`: results larger than that \
                     fail, although `max_result_bytes` allows them; raise `max_in_flight_bytes`"
                );
            }
        }
    }

    /// Returns the current and the maximum size of results in memory, in bytes. A result of at most 64 KiB is counted
    /// only if its request is part of a batch.
    pub fn in_flight_bytes(&self) -> (usize, usize) {
        (self.budget.used(), self.budget.limit())
    }

    /// Replaces the upstreams that the previous call of this function set. An upstream passed to [`Self::new`]
    /// takes precedence over an upstream of the same name. Calls in progress keep the previous upstreams.
    pub fn set_dynamic_upstreams(
        &self,
        upstreams: impl IntoIterator<Item = (Arc<str>, Arc<dyn Upstream>)>,
    ) {
        let mut merged: UpstreamMap = upstreams.into_iter().collect();
        self.warn_of_large_results(&merged);
        merged.extend(self.static_upstreams.clone());
        let visibility = Visibility::new(&merged, &self.snapshot.load().visibility, &self.changes);
        let wants_tokens = merged.values().any(|upstream| upstream.wants_token());
        let (upstreams, visibility) = (Arc::new(merged), Arc::new(visibility));
        self.update_snapshot(|snapshot| {
            snapshot.upstreams = Arc::clone(&upstreams);
            snapshot.visibility = Arc::clone(&visibility);
            snapshot.wants_tokens = wants_tokens;
        });
    }

    fn update_snapshot(&self, update: impl Fn(&mut Snapshot)) {
        self.snapshot.rcu(|snapshot| {
            let mut updated = Snapshot::clone(snapshot);
            update(&mut updated);
            updated
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
        self.update_snapshot(move |snapshot| snapshot.catalog = Arc::clone(&catalog));
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
        self.update_snapshot(move |snapshot| {
            snapshot.limits = limits.clone();
            snapshot.settings = Arc::clone(&settings);
        });
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
}
