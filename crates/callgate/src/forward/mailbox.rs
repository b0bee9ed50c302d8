//! Requests that a task sends for all, so that one who no longer waits takes nothing from the others.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::reply::Whole;
use super::reply_id::ReplyId;
use super::send_failure::SendFailure;

/// What a request came to.
pub(super) type Answered = Result<Whole, SendFailure>;

/// A request, and who waits for its answer.
pub(super) struct Asked {
    pub(super) id: ReplyId,
    pub(super) body: Bytes,
    pub(super) waiter: Waiter,
}

/// Who waits for an answer.
#[derive(Debug)]
pub(super) struct Waiter(oneshot::Sender<Answered>);

impl Waiter {
    pub(super) fn new() -> (Self, oneshot::Receiver<Answered>) {
        let (sender, answer) = oneshot::channel();
        (Self(sender), answer)
    }

    /// Whether anybody still waits.
    pub(super) fn is_there(&self) -> bool {
        !self.0.is_closed()
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
        (id, body): (ReplyId, Bytes),
        start: impl FnOnce(mpsc::Receiver<Asked>),
    ) -> Answered {
        let (waiter, answer) = Waiter::new();
        let asked = Asked { id, body, waiter };
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
