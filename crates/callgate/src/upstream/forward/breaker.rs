//! Spares a service that cannot be reached, and its callers the wait.
//!
//! Connections that fail one after the other open the breaker. While it is open nothing is sent;
//! after a pause one call is let through, and how that goes decides.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When a service is left alone.
#[derive(Debug, Clone, Copy)]
pub struct BreakerLimits {
    /// So many calls in a row that found no connection open it.
    pub failures: u32,
    /// So long nothing is tried then.
    pub pause: Duration,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(5) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// With so many failures in a row.
    Closed(u32),
    /// Until then.
    Open(Instant),
    /// One call finds out.
    Probing,
}

#[derive(Debug)]
pub(super) struct Breaker {
    limits: BreakerLimits,
    state: Mutex<State>,
}

/// Leave to try. A call that is given up leaves things as they were.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
    is_settled: bool,
}

impl Breaker {
    pub(super) fn new(limits: BreakerLimits) -> Self {
        Self { limits, state: Mutex::new(State::Closed(0)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may be tried now.
    pub(super) fn attempt(&self) -> Option<Attempt<'_>> {
        let mut state = self.state();
        let is_probe = match *state {
            State::Closed(_) => false,
            State::Open(until) if Instant::now() >= until => {
                *state = State::Probing;
                true
            }
            State::Open(_) | State::Probing => return None,
        };
        Some(Attempt { breaker: self, is_probe, is_settled: false })
    }

    /// Whether connections have failed, and none was made since.
    pub(super) fn is_open(&self) -> bool {
        !matches!(*self.state(), State::Closed(_))
    }
}

impl Attempt<'_> {
    pub(super) fn settle(&mut self, found_no_connection: bool) {
        if found_no_connection { self.failed() } else { self.reached() }
    }

    /// There was a connection, whatever came of it.
    pub(super) fn reached(&mut self) {
        self.is_settled = true;
        let mut state = self.breaker.state();
        // Another call may have opened it meanwhile: what is newer counts.
        if self.is_probe || matches!(*state, State::Closed(1..)) {
            *state = State::Closed(0);
        }
    }

    /// There was none.
    pub(super) fn failed(&mut self) {
        self.is_settled = true;
        let BreakerLimits { failures, pause } = self.breaker.limits;
        let mut state = self.breaker.state();
        *state = match *state {
            State::Closed(before) if before + 1 < failures => State::Closed(before + 1),
            State::Closed(_) => State::Open(Instant::now() + pause),
            State::Probing if self.is_probe => State::Open(Instant::now() + pause),
            other => other,
        };
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_settled {
            *self.breaker.state() = State::Open(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Breaker {
        Breaker::new(BreakerLimits { failures: 2, pause: Duration::from_secs(5) })
    }

    fn fail(breaker: &Breaker) {
        breaker.attempt().unwrap().failed();
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it_and_one_probe_closes_it() {
        let breaker = breaker();
        fail(&breaker);
        breaker.attempt().unwrap().reached();
        fail(&breaker);
        assert!(!breaker.is_open(), "not in a row");
        fail(&breaker);
        assert!(breaker.is_open());
        assert!(breaker.attempt().is_none());
        tokio::time::advance(Duration::from_secs(5)).await;
        let mut probe = breaker.attempt().unwrap();
        assert!(breaker.attempt().is_none(), "one at a time");
        probe.failed();
        drop(probe);
        assert!(breaker.attempt().is_none(), "it waits again");
        tokio::time::advance(Duration::from_secs(5)).await;
        breaker.attempt().unwrap().reached();
        assert!(!breaker.is_open());
        assert!(breaker.attempt().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_makes_room_for_another() {
        let breaker = breaker();
        fail(&breaker);
        fail(&breaker);
        tokio::time::advance(Duration::from_secs(5)).await;
        drop(breaker.attempt().unwrap());
        assert!(breaker.is_open());
        assert!(breaker.attempt().is_some());
    }

    #[test]
    fn an_old_call_closes_nothing() {
        let breaker = breaker();
        let mut old = breaker.attempt().unwrap();
        fail(&breaker);
        fail(&breaker);
        old.reached();
        assert!(breaker.is_open());
    }
}
