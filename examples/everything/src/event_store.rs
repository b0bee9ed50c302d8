//! Stores the events of streams in memory, for clients that lose their connection.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use callgate::local::Error;
use callgate::mcp::{EventStore, StoredEvent};
use callgate::upstream::BoxFuture;
use tokio::sync::Notify;

/// Maximum number of stored streams. If it is reached, a new stream replaces the oldest finished one.
const MAX_STREAMS: usize = 1000;
/// Maximum number of events of a stream.
const MAX_EVENTS: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct MemoryEventStore {
    streams: Mutex<Streams>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Streams {
    by_name: HashMap<String, Vec<StoredEvent>>,
    /// Finished streams, oldest first.
    finished: VecDeque<String>,
}

impl Streams {
    fn append(&mut self, stream: &str, event: StoredEvent) -> Result<(), Error> {
        if !self.by_name.contains_key(stream) && self.by_name.len() >= MAX_STREAMS {
            let Some(oldest) = self.finished.pop_front() else {
                return Err(Error::tool("too many streams are open"));
            };
            self.by_name.remove(&oldest);
        }
        if event == StoredEvent::End {
            self.finished.push_back(stream.to_owned());
        }
        let events = self.by_name.entry(stream.to_owned()).or_default();
        if events.len() >= MAX_EVENTS && event != StoredEvent::End {
            return Err(Error::tool("the stream has too many events"));
        }
        events.push(event);
        Ok(())
    }

    /// Returns the events after the first `count`, or `None` if there are no such events yet.
    fn events_after(&self, stream: &str, count: u64) -> Option<Vec<StoredEvent>> {
        let Some(events) = self.by_name.get(stream) else {
            // The stream has not begun yet.
            return (count > 0).then(Vec::new);
        };
        let rest = usize::try_from(count).ok().and_then(|count| events.get(count..));
        match rest {
            Some([]) if events.last() != Some(&StoredEvent::End) => None,
            rest => Some(rest.unwrap_or_default().to_vec()),
        }
    }
}

impl MemoryEventStore {
    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStore for MemoryEventStore {
    fn append<'a>(
        &'a self,
        stream: &'a str,
        event: StoredEvent,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let appended = self.lock().append(stream, event);
        self.added.notify_waiters();
        Box::pin(async { appended })
    }

    fn events_after<'a>(
        &'a self,
        stream: &'a str,
        count: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, Error>> {
        Box::pin(async move {
            loop {
                let added = self.added.notified();
                let events = self.lock().events_after(stream, count);
                match events {
                    Some(events) => return Ok(events),
                    None => added.await,
                }
            }
        })
    }
}
