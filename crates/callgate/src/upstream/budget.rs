//! Limit on the memory for results of all calls.
//!
//! Each call has a [`BudgetReservation`], which grows while its result is read and is released when the
//! reply is sent. If the budget is exhausted, the call fails: waiting for other calls, which may wait as
//! well, could deadlock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use thiserror::Error;

use crate::access::{Principal, Share, Shares};

/// Default limit for all results, in bytes.
pub const DEFAULT_IN_FLIGHT_BYTES: usize = 256 << 20;

/// Results up to this size are not counted: the number of connections limits them, and counting each would
/// be slower.
const SMALL: usize = 64 << 10;

/// The results of all calls would exceed the limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the results of all calls would exceed {0} bytes")]
pub struct BudgetExceeded(pub usize);

/// Memory reserved for the result of a call. Released on drop.
#[derive(Debug)]
pub struct BudgetReservation {
    share: Share,
    bytes: AtomicUsize,
}

/// A reservation without a limit.
impl Default for BudgetReservation {
    fn default() -> Self {
        Self::new(&Shares::new(usize::MAX), Principal::Unknown)
    }
}

impl BudgetReservation {
    pub(crate) fn new(budget: &Arc<Shares>, principal: Principal) -> Self {
        Self { share: budget.empty(principal), bytes: AtomicUsize::new(0) }
    }

    /// Reserves additional bytes.
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

    /// Returns an empty reservation for the same caller.
    #[cfg(feature = "forward")]
    pub(crate) fn another(&self) -> Self {
        Self { share: self.share.another(), bytes: AtomicUsize::new(0) }
    }

    /// Extends the reservation to at least `bytes`.
    pub(crate) fn at_least(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.add(bytes.saturating_sub(self.bytes.load(Ordering::Relaxed)))
    }

    /// Ties the reservation to `bytes`: it is released when the last copy is dropped.
    pub(crate) fn keep(self, bytes: Bytes) -> Bytes {
        if counted(self.bytes.load(Ordering::Relaxed)) == 0 {
            return bytes;
        }
        Bytes::from_owner(ReservedBytes { bytes, _hold: self })
    }
}

/// Bytes with their reservation.
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
    fn results_share_the_budget_and_release_it() {
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
