//! The circuit breaker: stops sending requests to a service that cannot be reached.
//!
//! Consecutive connection failures open the breaker. After a pause, one call probes the service. The result of this
//! call closes the breaker or starts another pause.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Settings of the circuit breaker.
///
/// Value of [`ForwardLimits::breaker`](crate::upstream::forward::ForwardLimits::breaker).
/// [`ForwardOptions`](crate::upstream::forward::ForwardOptions) has an example.
#[derive(Debug, Clone, Copy)]
pub struct BreakerLimits {
    /// Number of consecutive calls without a connection after which the breaker opens.
    pub failures: u32,
    /// Time after which an open breaker lets one call probe the service.
    pub pause: Duration,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(5) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
    Closed(u32),
    /// Calls are not sent until this time.
    Open(Instant),
    /// One call probes the service.
    Probing,
}

#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    limits: BreakerLimits,
    state: Mutex<BreakerState>,
}

/// Permission to send a request. After a pause, one request is the probe: it shows whether the service can be
/// reached again. If the probe is dropped without a result, the next request is the probe.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    breaker: &'a CircuitBreaker,
    is_probe: bool,
    is_settled: bool,
}

impl CircuitBreaker {
    pub(crate) fn new(limits: BreakerLimits) -> Self {
        Self { limits, state: Mutex::new(BreakerState::Closed(0)) }
    }

    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attempt(&self) -> Option<Attempt<'_>> {
        let mut state = self.state();
        let is_probe = match *state {
            BreakerState::Closed(_) => false,
            BreakerState::Open(until) if Instant::now() >= until => {
                *state = BreakerState::Probing;
                true
            }
            BreakerState::Open(_) | BreakerState::Probing => return None,
        };
        Some(Attempt { breaker: self, is_probe, is_settled: false })
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(*self.state(), BreakerState::Closed(_))
    }
}

impl Attempt<'_> {
    pub(crate) fn settle(&mut self, is_connection_failure: bool) {
        if is_connection_failure { self.failed() } else { self.reached() }
    }

    pub(crate) fn reached(&mut self) {
        self.is_settled = true;
        let mut state = self.breaker.state();
        // A later call may have opened the breaker meanwhile.
        if self.is_probe || matches!(*state, BreakerState::Closed(1..)) {
            *state = BreakerState::Closed(0);
        }
    }

    pub(crate) fn failed(&mut self) {
        self.is_settled = true;
        let BreakerLimits { failures, pause } = self.breaker.limits;
        let mut state = self.breaker.state();
        *state = match *state {
            BreakerState::Closed(count) if count + 1 < failures => BreakerState::Closed(count + 1),
            BreakerState::Closed(_) => BreakerState::Open(Instant::now() + pause),
            BreakerState::Probing if self.is_probe => BreakerState::Open(Instant::now() + pause),
            other => other,
        };
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_settled {
            *self.breaker.state() = BreakerState::Open(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> CircuitBreaker {
        CircuitBreaker::new(BreakerLimits { failures: 2, pause: Duration::from_secs(5) })
    }

    fn fail(breaker: &CircuitBreaker) {
        breaker.attempt().unwrap().failed();
    }

    #[tokio::test(start_paused = true)]
    async fn consecutive_failures_open_the_breaker_and_one_probe_closes_it() {
        let breaker = breaker();
        fail(&breaker);
        breaker.attempt().unwrap().reached();
        fail(&breaker);
        assert!(!breaker.is_open(), "the failures are not consecutive");
        fail(&breaker);
        assert!(breaker.is_open());
        assert!(breaker.attempt().is_none());
        tokio::time::advance(Duration::from_secs(5)).await;
        let mut probe = breaker.attempt().unwrap();
        assert!(breaker.attempt().is_none(), "only one call may probe");
        probe.failed();
        drop(probe);
        assert!(breaker.attempt().is_none(), "another pause has begun");
        tokio::time::advance(Duration::from_secs(5)).await;
        breaker.attempt().unwrap().reached();
        assert!(!breaker.is_open());
        assert!(breaker.attempt().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn another_call_may_probe_after_a_probe_is_dropped() {
        let breaker = breaker();
        fail(&breaker);
        fail(&breaker);
        tokio::time::advance(Duration::from_secs(5)).await;
        drop(breaker.attempt().unwrap());
        assert!(breaker.is_open());
        assert!(breaker.attempt().is_some());
    }

    #[test]
    fn a_call_that_began_before_the_breaker_opened_does_not_close_it() {
        let breaker = breaker();
        let mut old = breaker.attempt().unwrap();
        fail(&breaker);
        fail(&breaker);
        old.reached();
        assert!(breaker.is_open());
    }
}
