//! How long a server accepts the tokens that it knows while its registry is unavailable.
//!
//! A known token stays valid for a limited time after the last successful poll began. If a server loses the connection
//! to its registry, it therefore accepts a revoked token for at most that time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Minimum grace period. It equals the time limit of a poll.
pub(crate) const MIN_GRACE: Duration = Duration::from_secs(1);

/// The grace period of tokens, measured from the last successful poll.
#[derive(Debug)]
pub(crate) struct GracePeriod {
    length: Duration,
    /// Time from which `last_success` is measured.
    start: Instant,
    /// Start of the last successful poll, in microseconds since `start`; 0 before the first successful poll.
    last_success: AtomicU64,
}

impl GracePeriod {
    /// Creates a grace period of at least [`MIN_GRACE`].
    pub(crate) fn new(length: Duration) -> Self {
        let length = length.max(MIN_GRACE);
        Self { length, start: Instant::now(), last_success: AtomicU64::new(0) }
    }

    /// Records a successful poll that began at `started`.
    pub(crate) fn record_success(&self, started: Instant) {
        let elapsed = started.saturating_duration_since(self.start).as_micros();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX).max(1);
        self.last_success.fetch_max(elapsed, Ordering::SeqCst);
    }

    /// Returns the time since the last successful poll began, or `None` before the first one.
    pub(crate) fn age(&self) -> Option<Duration> {
        match self.last_success.load(Ordering::SeqCst) {
            0 => None,
            last_success => Some((self.start + Duration::from_micros(last_success)).elapsed()),
        }
    }

    /// Returns the time for which known tokens are still valid.
    pub(crate) fn left(&self) -> Duration {
        self.age().map_or(Duration::ZERO, |age| self.length.saturating_sub(age))
    }
}
