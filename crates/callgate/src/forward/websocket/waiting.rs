//! Who waits for a reply on a connection.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::End;
use crate::forward::mailbox::{Asked, Waiter};
use crate::forward::reply::{Addressee, Whole};
use crate::forward::reply_id::ReplyId;

/// Who waits, by the ids of their requests. Who went stays until the reply comes, or until there are
/// too many.
#[derive(Debug)]
pub(super) struct Waiting {
    calls: Mutex<HashMap<ReplyId, Waiter>>,
    /// More cannot wait at once.
    limit: usize,
}

impl Waiting {
    pub(super) fn new(limit: usize) -> Self {
        Self { calls: Mutex::default(), limit }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ReplyId, Waiter>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who waits, and has what is to be written. Nothing is, if nobody waits any more.
    pub(super) fn add(&self, asked: Asked) -> Option<Bytes> {
        let Asked { id, body, waiter, .. } = asked;
        if !waiter.is_there() {
            return None;
        }
        let mut calls = self.calls();
        if calls.len() > self.limit {
            calls.retain(|_, waiter| waiter.is_there());
        }
        calls.insert(id, waiter);
        Some(body)
    }

    /// Hands a message to who waits for it, if anybody does.
    pub(super) fn answer(&self, message: String) -> bool {
        let mut calls = self.calls();
        let waiter = match Addressee::of(&message) {
            Addressee::Request(id) => calls.remove(&id),
            // Somebody could not read a request. If there is only one, it is that.
            Addressee::Unnamed if calls.len() == 1 => {
                calls.drain().next().map(|(_, waiter)| waiter)
            }
            Addressee::Unnamed | Addressee::Nobody => None,
        };
        drop(calls);
        waiter.is_some_and(|waiter| waiter.tell(Ok(Whole::bare(message))))
    }

    /// Nothing will come any more.
    pub(super) fn fail_all(&self, end: &End) {
        let calls = std::mem::take(&mut *self.calls());
        let is_only = calls.len() == 1;
        for waiter in calls.into_values() {
            waiter.tell(Err(end.failure(is_only)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Safety;

    #[test]
    fn calls_that_nobody_waits_for_are_not_kept_for_ever() {
        let waiting = Waiting::new(3);
        let asked = |number| {
            let (terms, body, hold) = Default::default();
            Asked::new(ReplyId::Number(number), terms, body, Safety::ReadOnly, hold)
        };
        for number in 1..100 {
            let (asked, answer) = asked(number);
            assert!(waiting.add(asked).is_some());
            drop(answer);
            assert!(waiting.calls().len() <= 4);
        }
        let (asked, answer) = asked(100);
        drop(answer);
        assert!(waiting.add(asked).is_none(), "it is not even sent");
    }
}
