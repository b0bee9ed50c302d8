//! Requests in flight: which of them wait for a response, and what ends them. Each is answered once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::message::Id;

/// How a request is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelBy {
    /// By a message to the server.
    Message,
    /// By a message; the other requests of the batch go on.
    BatchMessage,
    /// By closing the connection.
    Disconnect,
    /// By closing the connection, also at the end of the input, since it has no end of its own.
    DisconnectAtEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server cannot know of it.
    Unsent,
    /// The server may know of it.
    Sent,
    Cancelled,
}

#[derive(Debug)]
struct Pending {
    cancel_by: CancelBy,
    state: State,
    task: Option<AbortHandle>,
}

impl Pending {
    fn is_waiting(&self) -> bool {
        self.state != State::Cancelled
    }

    fn abort(self) {
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

/// The requests in flight, by id.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<Id, Pending>>);

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn has(&self, id: &Id) -> bool {
        self.lock().contains_key(id)
    }

    /// Adds all of these requests, or none if an id is taken, which is the error then.
    pub(super) fn begin(&self, ids: &[Id], cancel_by: CancelBy) -> Result<(), Id> {
        let mut pending = self.lock();
        for (at, id) in ids.iter().enumerate() {
            if pending.contains_key(id) || ids.iter().take(at).any(|other| other == id) {
                return Err(id.clone());
            }
        }
        for id in ids {
            pending.insert(id.clone(), Pending { cancel_by, state: State::Unsent, task: None });
        }
        Ok(())
    }

    /// Applies a change to those of these requests that are in flight.
    fn update(&self, ids: &[Id], change: impl Fn(&mut Pending)) {
        let mut pending = self.lock();
        for id in ids {
            if let Some(request) = pending.get_mut(id) {
                change(request);
            }
        }
    }

    /// Sets the task that runs these requests.
    pub(super) fn set_task(&self, ids: &[Id], task: &AbortHandle) {
        self.update(ids, |request| request.task = Some(task.clone()));
    }

    /// Sets whether the server may know of these requests.
    pub(super) fn set_sent(&self, ids: &[Id], is_sent: bool) {
        self.update(ids, |request| {
            if request.is_waiting() {
                request.state = if is_sent { State::Sent } else { State::Unsent };
            }
        });
    }

    /// Removes a request. Returns `true` if a response is still wanted.
    pub(super) fn answer(&self, id: &Id) -> bool {
        self.lock().remove(id).is_some_and(|request| request.is_waiting())
    }

    /// Returns `true` if one of these has neither been answered nor cancelled.
    pub(super) fn are_waiting(&self, ids: &[Id]) -> bool {
        let pending = self.lock();
        ids.iter().any(|id| pending.get(id).is_some_and(Pending::is_waiting))
    }

    /// Cancels a request for the client. Returns `true` if the server must be told.
    pub(super) fn cancel(&self, id: &Id) -> bool {
        let mut pending = self.lock();
        let Some(request) = pending.get_mut(id) else { return true };
        let is_silent = match request.cancel_by {
            CancelBy::Disconnect | CancelBy::DisconnectAtEnd => true,
            CancelBy::Message => request.state == State::Unsent,
            CancelBy::BatchMessage => false,
        };
        if !is_silent {
            request.state = State::Cancelled;
        } else if let Some(request) = pending.remove(id) {
            request.abort();
        }
        !is_silent
    }

    /// Ends a request that was cancelled by a message. Some servers never close its stream.
    pub(super) fn abandon(&self, id: &Id) {
        let mut pending = self.lock();
        let is_left = |request: &Pending| {
            request.cancel_by == CancelBy::Message && request.state == State::Cancelled
        };
        if pending.get(id).is_some_and(is_left)
            && let Some(request) = pending.remove(id)
        {
            request.abort();
        }
    }

    /// Removes all requests, and returns those that wait for a response.
    pub(super) fn take_waiting(&self) -> Vec<Id> {
        let all = std::mem::take(&mut *self.lock());
        all.into_iter().filter(|(_, request)| request.is_waiting()).map(|(id, _)| id).collect()
    }

    /// Ends the requests that have no end of their own.
    pub(super) fn end_listening(&self) {
        let listens =
            |_: &Id, request: &mut Pending| request.cancel_by == CancelBy::DisconnectAtEnd;
        for (_, request) in self.lock().extract_if(listens) {
            request.abort();
        }
    }
}
