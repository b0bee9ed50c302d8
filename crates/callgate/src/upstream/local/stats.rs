//! Counts calls of functions by their outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use super::FunctionResult;
use crate::upstream::{CallError, Counters};

/// Outcomes in metrics, in the order of [`LocalStats::outcomes`].
const OUTCOMES: [&str; 4] = ["result", "error", "failed", "cancelled"];
const CANCELLED: usize = 3;

#[derive(Debug, Default)]
pub(super) struct LocalStats {
    outcomes: [AtomicU64; OUTCOMES.len()],
    under_way: AtomicU64,
}

impl LocalStats {
    pub(super) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outcomes = OUTCOMES.into_iter().zip(self.outcomes.iter().map(read)).collect();
        Counters { outcomes, retries: 0, under_way: read(&self.under_way) }
    }
}

/// A call in progress. If it is dropped before it ends, it counts as cancelled.
#[derive(Debug)]
pub(super) struct CountedCall<'a> {
    stats: &'a LocalStats,
    outcome: usize,
}

impl<'a> CountedCall<'a> {
    pub(super) fn begin(stats: &'a LocalStats) -> Self {
        stats.under_way.fetch_add(1, Ordering::Relaxed);
        Self { stats, outcome: CANCELLED }
    }

    pub(super) fn end(mut self, result: &FunctionResult) {
        self.outcome = match result {
            Ok(_) => 0,
            Err(CallError::Failed(_)) => 2,
            Err(_) => 1,
        };
    }
}

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        self.stats.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(counter) = self.stats.outcomes.get(self.outcome) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
