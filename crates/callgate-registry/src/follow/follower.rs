//! The loop that keeps a server up to date with its registry.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use callgate::Callgate;
use callgate::gateway::OpenMethods;
use callgate::http::Readiness;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::catalog::{BuiltCatalog, CatalogSource};
use super::log::{FailureLog, error_chain, log_new_problems};
use super::registry::Registry;
use crate::auth::authenticator::TokenAuthenticator;
use crate::auth::build_access::access;
use crate::auth::tracked_store::{ReadKind, TrackedStore};
use crate::catalog::assemble::settings;
use crate::db::pool::with_timeout;
use crate::follow::credentials::UserCredentials;
use crate::follow::replicas::Replicas;
use crate::follow::upstreams::RowUpstreams;
use crate::rows::ChangeCounters;
use crate::store::{Result, StoreError};
use callgate::internal::random_between;

/// Interval between reads of the counters.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum interval between polls.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum delay between polls while the registry is unavailable. Together with [`POLL_TIMEOUT`], it ensures that a
/// recovery is noticed within two seconds.
const MAX_BACKOFF: Duration = Duration::from_millis(750);
/// Maximum delay between failing builds of a catalog. It is longer than [`MAX_BACKOFF`], because each build reads all
/// rows.
const MAX_BUILD_BACKOFF: Duration = Duration::from_secs(10);
/// Time limit for reading the counters.
const POLL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for reading access rows. It is shorter than the default grace period, so that a dead connection is
/// noticed before callers are refused.
const ACCESS_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for reading keys, sessions and messages.
const SHARED_STATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for reconnecting.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(1);
/// Counters that differ from those of every registry.
const UNKNOWN_COUNTERS: ChangeCounters =
    ChangeCounters { catalog: -1, access: -1, tokens: -1, keys: -1, sessions: -1, messages: -1 };

/// Polls the registry and replaces snapshots when it changes.
#[derive(Debug)]
pub(super) struct Follower {
    source: CatalogSource,
    authenticator: Arc<TokenAuthenticator>,
    credentials: UserCredentials,
    readiness: Readiness,
    replicas: Replicas,
    applied_counters: ChangeCounters,
    /// The catalog that is being built.
    building: Option<CatalogBuild>,
    /// Error of the last build. The build is retried.
    catalog_failure: Option<BuildFailure>,
    /// Task that stores tool names. It returns the catalog's change counter before and after the write.
    storing_names: Option<JoinHandle<Option<(i64, i64)>>>,
    /// Task that reconnects. Reconnecting may take longer than a poll.
    connecting: Option<JoinHandle<()>>,
    /// Number of consecutive failed polls.
    failures: u32,
    /// Start and end of the last poll.
    last_poll: (Instant, Instant),
    failure_log: FailureLog,
    logged_settings: BTreeSet<String>,
}

/// Failure of the last catalog builds.
#[derive(Debug)]
struct BuildFailure {
    error: String,
    /// Number of consecutive failures.
    count: u32,
    /// Change counter that triggered the last build.
    change_counter: i64,
    /// Time of the next build, unless the catalog changes earlier.
    retry_at: Instant,
}

/// A catalog build, and the change counter that triggered it.
#[derive(Debug)]
struct CatalogBuild {
    change_counter: i64,
    task: JoinHandle<Result<BuiltCatalog>>,
}

impl Follower {
    pub(super) fn new(registry: &Registry, server: &Callgate) -> Self {
        let authenticator = registry.authenticator();
        let source = CatalogSource {
            store: Arc::clone(authenticator.store()),
            gateway: Arc::clone(server.gateway()),
            upstreams: Arc::new(RowUpstreams::new(registry.factory.clone())),
            code: server.methods().into(),
            exposure: registry.exposure,
            open_methods: registry
                .open_methods
                .or_else(|| server.requires_auth().then_some(OpenMethods::Refuse)),
            builds: Arc::default(),
        };
        let replicas = Replicas::new(&source.store, server.mcp());
        let now = Instant::now();
        Self {
            source,
            authenticator,
            credentials: registry.credentials.clone(),
            readiness: server.readiness().clone(),
            replicas,
            applied_counters: UNKNOWN_COUNTERS,
            building: None,
            catalog_failure: None,
            storing_names: None,
            connecting: None,
            failures: 0,
            last_poll: (now, now),
            failure_log: FailureLog::default(),
            logged_settings: BTreeSet::new(),
        }
    }

    fn store(&self) -> &TrackedStore {
        &self.source.store
    }

    /// Reads all data once, before the server starts to serve.
    pub(super) async fn load(&mut self) -> Result<()> {
        let built = self.source.build().await?;
        self.applied_counters.catalog = built.change_counter;
        let started = Instant::now();
        let counters = self.source.store.inner.change_counters().await?;
        self.replicas.begin(&counters);
        self.load_changed_access(counters).await?;
        self.replicas.follow(&counters).await?;
        self.store().record_success(started);
        self.readiness.set_check(Arc::clone(&self.source.store) as _);
        self.readiness.set_ready();
        // Runs in the background, because it takes longer than the rest if there are many tools.
        self.store_names(built.new_names);
        Ok(())
    }

    /// Polls until this task is dropped.
    pub(super) async fn run(mut self) {
        loop {
            self.wait_for_next_poll().await;
            self.poll().await;
        }
    }

    /// Waits until the next poll is due, or until a change is known.
    async fn wait_for_next_poll(&mut self) {
        if self.failures > 0 {
            let delay = backoff_delay(self.failures, MAX_BACKOFF);
            let grace_left = self.store().grace_left();
            // Wakes up when the grace period ends, to log this even if the next poll succeeds.
            sleep(delay.min(grace_left)).await;
            self.check_grace_period();
            return sleep(delay.saturating_sub(grace_left)).await;
        }
        let (started, finished) = self.last_poll;
        let earliest = finished + MIN_POLL_INTERVAL;
        tokio::select! {
            () = sleep_until(earliest.max(started + POLL_INTERVAL)) => {}
            () = self.authenticator.newer_access_requested() => sleep_until(earliest).await,
            () = self.source.store.inner.changed() => sleep_until(earliest).await,
        }
    }

    /// Polls once and logs the result.
    async fn poll(&mut self) {
        let started = Instant::now();
        let number = self.authenticator.begin_read();
        let unavailable_for = self.store().age().unwrap_or_default();
        match self.read_changes(started).await {
            Ok(()) => {
                self.failures = 0;
                self.failure_log.success(unavailable_for);
            }
            Err(error) => self.record_failure(started, error),
        }
        self.failure_log.catalog(self.catalog_failure.as_ref().map(|failure| &failure.error));
        match &self.catalog_failure {
            None => self.readiness.set_ready(),
            Some(_) => {
                self.readiness.set_failed("the catalog could not be built; see the log");
            }
        }
        self.authenticator.end_read(number);
        self.last_poll = (started, Instant::now());
    }

    fn record_failure(&mut self, started: Instant, error: StoreError) {
        self.store().record_failure();
        self.failures = self.failures.saturating_add(1);
        self.replicas.invalidate();
        self.failure_log.failure(error, &self.source.store);
        self.check_grace_period();
        if started.elapsed() >= POLL_TIMEOUT {
            self.reconnect();
        }
    }

    /// Connects in a task, because a login may take longer than a poll. The next poll uses the connection.
    fn reconnect(&mut self) {
        if self.connecting.as_ref().is_none_or(JoinHandle::is_finished) {
            let store = Arc::clone(&self.source.store);
            self.connecting = Some(tokio::spawn(async move {
                // The result is ignored, because polls report it.
                let _ = with_timeout(CONNECT_TIMEOUT, store.inner.change_counters()).await;
            }));
        }
    }

    /// Notifies open streams when the grace period of tokens ends, so that they check their access.
    fn check_grace_period(&mut self) {
        if self.failure_log.check_grace_period(&self.source.store) {
            self.source.gateway.access_changed();
        }
    }

    async fn read_changes(&mut self, started: Instant) -> Result<()> {
        self.record_stored_names().await;
        let counters = match self.poll_access(started).await {
            Ok(counters) => counters,
            Err(error) => {
                self.reset();
                return Err(error);
            }
        };
        // Access is up to date. If reading the rest fails, tokens are not affected.
        let result = with_timeout(SHARED_STATE_TIMEOUT, self.replicas.follow(&counters)).await;
        self.drive_catalog_build(counters.catalog).await;
        result
    }

    async fn poll_access(&mut self, started: Instant) -> Result<ChangeCounters> {
        self.store().count_read(ReadKind::Counters);
        let counters =
            with_timeout(POLL_TIMEOUT, self.source.store.inner.change_counters()).await?;
        if (counters.tokens, counters.access)
            != (self.applied_counters.tokens, self.applied_counters.access)
        {
            with_timeout(ACCESS_TIMEOUT, self.load_changed_access(counters)).await?;
        }
        let read_at = started.checked_sub(self.source.store.inner.age()).unwrap_or(started);
        self.store().record_success(read_at);
        Ok(counters)
    }

    /// Discards the counters, because a recovered registry may have another state with the same numbers. Also discards
    /// a running build, which may wait on a dead connection.
    fn reset(&mut self) {
        self.applied_counters = UNKNOWN_COUNTERS;
        if let Some(failure) = &mut self.catalog_failure {
            (failure.count, failure.retry_at) = (0, Instant::now());
        }
        self.stop_tasks();
    }

    /// Reads tokens and access rows if they changed.
    async fn load_changed_access(&mut self, counters: ChangeCounters) -> Result<()> {
        if counters.tokens != self.applied_counters.tokens {
            let tokens = self.authenticator.tokens();
            if tokens.renew(&self.source.store).await? {
                // Open streams check their access again.
                self.source.gateway.access_changed();
            }
            self.applied_counters.tokens = counters.tokens;
        }
        if counters.access != self.applied_counters.access {
            self.load_access().await?;
        }
        Ok(())
    }

    async fn load_access(&mut self) -> Result<()> {
        self.store().count_read(ReadKind::Access);
        let rows = self.source.store.inner.access_rows().await?;
        let (settings, errors) = settings(&rows.settings, &self.source.gateway.settings());
        self.source.gateway.set_settings(Arc::new(settings));
        self.credentials.set(&rows.credentials);
        self.authenticator.set_access(access(&rows));
        self.source.gateway.access_changed();
        self.applied_counters.access = rows.change_counter;
        let errors = errors.iter().map(ToString::to_string).collect();
        log_new_problems(&self.logged_settings, &errors);
        self.logged_settings = errors;
        Ok(())
    }

    /// Builds catalogs in a task, so that a large catalog does not delay changes of grants.
    async fn drive_catalog_build(&mut self, change_counter: i64) {
        if let Some(building) = self.building.take_if(|building| building.task.is_finished()) {
            match building.task.await {
                Ok(Ok(built)) => {
                    self.applied_counters.catalog = built.change_counter;
                    self.catalog_failure = None;
                    self.store_names(built.new_names);
                }
                Ok(Err(error)) => self.build_failed(building.change_counter, error_chain(error)),
                // The task panicked. The previous catalog stays in use until the next change.
                Err(error) => {
                    self.applied_counters.catalog = building.change_counter;
                    let error = format!("failed to build the catalog: {error}");
                    self.build_failed(building.change_counter, error);
                }
            }
        }
        let is_free = self.building.is_none() && self.storing_names.is_none();
        let must_wait = self.catalog_failure.as_ref().is_some_and(|failure| {
            failure.change_counter == change_counter && Instant::now() < failure.retry_at
        });
        if is_free && !must_wait && change_counter != self.applied_counters.catalog {
            let source = self.source.clone();
            let task = tokio::spawn(async move { source.build().await });
            self.building = Some(CatalogBuild { change_counter, task });
        }
    }

    fn build_failed(&mut self, change_counter: i64, error: String) {
        let count = self.catalog_failure.take().map_or(1, |last| last.count.saturating_add(1));
        let retry_at = Instant::now() + backoff_delay(count, MAX_BUILD_BACKOFF);
        self.catalog_failure = Some(BuildFailure { error, count, change_counter, retry_at });
    }

    /// Stores tool names in a task. Meanwhile no catalog is built, because storing names increments the catalog's
    /// counter.
    fn store_names(&mut self, names: Vec<(i64, String)>) {
        if !names.is_empty() {
            let source = self.source.clone();
            self.storing_names =
                Some(tokio::spawn(async move { source.store_names(&names).await }));
        }
    }

    /// Records the counter after tool names were stored. Must be called before the counters are read. The catalog
    /// already has the stored names, so it is up to date unless another program changed the rows.
    async fn record_stored_names(&mut self) {
        if let Some(task) = self.storing_names.take_if(|task| task.is_finished())
            && let Ok(Some((before, after))) = task.await
            && self.applied_counters.catalog == before
        {
            self.applied_counters.catalog = after;
        }
    }

    fn stop_tasks(&mut self) {
        if let Some(building) = self.building.take() {
            building.task.abort();
        }
        if let Some(storing_names) = self.storing_names.take() {
            storing_names.abort();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop_tasks();
        if let Some(connecting) = &self.connecting {
            connecting.abort();
        }
    }
}

/// Returns the delay after consecutive failures, with jitter and a maximum.
fn backoff_delay(failures: u32, max: Duration) -> Duration {
    let max_delay = POLL_INTERVAL.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(max);
    random_between(max_delay / 2, max_delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_delays_have_jitter_and_stay_within_their_limits() {
        for failures in [0, 1, 2, 3, 4, 100, u32::MAX] {
            let delay = backoff_delay(failures, MAX_BACKOFF);
            assert!(delay >= POLL_INTERVAL / 2 && delay <= MAX_BACKOFF, "{failures}: {delay:?}");
        }
        assert!(backoff_delay(1, MAX_BACKOFF) <= POLL_INTERVAL);
        let delays: BTreeSet<Duration> = (0..20).map(|_| backoff_delay(3, MAX_BACKOFF)).collect();
        assert!(delays.len() > 1);
    }
}
