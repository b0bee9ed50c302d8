//! Streams that a client may lose and come back to: what is said on one is kept, and each event has an
//! id to go on after. Only for legacy clients with a session, and only where somebody keeps it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use tokio::sync::watch;

use super::event::{Event, Identify, KEEP_ALIVE};
use crate::mcp::calls::in_flight::Cancellation;
use crate::mcp::calls::running_call::RunningCall;
use crate::mcp::reply::message::OutMessage;
use crate::mcp::sessions::session::Nonce;
use crate::upstream::BoxFuture;
use crate::upstream::local::Error;

/// The session, and what tells its streams apart.
const NAME: usize = size_of::<Nonce>() + size_of::<u64>();

/// Keeps what is said on streams. How much, and for how long, is for it to bound; the last message of a
/// stream is the answer to its request.
pub trait Replay: Send + Sync + fmt::Debug {
    /// Keeps an event behind those that the stream has, which are counted from 1.
    fn keep<'a>(&'a self, stream: &'a str, event: Kept) -> BoxFuture<'a, Result<(), Error>>;

    /// The events behind the first `count` of a stream. Waits for one where there is none yet, also for
    /// the first one of a stream that is not known; none come back where there will be none.
    fn after<'a>(&'a self, stream: &'a str, count: u64) -> BoxFuture<'a, Result<Vec<Kept>, Error>>;
}

/// What happens on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// A message.
    Message(Bytes),
    /// The client is let go, and comes back after this long.
    ComeBack(Duration),
    /// The last event.
    End,
}

/// A stream that is kept.
#[derive(Debug, Clone)]
pub struct KeptStream {
    replay: Arc<dyn Replay>,
    name: String,
}

impl KeptStream {
    /// A new stream of a session; none without randomness.
    pub(crate) fn of(session: Nonce, replay: &Arc<dyn Replay>) -> Option<Self> {
        let mut name = session.to_vec();
        name.extend_from_slice(&getrandom::u64().ok()?.to_be_bytes());
        Some(Self { replay: Arc::clone(replay), name: URL_SAFE_NO_PAD.encode(name) })
    }

    /// The stream of an event's id, to be read on from there, if it is one of the session's.
    pub(crate) fn resume(id: &str, session: Nonce, replay: &Arc<dyn Replay>) -> Option<KeptReader> {
        let (name, count) = id.split_once(':')?;
        let bytes = URL_SAFE_NO_PAD.decode(name).ok()?;
        let count: u32 = count.parse().ok()?;
        let stream = Self { replay: Arc::clone(replay), name: name.to_owned() };
        let is_theirs = bytes.len() == NAME && bytes.starts_with(&session);
        is_theirs.then(|| stream.reader(count.into()))
    }

    /// Stores the events of a call, to its end.
    pub async fn keep(self, call: RunningCall) {
        if let Err(error) = self.store_events(call).await {
            tracing::error!(?error, "what is said on a stream cannot be kept");
            // Better no stream than one with a hole.
            let _ = self.store(Kept::End).await;
        }
    }

    async fn store_events(&self, mut call: RunningCall) -> Result<(), Error> {
        while let Some(event) = call.next().await {
            if let Event::Retry(Some(retry)) = event {
                self.store(Kept::ComeBack(retry)).await?;
            }
            for message in event.into_messages() {
                self.store(Kept::Message(message.into_slices().concat().into())).await?;
            }
        }
        self.store(Kept::End).await
    }

    async fn store(&self, event: Kept) -> Result<(), Error> {
        self.replay.keep(&self.name, event).await
    }

    /// Reads it from its beginning.
    pub fn read(&self) -> KeptReader {
        self.clone().reader(0)
    }

    fn reader(self, count: u64) -> KeptReader {
        KeptReader { stream: self, count, waiting: Vec::new(), phase: Phase::Primes, ends: None }
    }
}

/// Reads a stream that is kept.
#[derive(Debug)]
pub struct KeptReader {
    stream: KeptStream,
    /// How many events have been read.
    count: u64,
    /// Those that follow, the next one last.
    waiting: Vec<Kept>,
    phase: Phase,
    /// What ends it before its end, if it was resumed.
    ends: Option<Ends>,
}

/// What ends a stream that a client resumed.
struct Ends {
    identify: Arc<dyn Identify>,
    closing: watch::Receiver<bool>,
    cancellation: Option<Cancellation>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client gets an id to resume after before there is anything else.
    Primes,
    Open,
    Over,
}

impl KeptReader {
    /// Ends with its session, with the server, and when its credential is no longer good.
    pub(crate) fn ends_with(
        mut self,
        identify: Arc<dyn Identify>,
        closing: watch::Receiver<bool>,
        cancellation: Option<Cancellation>,
    ) -> Self {
        self.ends = Some(Ends { identify, closing, cancellation });
        self
    }

    /// Returns the next event and its id; `None` at the end.
    pub async fn next(&mut self) -> Option<(Option<String>, Event)> {
        match self.phase {
            Phase::Over => return None,
            Phase::Primes => {
                self.phase = Phase::Open;
                return Some((Some(self.id()), Event::Retry(None)));
            }
            Phase::Open => {}
        }
        if self.waiting.is_empty() {
            let after = self.stream.replay.after(&self.stream.name, self.count);
            let after = tokio::select! {
                after = tokio::time::timeout(KEEP_ALIVE, after) => after,
                () = ended(&mut self.ends) => {
                    self.phase = Phase::Over;
                    return None;
                }
            };
            let Ok(after) = after else {
                if let Some(ends) = &self.ends
                    && ends.identify.identify().await.is_err()
                {
                    self.phase = Phase::Over;
                    return None;
                }
                return Some((None, Event::KeepAlive));
            };
            self.waiting = after.unwrap_or_else(|error| {
                tracing::error!(?error, "what was said on a stream cannot be read");
                Vec::new()
            });
            self.waiting.reverse();
        }
        let event = self.waiting.pop();
        self.count = self.count.saturating_add(1);
        if !matches!(event, Some(Kept::Message(_))) {
            self.phase = Phase::Over;
        }
        let event = match event? {
            Kept::Message(message) => Event::Message(OutMessage::from(message)),
            Kept::ComeBack(retry) => Event::Retry(Some(retry)),
            Kept::End => return None,
        };
        Some((Some(self.id()), event))
    }

    fn id(&self) -> String {
        format!("{}:{}", self.stream.name, self.count)
    }
}

/// Waits until the session or the server ends.
async fn ended(ends: &mut Option<Ends>) {
    let Some(ends) = ends else { return std::future::pending().await };
    tokio::select! {
        () = Cancellation::of(&mut ends.cancellation) => {}
        _ = ends.closing.wait_for(|is_closing| *is_closing) => {}
    }
}
