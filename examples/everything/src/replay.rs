//! What was said on streams, in memory, for clients that lose theirs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callgate::BoxFuture;
use callgate::local::Error;
use callgate::mcp::{Kept, Replay};
use tokio::sync::Notify;

/// So many streams are kept; the oldest give way.
const MAX_STREAMS: usize = 1000;
/// So much of one.
const MAX_EVENTS: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct MemoryReplay {
    kept: Mutex<Streams>,
    added: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Streams {
    by_name: HashMap<String, Vec<Kept>>,
    by_age: VecDeque<String>,
}

impl MemoryReplay {
    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The events behind the first `count`; `None` where there are none yet.
    fn behind(&self, stream: &str, count: u64) -> Option<Vec<Kept>> {
        let kept = self.lock();
        let events = kept.by_name.get(stream).map(Vec::as_slice).unwrap_or_default();
        let rest = usize::try_from(count).ok().and_then(|count| events.get(count..));
        rest.filter(|rest| !rest.is_empty()).map(<[Kept]>::to_vec)
    }
}

impl Replay for MemoryReplay {
    fn keep<'a>(&'a self, stream: &'a str, event: Kept) -> BoxFuture<'a, Result<(), Error>> {
        let mut kept = self.lock();
        if !kept.by_name.contains_key(stream) {
            kept.by_age.push_back(stream.to_owned());
            if kept.by_age.len() > MAX_STREAMS
                && let Some(oldest) = kept.by_age.pop_front()
            {
                kept.by_name.remove(&oldest);
            }
        }
        let events = kept.by_name.entry(stream.to_owned()).or_default();
        if events.len() < MAX_EVENTS || event == Kept::End {
            events.push(event);
        }
        drop(kept);
        self.added.notify_waiters();
        Box::pin(async { Ok(()) })
    }

    fn after<'a>(&'a self, stream: &'a str, count: u64) -> BoxFuture<'a, Result<Vec<Kept>, Error>> {
        Box::pin(async move {
            loop {
                let added = self.added.notified();
                match self.behind(stream, count) {
                    Some(events) => return Ok(events),
                    None => added.await,
                }
            }
        })
    }
}
