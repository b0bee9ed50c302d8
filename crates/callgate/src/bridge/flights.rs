//! Requests under way: who waits for an answer, and what ends them. Each is answered once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::message::Id;

/// How a request ends before its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A message cancels it.
    Legacy,
    /// So it is here, but the others in the batch go on.
    Batch,
    /// Leaving the connection cancels it.
    Modern,
    /// So does the end of the input, since it has no end of its own.
    Listening,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server cannot know of it.
    Unsent,
    /// The server may know of it.
    Sent,
    /// Nobody waits for it.
    Cancelled,
}

/// What is known of a request under way.
#[derive(Debug)]
struct Flight {
    way: Way,
    state: State,
    task: Option<AbortHandle>,
}

impl Flight {
    fn is_waiting(&self) -> bool {
        self.state != State::Cancelled
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<Id, Flight>>);

/// What a cancellation is for the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// It notices by itself, or has not heard of the request.
    Silently,
    /// It must be told.
    ByMessage,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Begins all of these, or none where an id is taken.
    pub(super) fn begin(&self, ids: &[Id], way: Way) -> Result<(), Id> {
        let mut flights = self.lock();
        for (at, id) in ids.iter().enumerate() {
            if flights.contains_key(id) || ids.iter().take(at).any(|other| other == id) {
                return Err(id.clone());
            }
        }
        for id in ids {
            flights.insert(id.clone(), Flight { way, state: State::Unsent, task: None });
        }
        Ok(())
    }

    /// Whether it is under way.
    pub(super) fn has(&self, id: &Id) -> bool {
        self.lock().contains_key(id)
    }

    /// What runs them.
    pub(super) fn set_task(&self, ids: &[Id], task: &AbortHandle) {
        let mut flights = self.lock();
        for id in ids {
            if let Some(flight) = flights.get_mut(id) {
                flight.task = Some(task.clone());
            }
        }
    }

    /// Whether the server may know of these now.
    pub(super) fn set_sent(&self, ids: &[Id], is_sent: bool) {
        let mut flights = self.lock();
        for id in ids {
            match flights.get_mut(id) {
                Some(flight) if flight.state != State::Cancelled => {
                    flight.state = if is_sent { State::Sent } else { State::Unsent };
                }
                _ => {}
            }
        }
    }

    /// Ends the waiting: whether an answer is still wanted.
    pub(super) fn answer(&self, id: &Id) -> bool {
        self.lock().remove(id).is_some_and(|flight| flight.is_waiting())
    }

    /// Whether one of these has neither been answered nor cancelled.
    pub(super) fn are_waiting(&self, ids: &[Id]) -> bool {
        let flights = self.lock();
        ids.iter().any(|id| flights.get(id).is_some_and(Flight::is_waiting))
    }

    /// The client does not want the answer any more.
    pub(super) fn cancel(&self, id: &Id) -> Cancelled {
        let mut flights = self.lock();
        let Some(flight) = flights.get_mut(id) else { return Cancelled::ByMessage };
        let is_silent = match flight.way {
            Way::Modern | Way::Listening => true,
            Way::Legacy => flight.state == State::Unsent,
            Way::Batch => false,
        };
        if is_silent {
            if let Some(task) = flight.task.take() {
                task.abort();
            }
            flights.remove(id);
            return Cancelled::Silently;
        }
        flight.state = State::Cancelled;
        Cancelled::ByMessage
    }

    /// Ends one that was cancelled by a message. Some servers never close its stream.
    pub(super) fn abandon(&self, id: &Id) {
        let mut flights = self.lock();
        let is_left =
            |flight: &Flight| flight.way == Way::Legacy && flight.state == State::Cancelled;
        if flights.get(id).is_some_and(is_left)
            && let Some(task) = flights.remove(id).and_then(|flight| flight.task)
        {
            task.abort();
        }
    }

    /// Ends all; those that wait for an answer come back.
    pub(super) fn take_waiting(&self) -> Vec<Id> {
        let all = std::mem::take(&mut *self.lock());
        all.into_iter().filter(|(_, flight)| flight.is_waiting()).map(|(id, _)| id).collect()
    }

    /// Ends those that would never end.
    pub(super) fn end_listening(&self) {
        self.lock().retain(|_, flight| {
            let listens = flight.way == Way::Listening;
            if listens && let Some(task) = flight.task.take() {
                task.abort();
            }
            !listens
        });
    }
}
