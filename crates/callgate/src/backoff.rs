//! Delays between retries, with jitter.

use std::time::Duration;

#[cfg(feature = "forward")]
use tokio::time::Instant;

/// Returns a random duration between `min` and `max`.
pub fn random_between(min: Duration, max: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    min + max.saturating_sub(min).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Returns `pause`, changed at random by up to 25 %.
#[cfg(any(feature = "bridge", feature = "forward"))]
pub(crate) fn jittered(pause: Duration) -> Duration {
    random_between(pause * 3 / 4, pause * 5 / 4)
}

/// Delay after the first failure.
#[cfg(feature = "forward")]
const FIRST_BACKOFF: Duration = Duration::from_secs(1);

/// Maximum delay between renewals of a credential that the service rejects.
#[cfg(feature = "forward")]
const MAX_RENEWAL_BACKOFF: Duration = Duration::from_secs(30);

/// Maximum time between two rejections of credentials for which the second counts as a consecutive failure.
#[cfg(feature = "forward")]
const REJECTION_WINDOW: Duration = Duration::from_mins(2);

/// A delay that doubles with each failure.
#[cfg(feature = "forward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    times: u32,
    pub(crate) until: Instant,
}

#[cfg(feature = "forward")]
impl Backoff {
    /// Returns twice the previous delay, at most `max`, with jitter.
    pub(crate) fn after(before: Option<Self>, max: Duration, now: Instant) -> Self {
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        let pause = FIRST_BACKOFF.saturating_mul(1 << (times - 1).min(10)).min(max);
        Self { times, until: now + jittered(pause) }
    }

    /// Records that a service rejected a credential. Returns `true` if a new credential may be requested now. If a service
    /// rejects all credentials, the delay ensures that not every call requests a new one.
    pub(crate) fn may_renew(rejection: &mut Option<Self>, now: Instant) -> bool {
        let recent = rejection.filter(|last| now < last.until + REJECTION_WINDOW);
        if recent.is_some_and(|last| now < last.until) {
            return false;
        }
        *rejection = Some(Self::after(recent, MAX_RENEWAL_BACKOFF, now));
        true
    }
}
