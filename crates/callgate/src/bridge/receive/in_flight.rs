//! The requests in flight. Ensures that each request gets exactly one response.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use crate::bridge::receive::message::MessageId;

/// How a request is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelBy {
    Message,
    /// By sending a message. Other requests of the same batch continue.
    BatchMessage,
    Disconnect,
    /// By closing the connection. The connection is also closed when the input ends, because a request of this kind
    /// does not end by itself.
    DisconnectAtEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingState {
    /// The server has not received the request.
    Unsent,
    /// The server may have received the request.
    Sent,
    Cancelled,
}

#[derive(Debug)]
struct PendingRequest {
    cancel_by: CancelBy,
    state: PendingState,
    task: Option<AbortHandle>,
}

impl PendingRequest {
    fn is_waiting(&self) -> bool {
        self.state != PendingState::Cancelled
    }

    fn abort(self) {
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct PendingRequests(Mutex<HashMap<MessageId, PendingRequest>>);

impl PendingRequests {
    fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, PendingRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn has(&self, id: &MessageId) -> bool {
        self.lock().contains_key(id)
    }

    /// Adds all of these requests. If one of the ids is already in flight, returns that id as the error and adds none.
    pub(crate) fn begin(&self, ids: &[MessageId], cancel_by: CancelBy) -> Result<(), MessageId> {
        let mut pending = self.lock();
        for (index, id) in ids.iter().enumerate() {
            if pending.contains_key(id) || ids.iter().take(index).any(|other| other == id) {
                return Err(id.clone());
            }
        }
        for id in ids {
            pending.insert(
                id.clone(),
                PendingRequest { cancel_by, state: PendingState::Unsent, task: None },
            );
        }
        Ok(())
    }

    fn update(&self, ids: &[MessageId], change: impl Fn(&mut PendingRequest)) {
        let mut pending = self.lock();
        for id in ids {
            if let Some(request) = pending.get_mut(id) {
                change(request);
            }
        }
    }

    pub(crate) fn set_task(&self, ids: &[MessageId], task: &AbortHandle) {
        self.update(ids, |request| request.task = Some(task.clone()));
    }

    pub(crate) fn set_sent(&self, ids: &[MessageId], is_sent: bool) {
        self.update(ids, |request| {
            if request.is_waiting() {
                request.state = if is_sent { PendingState::Sent } else { PendingState::Unsent };
            }
        });
    }

    /// Removes a request. Returns `true` if the client still waits for its response.
    pub(crate) fn complete(&self, id: &MessageId) -> bool {
        self.lock().remove(id).is_some_and(|request| request.is_waiting())
    }

    /// Returns `true` if one of these requests is neither completed nor cancelled.
    pub(crate) fn are_waiting(&self, ids: &[MessageId]) -> bool {
        let pending = self.lock();
        ids.iter().any(|id| pending.get(id).is_some_and(PendingRequest::is_waiting))
    }

    /// Cancels a request. Returns `true` if the cancellation must be sent to the server.
    pub(crate) fn cancel(&self, id: &MessageId) -> bool {
        let mut pending = self.lock();
        let Some(request) = pending.get_mut(id) else { return true };
        let is_silent = match request.cancel_by {
            CancelBy::Disconnect | CancelBy::DisconnectAtEnd => true,
            CancelBy::Message => request.state == PendingState::Unsent,
            CancelBy::BatchMessage => false,
        };
        if !is_silent {
            request.state = PendingState::Cancelled;
        } else if let Some(request) = pending.remove(id) {
            request.abort();
        }
        !is_silent
    }

    /// Aborts a request that was cancelled by a message. It might not end by itself, because some servers never
    /// close the stream of a cancelled request.
    pub(crate) fn abandon(&self, id: &MessageId) {
        let mut pending = self.lock();
        let is_cancelled_by_message = |request: &PendingRequest| {
            request.cancel_by == CancelBy::Message && request.state == PendingState::Cancelled
        };
        if pending.get(id).is_some_and(is_cancelled_by_message)
            && let Some(request) = pending.remove(id)
        {
            request.abort();
        }
    }

    /// Removes all requests. Returns those that wait for a response.
    pub(crate) fn take_waiting(&self) -> Vec<MessageId> {
        let all = std::mem::take(&mut *self.lock());
        all.into_iter().filter(|(_, request)| request.is_waiting()).map(|(id, _)| id).collect()
    }

    /// Aborts the requests that would not end by themselves.
    pub(crate) fn end_listening(&self) {
        let is_listening = |_: &MessageId, request: &mut PendingRequest| {
            request.cancel_by == CancelBy::DisconnectAtEnd
        };
        for (_, request) in self.lock().extract_if(is_listening) {
            request.abort();
        }
    }
}
