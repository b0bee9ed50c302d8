//! How much of results is in memory at once, over all calls (D28).
//!
//! A call has a [`BudgetReservation`]. What is read of its result is counted there, and is given back when the reply has
//! been sent. Where that would be more than all may have together, the call fails: to wait for others, who may
//! wait as well, could last forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use thiserror::Error;

/// How much all results may have together unless told otherwise.
pub const DEFAULT_IN_FLIGHT_BYTES: usize = 256 << 20;

/// A result up to this is not counted: their number is bounded by that of connections, and to count each would
/// cost more than it tells.
const SMALL: usize = 64 << 10;

/// What all results may have together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_IN_FLIGHT_BYTES)
    }
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// For one call.
    pub(crate) fn reserve(self: &Arc<Self>) -> BudgetReservation {
        BudgetReservation { budget: Arc::clone(self), bytes: AtomicUsize::new(0) }
    }

    fn take(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(drop).map_err(|_| BudgetExceeded(self.limit))
    }
}

/// Results that would need more memory than there is for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("results in memory would have more than {0} bytes together")]
pub struct BudgetExceeded(pub usize);

/// The result of a call, as far as it is in memory. Its bytes are given back when this is dropped.
#[derive(Debug)]
pub struct BudgetReservation {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

/// Of a call that shares with no other.
impl Default for BudgetReservation {
    fn default() -> Self {
        Arc::new(Budget::new(usize::MAX)).reserve()
    }
}

impl BudgetReservation {
    /// Counts further bytes, if there is room for them.
    pub fn add(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        let before = self.bytes.load(Ordering::Relaxed);
        let now = before.saturating_add(bytes);
        match counted(now) - counted(before) {
            0 => {}
            more => self.budget.take(more)?,
        }
        self.bytes.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// For something else, which shares with the same others.
    #[cfg(feature = "forward")]
    pub(crate) fn another(&self) -> Self {
        self.budget.reserve()
    }

    /// Counts a result of which a part may have been counted.
    pub(crate) fn at_least(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.add(bytes.saturating_sub(self.bytes.load(Ordering::Relaxed)))
    }

    /// The same bytes, which are given back when the last copy of them is gone.
    pub(crate) fn keep(self, bytes: Bytes) -> Bytes {
        if counted(self.bytes.load(Ordering::Relaxed)) == 0 {
            return bytes;
        }
        Bytes::from_owner(ReservedBytes { bytes, _hold: self })
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        let counted = counted(*self.bytes.get_mut());
        if counted > 0 {
            self.budget.used.fetch_sub(counted, Ordering::Relaxed);
        }
    }
}

/// A reply with the count of the result in it.
struct ReservedBytes {
    bytes: Bytes,
    _hold: BudgetReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn counted(bytes: usize) -> usize {
    if bytes > SMALL { bytes } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d28_results_share_what_there_is_and_give_it_back() {
        let budget = Arc::new(Budget::new(10 * SMALL));
        let (first, second) = (budget.reserve(), budget.reserve());
        first.add(SMALL).unwrap();
        assert_eq!(budget.used(), 0, "small ones are not counted");
        first.add(5 * SMALL).unwrap();
        assert_eq!(budget.used(), 6 * SMALL, "with what was read before");
        assert_eq!(second.add(5 * SMALL), Err(BudgetExceeded(10 * SMALL)));
        second.add(4 * SMALL).unwrap();
        second.at_least(3 * SMALL).unwrap();
        assert_eq!(budget.used(), 10 * SMALL);
        drop(first);
        assert_eq!(budget.used(), 4 * SMALL);
        let kept = second.keep(Bytes::from_static(b"reply"));
        let copy = kept.clone();
        drop(kept);
        assert_eq!((budget.used(), &*copy), (4 * SMALL, &b"reply"[..]));
        drop(copy);
        assert_eq!(budget.used(), 0);
    }
}
