//! Limit on the memory for the results of all calls.
//!
//! Each call has a [`BudgetReservation`], which grows while the result is read and is released when the reply is sent.
//! The reservations of a batch also have a common limit. If the budget is exhausted, the call fails instead of waiting.
//! Waiting could deadlock, because the other calls may be waiting as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use thiserror::Error;

use crate::access::{BatchReplies, Caller, MAX_BATCH_REPLY_BYTES, Share, Shares};

/// Default limit for all results, in bytes.
///
/// Default of [`Builder::max_in_flight_bytes`](crate::Builder::max_in_flight_bytes) and
/// [`Gateway::max_in_flight_bytes`](crate::gateway::Gateway::max_in_flight_bytes).
pub const DEFAULT_IN_FLIGHT_BYTES: usize = 256 << 20;

/// Results up to this size, in bytes, are not counted unless their call is part of a batch. Counting them would
/// slow down each call. Outside of batches, the number of connections limits their total size.
const SMALL_RESULT: usize = 64 << 10;

/// The result of a call would exceed a limit.
///
/// Error of [`BudgetReservation::add`]. In an upstream, the operator `?` converts this error to a
/// [`CallError`](crate::upstream::CallError).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BudgetExceeded {
    /// The results of all calls would exceed this number of bytes.
    #[error("the results of all calls would exceed {0} bytes")]
    Total(usize),
    /// The replies to the batch would exceed the limit of a batch.
    #[error("the replies to the batch exceed {MAX_BATCH_REPLY_BYTES} bytes")]
    Batch,
    /// The result is larger than the limit of its tool. The value is this limit, in bytes.
    #[error("the result exceeds {0} bytes, the limit of the tool")]
    Tool(usize),
}

/// Memory reserved for the result of a call.
///
/// Upstreams get a reservation in each [`Call`](crate::upstream::Call), and can extend the reservation with
/// [`add`](Self::add). The memory is released on drop.
#[derive(Debug)]
pub struct BudgetReservation {
    share: Share,
    bytes: AtomicUsize,
    batch: Option<Arc<BatchReplies>>,
    /// Maximum size of the result.
    max_result: Option<usize>,
}

/// A reservation without a limit.
impl Default for BudgetReservation {
    fn default() -> Self {
        Self::new(&Shares::new(usize::MAX), &Caller::anonymous())
    }
}

impl BudgetReservation {
    pub(crate) fn new(budget: &Arc<Shares>, caller: &Caller) -> Self {
        let (share, batch) = (budget.empty(caller.principal()), caller.batch().cloned());
        Self { share, bytes: AtomicUsize::new(0), batch, max_result: None }
    }

    /// Sets the maximum size of the result. While the response is read, [`SMALL_RESULT`] more bytes are allowed,
    /// because the response contains more than the result.
    #[must_use]
    pub(crate) fn for_result_up_to(self, max_result: Option<usize>) -> Self {
        Self { max_result, ..self }
    }

    /// Checks that the result, with this number of bytes, does not exceed the maximum. Then extends the reservation
    /// to this size, and removes the maximum, because the reply that contains the result may be larger.
    pub(crate) fn reserve_result(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        match self.max_result.take() {
            Some(max) if bytes > max => Err(BudgetExceeded::Tool(max)),
            _ => self.at_least(bytes),
        }
    }

    /// Reserves additional bytes.
    pub fn add(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        if self.batch.as_ref().is_some_and(|batch| !batch.add(bytes)) {
            return Err(BudgetExceeded::Batch);
        }
        let previous = self.bytes.load(Ordering::Relaxed);
        let total = previous.saturating_add(bytes);
        if let Some(max) = self.max_result.filter(|max| total > max.saturating_add(SMALL_RESULT)) {
            return Err(BudgetExceeded::Tool(max));
        }
        match self.counted(total) - self.counted(previous) {
            0 => {}
            increase => {
                self.share.grow(increase).map_err(|_| BudgetExceeded::Total(self.share.limit()))?;
            }
        }
        self.bytes.store(total, Ordering::Relaxed);
        Ok(())
    }

    /// Returns an empty reservation for the same caller. The new reservation does not count against the limit of a
    /// batch.
    #[cfg(feature = "forward")]
    pub(crate) fn empty_for_same_caller(&self) -> Self {
        let share = self.share.new_empty();
        Self { share, bytes: AtomicUsize::new(0), batch: None, max_result: None }
    }

    /// Returns `true` if both reservations belong to the same caller.
    #[cfg(feature = "forward")]
    pub(crate) fn is_of_same_caller(&self, other: &Self) -> bool {
        self.share.is_of_same_principal(&other.share)
    }

    /// Extends the reservation to at least `bytes`.
    pub(crate) fn at_least(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.add(bytes.saturating_sub(self.bytes.load(Ordering::Relaxed)))
    }

    /// Ties the reservation to `bytes`. The reservation is released when the last copy of the bytes is dropped.
    pub(crate) fn keep(self, bytes: Bytes) -> Bytes {
        if self.counted(self.bytes.load(Ordering::Relaxed)) == 0 {
            return bytes;
        }
        Bytes::from_owner(ReservedBytes { bytes, _reservation: self })
    }

    fn counted(&self, bytes: usize) -> usize {
        if bytes > SMALL_RESULT || self.batch.is_some() { bytes } else { 0 }
    }
}

/// Bytes that keep their reservation.
struct ReservedBytes {
    bytes: Bytes,
    _reservation: BudgetReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Grants, User};

    fn user(id: i64) -> Caller {
        Caller::user(User { id, name: id.to_string(), role: None }, Grants::default())
    }

    #[test]
    fn results_share_the_budget_and_release_it() {
        let budget = Shares::new(10 * SMALL_RESULT);
        let reserve = |id| BudgetReservation::new(&budget, &user(id));
        let (first, second) = (reserve(1), reserve(2));
        first.add(SMALL_RESULT).unwrap();
        assert_eq!(budget.used(), 0, "small results are not counted");
        first.add(5 * SMALL_RESULT).unwrap();
        assert_eq!(budget.used(), 6 * SMALL_RESULT, "earlier bytes count too");
        assert_eq!(second.add(5 * SMALL_RESULT), Err(BudgetExceeded::Total(10 * SMALL_RESULT)));
        assert_eq!(
            second.add(4 * SMALL_RESULT),
            Err(BudgetExceeded::Total(10 * SMALL_RESULT)),
            "one unit is left for a third caller"
        );
        second.add(3 * SMALL_RESULT).unwrap();
        second.at_least(2 * SMALL_RESULT).unwrap();
        assert_eq!(budget.used(), 9 * SMALL_RESULT);
        drop(first);
        assert_eq!(budget.used(), 3 * SMALL_RESULT);
        let reply = second.keep(Bytes::from_static(b"reply"));
        let copy = reply.clone();
        drop(reply);
        assert_eq!((budget.used(), &*copy), (3 * SMALL_RESULT, &b"reply"[..]));
        drop(copy);
        assert_eq!(budget.used(), 0);
    }
    #[test]
    fn small_results_of_a_batch_count_together() {
        let budget = Shares::new(1 << 30);
        let caller = user(1).in_batch();
        let results = MAX_BATCH_REPLY_BYTES / SMALL_RESULT;
        let replies: Vec<_> = (0..results)
            .map(|_| {
                let reservation = BudgetReservation::new(&budget, &caller);
                reservation.add(SMALL_RESULT).unwrap();
                reservation.keep(Bytes::from_static(b"reply"))
            })
            .collect();
        assert_eq!(budget.used(), MAX_BATCH_REPLY_BYTES);
        let next_reservation = BudgetReservation::new(&budget, &caller);
        assert_eq!(next_reservation.add(1), Err(BudgetExceeded::Batch));
        assert!(caller.batch().unwrap().is_full());
        BudgetReservation::new(&budget, &user(1).in_batch()).add(1).unwrap();
        drop(replies);
        assert_eq!(budget.used(), 0);
    }
}
