//! Delays between retries, with jitter.

use std::time::Duration;

/// Returns a random duration between `min` and `max`.
pub fn random_between(min: Duration, max: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    min + max.saturating_sub(min).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Returns `delay`, changed at random by up to 25 %.
#[cfg(any(feature = "bridge", feature = "forward"))]
pub(crate) fn jittered(delay: Duration) -> Duration {
    random_between(delay * 3 / 4, delay * 5 / 4)
}
