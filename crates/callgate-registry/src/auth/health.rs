//! When the registry was last in reach, and what that means for callers.
//!
//! Whoever follows the registry notes each look at it; whoever depends on it asks. A token that was
//! good is taken for it until a bounded time after the last look that succeeded began: that far, and no
//! further, can a token that was revoked elsewhere be honoured by a gateway that cannot hear of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use callgate::http::{Degraded, MetricsWriter, ReadinessCheck};
use tokio::time::Instant;

use crate::store::Store;

/// Tokens are honoured for this long in any case: a look, and the next one.
pub(crate) const AT_LEAST: Duration = Duration::from_secs(1);

/// When the registry was last in reach.
#[derive(Debug)]
pub(crate) struct Contact {
    /// What times are counted from.
    start: Instant,
    /// When the last look that succeeded began, in microseconds since then; 0 before the first.
    last: AtomicU64,
    /// The last look failed.
    failed: AtomicBool,
    failures: AtomicU64,
    honoured_for: Duration,
    reads: [AtomicU64; Read::ALL.len()],
}

/// What the registry is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// The counters.
    Revisions,
    Access,
    Catalog,
    Sessions,
    Keys,
    /// What clients sent to other gateways.
    Messages,
    /// Tokens, when they are first seen and when some changed.
    Tokens,
}

impl Read {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Revisions, "revisions"),
        (Self::Access, "access"),
        (Self::Catalog, "catalog"),
        (Self::Sessions, "sessions"),
        (Self::Keys, "keys"),
        (Self::Messages, "messages"),
        (Self::Tokens, "tokens"),
    ];
}

impl Contact {
    /// Tokens are honoured for so long after the last look that succeeded.
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            honoured_for: grace.max(AT_LEAST),
            reads: Default::default(),
        }
    }

    /// A look that began then has succeeded.
    pub(crate) fn made(&self, began: Instant) {
        let passed = began.saturating_duration_since(self.start).as_micros();
        self.last.fetch_max(u64::try_from(passed).unwrap_or(u64::MAX).max(1), Ordering::SeqCst);
        self.failed.store(false, Ordering::SeqCst);
    }

    /// A look has failed.
    pub(crate) fn lost(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.failed.store(true, Ordering::SeqCst);
    }

    /// Something is asked for.
    pub(crate) fn count(&self, read: Read) {
        let at = Read::ALL.iter().position(|(one, _)| *one == read);
        if let Some(count) = at.and_then(|at| self.reads.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How long ago the last look that succeeded began; nothing before the first.
    pub(crate) fn age(&self) -> Option<Duration> {
        match self.last.load(Ordering::SeqCst) {
            0 => None,
            last => Some((self.start + Duration::from_micros(last)).elapsed()),
        }
    }

    /// How long tokens that were good are still honoured.
    pub(crate) fn honoured_for(&self) -> Duration {
        self.age().map_or(Duration::ZERO, |age| self.honoured_for.saturating_sub(age))
    }

    /// Whether nothing can be asked for just now.
    pub(crate) fn is_away(&self) -> bool {
        self.failed.load(Ordering::SeqCst) || self.honoured_for().is_zero()
    }

    /// Number of reads that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Number of reads, by what was read.
    pub(crate) fn reads(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.reads.iter().map(|count| count.load(Ordering::Relaxed));
        Read::ALL.iter().map(|(_, name)| *name).zip(counts)
    }
}

/// Reports the registry's health in `/readyz` and `/metrics`.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) contact: Arc<Contact>,
    pub(crate) store: Arc<dyn Store>,
}

impl ReadinessCheck for Watched {
    fn degraded(&self) -> Option<Degraded> {
        let age = self.contact.age().filter(|_| self.contact.is_away())?.as_secs();
        Some(Degraded {
            reason: format!(
                "the registry was last read {age} s ago, the log says why; \
                 what was read then is served"
            ),
            details: vec![("registry_contact_age_seconds", age)],
            credentials_accepted_for: self.contact.honoured_for(),
        })
    }

    fn write_metrics(&self, metrics: &mut MetricsWriter) {
        let Some(age) = self.contact.age() else { return };
        let help = "How long ago the last look at the registry that succeeded began.";
        metrics.gauge("callgate_registry_contact_age_seconds", help, age.as_secs_f64());
        let help = "Looks at it that failed.";
        metrics.counter("callgate_registry_failures_total", help, self.contact.failures());
        let help = "Statements that it was sent.";
        metrics.counter("callgate_registry_statements_total", help, self.store.statements());
        let help = "What was asked of it, by what.";
        metrics.family("callgate_registry_reads_total", "counter", help);
        for (what, count) in self.contact.reads() {
            metrics.sample(&format!("{{what=\"{what}\"}}"), count);
        }
    }
}
