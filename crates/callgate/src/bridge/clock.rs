//! Whether time has passed without us: the machine slept, or the process was stopped.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Longer than any scheduler lets us wait.
const JUMP: Duration = Duration::from_secs(5);

/// Two clocks that are looked at every second.
#[derive(Debug)]
pub(super) struct Clock(Mutex<(Instant, SystemTime)>);

impl Clock {
    pub(super) fn new() -> Self {
        Self(Mutex::new((Instant::now(), SystemTime::now())))
    }

    /// Whether nobody has looked for long. While the machine sleeps only the wall clock goes on, while
    /// the process is stopped both do.
    pub(super) fn has_jumped(&self) -> bool {
        self.look(Instant::now(), SystemTime::now())
    }

    fn look(&self, now: Instant, wall: SystemTime) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, wall_before) = std::mem::replace(&mut *last, (now, wall));
        let passed = now.saturating_duration_since(before);
        let wall_passed = wall.duration_since(wall_before).unwrap_or_default();
        passed.max(wall_passed) > JUMP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_18_a_sleep_and_a_stop_are_noticed_once() {
        let (start, wall) = (Instant::now(), SystemTime::now());
        let clock = Clock(Mutex::new((start, wall)));
        let second = Duration::from_secs(1);
        assert!(!clock.look(start + second, wall + second));
        assert!(clock.look(start + 2 * second, wall + 600 * second), "asleep");
        assert!(!clock.look(start + 3 * second, wall + 601 * second));
        assert!(clock.look(start + 60 * second, wall + 658 * second), "stopped");
        assert!(!clock.look(start + 61 * second, wall), "set back");
    }
}
