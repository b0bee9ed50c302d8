//! A store, with the time at which it was last read, and whether writes to it succeed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use callgate::http::{Degraded, MetricsWriter, ReadinessCheck};
use tokio::time::Instant;

use super::grace_period::GracePeriod;
use crate::db::error::DatabaseErrorKind;
use crate::db::pool::with_timeout;
use crate::store::{Result, Store, StoreError};

/// A store, with the state of its reads and writes. Reports this state in `/readyz` and `/metrics`.
#[derive(Debug)]
pub(crate) struct TrackedStore {
    pub(crate) inner: Arc<dyn Store>,
    grace_period: GracePeriod,
    /// Whether the last poll failed.
    last_poll_failed: AtomicBool,
    failures: AtomicU64,
    /// Remedy for the failure of the last write; `None` if the last write succeeded.
    write_failure: Mutex<Option<&'static str>>,
    write_failures: AtomicU64,
    reads: [AtomicU64; ReadKind::ALL.len()],
}

/// Kind of a read, counted for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadKind {
    Counters,
    Access,
    Catalog,
    Sessions,
    Keys,
    Messages,
    Tokens,
}

impl ReadKind {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Counters, "revisions"),
        (Self::Access, "access"),
        (Self::Catalog, "catalog"),
        (Self::Sessions, "sessions"),
        (Self::Keys, "keys"),
        (Self::Messages, "messages"),
        (Self::Tokens, "tokens"),
    ];
}

impl TrackedStore {
    /// Tracks a store. Tokens stay valid for `grace` after the last successful poll.
    pub(crate) fn new(inner: Arc<dyn Store>, grace: Duration) -> Self {
        Self {
            inner,
            grace_period: GracePeriod::new(grace),
            last_poll_failed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            write_failure: Mutex::default(),
            write_failures: AtomicU64::new(0),
            reads: Default::default(),
        }
    }

    /// Records a successful poll that began at `started`.
    pub(crate) fn record_success(&self, started: Instant) {
        self.grace_period.record_success(started);
        if self.last_poll_failed.swap(false, Ordering::SeqCst) {
            // The earlier write may have failed because of the connection, which works again.
            self.set_write_failure(None);
        }
    }

    /// Records a failed poll.
    pub(crate) fn record_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.last_poll_failed.store(true, Ordering::SeqCst);
    }

    /// Runs a write with a time limit, and records whether it succeeded.
    pub(crate) async fn write<T>(
        &self,
        limit: Duration,
        write: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let result = with_timeout(limit, write).await;
        self.record_write(&result);
        result
    }

    /// Records whether a write succeeded. Logs when writes begin to fail and when they succeed again.
    fn record_write<T>(&self, result: &Result<T>) {
        let error = match result {
            Ok(_) => {
                if self.set_write_failure(None).is_some() {
                    tracing::info!("writes to the registry succeed again");
                }
                return;
            }
            Err(StoreError::Database(error)) => error,
            Err(_) => return,
        };
        if matches!(error.kind, DatabaseErrorKind::Duplicate | DatabaseErrorKind::Deadlock) {
            return;
        }
        self.write_failures.fetch_add(1, Ordering::Relaxed);
        let advice = error.advice();
        // If the registry is unavailable, the follower logs the error.
        let previous = self.set_write_failure(Some(advice.unwrap_or("see the log")));
        if previous.is_none() && !self.is_unavailable() {
            tracing::error!(
                %error,
                advice,
                "failed to write to the registry: changes of sessions fail; new tool names and the last use of \
                 tokens are stored later"
            );
        }
    }

    /// Records a failed write. Ignores a successful one, because it may have had nothing to write.
    pub(crate) fn record_write_failure<T>(&self, result: &Result<T>) {
        if result.is_err() {
            self.record_write(result);
        }
    }

    fn set_write_failure(&self, failure: Option<&'static str>) -> Option<&'static str> {
        let mut current = self.write_failure.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, failure)
    }

    /// Returns the remedy for the failure of the last write, or `None` if the last write succeeded.
    pub(crate) fn write_failure(&self) -> Option<&'static str> {
        *self.write_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count_read(&self, kind: ReadKind) {
        let index = ReadKind::ALL.iter().position(|(known, _)| *known == kind);
        if let Some(count) = index.and_then(|index| self.reads.get(index)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the time since the last successful poll began, or `None` before the first one.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.grace_period.age()
    }

    /// Returns the time for which known tokens are still valid.
    pub(crate) fn grace_left(&self) -> Duration {
        self.grace_period.left()
    }

    /// Returns `true` if the last poll failed, or if the grace period is over.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.last_poll_failed.load(Ordering::SeqCst) || self.grace_left().is_zero()
    }

    /// Returns the number of failed polls.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of reads by kind.
    pub(crate) fn reads(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.reads.iter().map(|count| count.load(Ordering::Relaxed));
        ReadKind::ALL.iter().map(|(_, name)| *name).zip(counts)
    }
}

impl ReadinessCheck for TrackedStore {
    fn degraded(&self) -> Option<Degraded> {
        let Some(age) = self.age().filter(|_| self.is_unavailable()) else {
            let advice = self.write_failure()?;
            let reason = format!("the registry cannot be written: {advice}");
            return Some(Degraded { reason, details: Vec::new(), credentials_accepted_for: None });
        };
        let age = age.as_secs();
        Some(Degraded {
            reason: format!(
                "the registry was last read {age} s ago; the server still uses that data; see the log"
            ),
            details: vec![("registry_age_seconds", age)],
            credentials_accepted_for: Some(self.grace_left()),
        })
    }

    fn write_metrics(&self, metrics: &mut MetricsWriter) {
        let Some(age) = self.age() else { return };
        let help = "Seconds since the last successful poll of the registry began.";
        metrics.gauge("callgate_registry_age_seconds", help, age.as_secs_f64());
        let help = "Failed polls of the registry.";
        metrics.counter("callgate_registry_failures_total", help, self.failures());
        let help = "Failed writes to the registry.";
        let failures = self.write_failures.load(Ordering::Relaxed);
        metrics.counter("callgate_registry_write_failures_total", help, failures);
        let help = "1 if the last write to the registry succeeded, 0 if it failed.";
        let is_writable = self.write_failure().is_none();
        metrics.gauge("callgate_registry_writable", help, f64::from(u8::from(is_writable)));
        let help = "Statements sent to the registry.";
        metrics.counter("callgate_registry_statements_total", help, self.inner.statements());
        let help = "Reads of the registry by kind.";
        metrics.family("callgate_registry_reads_total", "counter", help);
        for (kind, count) in self.reads() {
            metrics.sample(&format!("{{what=\"{kind}\"}}"), count);
        }
    }
}
