//! Requests that a task sends for all, so that one who no longer waits takes nothing from the others.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};

use super::options::Hidden;
use super::reply::Whole;
use super::reply_id::ReplyId;
use super::send_failure::SendFailure;
use crate::budget::Hold;
use crate::method::Safety;

/// What a request came to.
pub(super) type Answered = Result<Whole, SendFailure>;

/// What requests must have in common to go out as one.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Terms {
    pub(super) headers: HeaderMap,
    /// That of the user who asks, where it is not in a header.
    pub(super) credential: Hidden,
}

/// A request, and who waits for its answer.
pub(super) struct Asked {
    pub(super) id: ReplyId,
    pub(super) terms: Terms,
    pub(super) body: Bytes,
    /// Whether it may be sent once more.
    pub(super) safety: Safety,
    /// For what is read of the answer.
    pub(super) hold: Hold,
    pub(super) waiter: Waiter,
}

impl Asked {
    /// A request, and where its answer will be.
    pub(super) fn new(
        id: ReplyId,
        terms: Terms,
        body: Bytes,
        safety: Safety,
        hold: Hold,
    ) -> (Self, oneshot::Receiver<Answered>) {
        let (sender, answer) = oneshot::channel();
        (Self { id, terms, body, safety, hold, waiter: Waiter(sender) }, answer)
    }
}

/// Who waits for an answer.
#[derive(Debug)]
pub(super) struct Waiter(oneshot::Sender<Answered>);

impl Waiter {
    /// Whether anybody still waits.
    pub(super) fn is_there(&self) -> bool {
        !self.0.is_closed()
    }

    /// Comes back when nobody waits any more.
    pub(super) async fn gone(&mut self) {
        self.0.closed().await;
    }

    /// Whether it was still waited for.
    pub(super) fn tell(self, answered: Answered) -> bool {
        self.0.send(answered).is_ok()
    }
}

/// The way to the task that sends. There is one when there is something to send.
#[derive(Debug)]
pub(super) struct Mailbox {
    capacity: usize,
    current: Mutex<Option<mpsc::Sender<Asked>>>,
}

impl Mailbox {
    /// For so many requests that were not taken yet; who has one more waits.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), current: Mutex::new(None) }
    }

    /// Hands a request over and waits for its answer. Where no task takes requests, one is started.
    pub(super) async fn ask(
        &self,
        (asked, answer): (Asked, oneshot::Receiver<Answered>),
        start: impl FnOnce(mpsc::Receiver<Asked>),
    ) -> Answered {
        if self.sender(start).send(asked).await.is_err() {
            return Err(SendFailure::never_sent("the connection ended"));
        }
        // A task that was stopped says nothing, and may have sent it.
        answer.await.unwrap_or_else(|_| Err(SendFailure::broken("the connection was given up")))
    }

    fn sender(&self, start: impl FnOnce(mpsc::Receiver<Asked>)) -> mpsc::Sender<Asked> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(sender) if !sender.is_closed() => sender.clone(),
            _ => {
                let (sender, requests) = mpsc::channel(self.capacity);
                start(requests);
                *current = Some(sender.clone());
                sender
            }
        }
    }
}
