//! Streams that a legacy client can resume. Each event is stored and has an id. A client that reconnects sends the last
//! id as `Last-Event-ID`. Only streams of sessions can be resumed, and only if the server has an [`EventStore`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

use super::event::{Event, KEEP_ALIVE};
use super::guard::StreamGuard;
use crate::mcp::{EncodedMessage, Nonce, RunningCall, some_or_pending};
use crate::upstream::BoxFuture;
use crate::upstream::local::Error;

/// Length of a stream's name before Base64: the session's nonce and a random number.
const NAME: usize = size_of::<Nonce>() + size_of::<u64>();

/// Stores the events of streams. The implementation limits the number, the size and the age of events.
///
/// Argument of [`Builder::event_store`](crate::Builder::event_store).
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use callgate::mcp::{EventStore, StoredEvent};
/// use callgate::upstream::BoxFuture;
/// use callgate::{Callgate, Error};
/// use tokio::sync::watch;
///
/// /// Events by stream. A real store also deletes old streams.
/// #[derive(Debug, Default)]
/// struct Events(Mutex<HashMap<String, watch::Sender<Vec<StoredEvent>>>>);
///
/// impl Events {
///     fn stream(&self, name: &str) -> watch::Sender<Vec<StoredEvent>> {
///         self.0.lock().unwrap().entry(name.to_owned()).or_default().clone()
///     }
/// }
///
/// impl EventStore for Events {
///     fn append<'a>(
///         &'a self,
///         stream: &'a str,
///         event: StoredEvent,
///     ) -> BoxFuture<'a, Result<(), Error>> {
///         self.stream(stream).send_modify(|events| events.push(event));
///         Box::pin(async { Ok(()) })
///     }
///
///     fn events_after<'a>(
///         &'a self,
///         stream: &'a str,
///         count: u64,
///     ) -> BoxFuture<'a, Result<Vec<StoredEvent>, Error>> {
///         Box::pin(async move {
///             let count = usize::try_from(count)?;
///             let mut events = self.stream(stream).subscribe();
///             let has_more = |events: &Vec<StoredEvent>| {
///                 events.len() > count || events.last() == Some(&StoredEvent::End)
///             };
///             let events = events.wait_for(has_more).await?;
///             Ok(events.get(count..).unwrap_or_default().to_vec())
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().event_store(Events::default()).build()?;
/// # let events = Events::default();
/// # events.append("a", StoredEvent::End).await.unwrap();
/// # assert_eq!(events.events_after("a", 0).await.unwrap(), [StoredEvent::End]);
/// # assert_eq!(events.events_after("a", 1).await.unwrap(), []);
/// # Ok(())
/// # }
/// ```
pub trait EventStore: Send + Sync + fmt::Debug {
    /// Appends an event to a stream. Events are numbered from 1.
    fn append<'a>(
        &'a self,
        stream: &'a str,
        event: StoredEvent,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Returns the events of a stream, without its first `count` events.
    ///
    /// If the stream has at most `count` events so far, waits for the next event. Also waits if the stream is
    /// unknown and `count` is 0. Returns an empty list if there will be no more events.
    fn events_after<'a>(
        &'a self,
        stream: &'a str,
        count: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, Error>>;
}

/// An event of a stored stream.
///
/// [`EventStore`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredEvent {
    /// A JSON-RPC message. The last message is the response to the request.
    Message(Bytes),
    /// The server closes the connection. The client reconnects after this time.
    Retry(Duration),
    /// The last event of the stream.
    End,
}

/// A stream whose events are stored.
#[derive(Debug, Clone)]
pub struct ResumableStream {
    store: Arc<dyn EventStore>,
    name: String,
}

impl ResumableStream {
    /// Opens a stream of a session. Returns `None` if no random number is available.
    pub(crate) fn open(session: Nonce, store: &Arc<dyn EventStore>) -> Option<Self> {
        let mut name = session.to_vec();
        name.extend_from_slice(&getrandom::u64().ok()?.to_be_bytes());
        Some(Self { store: Arc::clone(store), name: URL_SAFE_NO_PAD.encode(name) })
    }

    /// Resumes a stream after the event with this id, if the stream belongs to the session.
    pub(crate) fn resume(
        id: &str,
        session: Nonce,
        store: &Arc<dyn EventStore>,
        guard: StreamGuard,
    ) -> Option<EventReader> {
        let (name, count) = id.split_once(':')?;
        let bytes = URL_SAFE_NO_PAD.decode(name).ok()?;
        let count: u32 = count.parse().ok()?;
        let stream = Self { store: Arc::clone(store), name: name.to_owned() };
        let is_of_session = bytes.len() == NAME && bytes.starts_with(&session);
        is_of_session.then(|| stream.reader(count.into(), Some(guard)))
    }

    /// Runs a call to its end and stores its events.
    pub async fn run(self, call: RunningCall) {
        if let Err(error) = self.store_events(call).await {
            tracing::error!(?error, "failed to store an event, ending the stream");
            // A client must not resume a stream that lacks an event.
            let _ = self.append(StoredEvent::End).await;
        }
    }

    async fn store_events(&self, mut call: RunningCall) -> Result<(), Error> {
        while let Some(event) = call.next().await {
            if let Event::Retry(Some(retry)) = event {
                self.append(StoredEvent::Retry(retry)).await?;
            }
            for message in event.into_messages() {
                self.append(StoredEvent::Message(message.into_slices().concat().into())).await?;
            }
        }
        self.append(StoredEvent::End).await
    }

    async fn append(&self, event: StoredEvent) -> Result<(), Error> {
        self.store.append(&self.name, event).await
    }

    /// Reads the stream from its beginning.
    pub fn read(&self) -> EventReader {
        self.clone().reader(0, None)
    }

    fn reader(self, count: u64, guard: Option<StreamGuard>) -> EventReader {
        let (buffered, phase) = (VecDeque::new(), Phase::Opening);
        EventReader { stream: self, count, buffered, phase, guard }
    }
}

/// Reads the events of a stored stream.
pub struct EventReader {
    stream: ResumableStream,
    /// Number of events that have been read.
    count: u64,
    buffered: VecDeque<StoredEvent>,
    phase: Phase,
    /// Set only if the client resumed the stream.
    guard: Option<StreamGuard>,
}

impl fmt::Debug for EventReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReader").field("stream", &self.stream.name).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Before the first event, an id is sent from which the client can resume.
    Opening,
    Open,
    Ended,
}

impl EventReader {
    /// Returns the next event with its id, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<(Option<String>, Event)> {
        match self.phase {
            Phase::Ended => return None,
            Phase::Opening => {
                self.phase = Phase::Open;
                return Some((Some(self.id()), Event::Retry(None)));
            }
            Phase::Open => {}
        }
        let expired = some_or_pending(self.guard.as_ref().map(StreamGuard::expired));
        let ended = some_or_pending(self.guard.as_mut().map(StreamGuard::ended));
        let events = async {
            if self.buffered.is_empty() {
                let events = self.stream.store.events_after(&self.stream.name, self.count);
                self.buffered = events.await?.into();
            }
            Ok::<_, Error>(true)
        };
        let has_events = tokio::select! {
            // After the end of the stream, no events are sent, not even those that are already available.
            biased;
            _ = ended => return self.end(),
            () = expired => Ok(false),
            events = events => events,
            () = tokio::time::sleep(KEEP_ALIVE) => Ok(false),
        };
        match has_events {
            Ok(true) => {}
            Err(error) => tracing::error!(?error, "failed to read the events of a stream"),
            Ok(false) if self.may_continue().await => return Some((None, Event::KeepAlive)),
            Ok(false) => return self.end(),
        }
        self.count = self.count.saturating_add(1);
        let event = match self.buffered.pop_front() {
            Some(StoredEvent::Message(message)) => Event::Message(EncodedMessage::from(message)),
            Some(StoredEvent::Retry(retry)) => {
                self.phase = Phase::Ended;
                Event::Retry(Some(retry))
            }
            Some(StoredEvent::End) | None => return self.end(),
        };
        Some((Some(self.id()), event))
    }

    async fn may_continue(&mut self) -> bool {
        match &mut self.guard {
            Some(guard) => guard.caller().await.is_some(),
            None => true,
        }
    }

    fn end<T>(&mut self) -> Option<T> {
        self.phase = Phase::Ended;
        None
    }

    fn id(&self) -> String {
        format!("{}:{}", self.stream.name, self.count)
    }
}
