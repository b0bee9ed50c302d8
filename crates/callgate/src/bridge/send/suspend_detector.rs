//! Detects that the machine was suspended or that the process was stopped.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Minimum gap between two checks that counts as a suspend. It is longer than scheduling delays.
const MIN_GAP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct SuspendDetector(Mutex<(Instant, SystemTime)>);

impl SuspendDetector {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((Instant::now(), SystemTime::now())))
    }

    /// Returns `true` if the last check was too long ago by the monotonic clock or by the wall clock. While the machine
    /// is suspended, only the wall clock advances. While the process is stopped, both clocks advance.
    pub(crate) fn was_suspended(&self) -> bool {
        self.check(Instant::now(), SystemTime::now())
    }

    fn check(&self, now: Instant, wall: SystemTime) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (previous, previous_wall) = std::mem::replace(&mut *last, (now, wall));
        let elapsed = now.saturating_duration_since(previous);
        let wall_elapsed = wall.duration_since(previous_wall).unwrap_or_default();
        elapsed.max(wall_elapsed) > MIN_GAP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspend_and_a_stop_are_detected_once() {
        let (start, wall) = (Instant::now(), SystemTime::now());
        let detector = SuspendDetector(Mutex::new((start, wall)));
        let second = Duration::from_secs(1);
        assert!(!detector.check(start + second, wall + second));
        assert!(detector.check(start + 2 * second, wall + 600 * second), "suspended");
        assert!(!detector.check(start + 3 * second, wall + 601 * second));
        assert!(detector.check(start + 60 * second, wall + 658 * second), "stopped");
        assert!(!detector.check(start + 61 * second, wall), "the clock was set back");
    }
}
