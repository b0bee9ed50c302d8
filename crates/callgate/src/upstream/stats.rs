//! Counts the calls of an upstream by their outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::upstream::Counters;

/// Statistics of an upstream with `N` outcomes.
#[derive(Debug)]
pub(crate) struct CallStats<const N: usize> {
    outcomes: [AtomicU64; N],
    retries: AtomicU64,
    under_way: AtomicU64,
}

impl<const N: usize> Default for CallStats<N> {
    fn default() -> Self {
        Self {
            outcomes: [const { AtomicU64::new(0) }; N],
            retries: AtomicU64::default(),
            under_way: AtomicU64::default(),
        }
    }
}

impl<const N: usize> CallStats<N> {
    /// Returns the counters. `names` are the names of the outcomes in metrics.
    pub(crate) fn counters(&self, names: impl Iterator<Item = &'static str>) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            outcomes: names.zip(self.outcomes.iter().map(read)).collect(),
            retries: read(&self.retries),
            under_way: read(&self.under_way),
        }
    }

    #[cfg(feature = "forward")]
    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call in progress. `outcome` is counted if the call is dropped before it ends.
    pub(crate) fn begin(&self, outcome: usize) -> CountedCall<'_, N> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        CountedCall { stats: self, outcome }
    }
}

/// A call in progress. Counts its outcome on drop.
#[derive(Debug)]
pub(crate) struct CountedCall<'a, const N: usize> {
    stats: &'a CallStats<N>,
    pub(crate) outcome: usize,
}

impl<const N: usize> Drop for CountedCall<'_, N> {
    fn drop(&mut self) {
        self.stats.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(counter) = self.stats.outcomes.get(self.outcome) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
