//! How much of results is in memory at once, over all calls (D28).
//!
//! A call has a [`BudgetReservation`]. What is read of its result is counted there, and is given back when the reply has
//! been sent. Where that would be more than all may have together, the call fails: to wait for others, who may
//! wait as well, could last forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use thiserror::Error;

use crate::access::{Principal, Share, Shares};

/// How much all results may have together unless told otherwise.
pub const DEFAULT_IN_FLIGHT_BYTES: usize = 256 << 20;

/// A result up to this is not counted: their number is bounded by that of connections, and to count each would
/// cost more than it tells.
const SMALL: usize = 64 << 10;

/// Results that would need more memory than there is for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("results in memory would have more than {0} bytes together")]
pub struct BudgetExceeded(pub usize);

/// The result of a call, as far as it is in memory. Its bytes are given back when this is dropped.
#[derive(Debug)]
pub struct BudgetReservation {
    share: Share,
    bytes: AtomicUsize,
}

/// Of a call that shares with no other.
impl Default for BudgetReservation {
    fn default() -> Self {
        Self::new(&Shares::new(usize::MAX), Principal::Unknown)
    }
}

impl BudgetReservation {
    pub(crate) fn new(budget: &Arc<Shares>, principal: Principal) -> Self {
        Self { share: budget.empty(principal), bytes: AtomicUsize::new(0) }
    }

    /// Counts further bytes, if there is room for them.
    pub fn add(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        let before = self.bytes.load(Ordering::Relaxed);
        let now = before.saturating_add(bytes);
        match counted(now) - counted(before) {
            0 => {}
            more => self.share.grow(more).map_err(|_| BudgetExceeded(self.share.limit()))?,
        }
        self.bytes.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// For something else of the same caller.
    #[cfg(feature = "forward")]
    pub(crate) fn another(&self) -> Self {
        Self { share: self.share.another(), bytes: AtomicUsize::new(0) }
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
    fn results_share_what_there_is_and_give_it_back() {
        let budget = Shares::new(10 * SMALL);
        let reserve = |user| BudgetReservation::new(&budget, Principal::User(user));
        let (first, second) = (reserve(1), reserve(2));
        first.add(SMALL).unwrap();
        assert_eq!(budget.used(), 0, "small ones are not counted");
        first.add(5 * SMALL).unwrap();
        assert_eq!(budget.used(), 6 * SMALL, "with what was read before");
        assert_eq!(second.add(5 * SMALL), Err(BudgetExceeded(10 * SMALL)));
        assert_eq!(
            second.add(4 * SMALL),
            Err(BudgetExceeded(10 * SMALL)),
            "the last is for a third"
        );
        second.add(3 * SMALL).unwrap();
        second.at_least(2 * SMALL).unwrap();
        assert_eq!(budget.used(), 9 * SMALL);
        drop(first);
        assert_eq!(budget.used(), 3 * SMALL);
        let kept = second.keep(Bytes::from_static(b"reply"));
        let copy = kept.clone();
        drop(kept);
        assert_eq!((budget.used(), &*copy), (3 * SMALL, &b"reply"[..]));
        drop(copy);
        assert_eq!(budget.used(), 0);
    }
}
