//! Pauses between attempts, with jitter so that many clients do not come back at once.

use std::time::Duration;

/// Returns a random duration between two others.
pub fn random_between(min: Duration, max: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    min + max.saturating_sub(min).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Returns a pause that is up to a quarter shorter or longer.
#[cfg(any(feature = "bridge", feature = "forward"))]
pub(crate) fn jittered(pause: Duration) -> Duration {
    random_between(pause * 3 / 4, pause * 5 / 4)
}
