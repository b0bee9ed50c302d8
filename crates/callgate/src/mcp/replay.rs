//! Streams that a client may lose and come back to: what is said on one is kept, and each event has an
//! id to go on after. Only for legacy clients with a session, and only where somebody keeps it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use tokio::sync::watch;

use super::running::RunningCall;
use super::session::Nonce;
use super::session_streams::StreamPlace;
use super::watch::{Event, Identify, KEEP_ALIVE};
use crate::local::Error;
use crate::upstream::BoxFuture;

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
    pub(super) fn of(session: Nonce, replay: &Arc<dyn Replay>) -> Option<Self> {
        let mut name = session.to_vec();
        name.extend_from_slice(&getrandom::u64().ok()?.to_be_bytes());
        Some(Self { replay: Arc::clone(replay), name: URL_SAFE_NO_PAD.encode(name) })
    }

    /// The stream of an event's id, to be read on from there, if it is one of the session's.
    pub(super) fn resume(id: &str, session: Nonce, replay: &Arc<dyn Replay>) -> Option<KeptReader> {
        let (name, count) = id.split_once(':')?;
        let bytes = URL_SAFE_NO_PAD.decode(name).ok()?;
        let count: u32 = count.parse().ok()?;
        let stream = Self { replay: Arc::clone(replay), name: name.to_owned() };
        let is_theirs = bytes.len() == NAME && bytes.starts_with(&session);
        is_theirs.then(|| stream.reader(count.into()))
    }

    /// Keeps what a call brings, to its end.
    pub async fn keep(self, mut call: RunningCall) {
        loop {
            let event = match call.next().await {
                Some(Event::KeepAlive) => continue,
                Some(Event::Message(message)) => {
                    Kept::Message(message.into_slices().concat().into())
                }
                Some(Event::ComeBack(retry)) => Kept::ComeBack(retry),
                None => Kept::End,
            };
            let is_over = event == Kept::End;
            if let Err(error) = self.replay.keep(&self.name, event).await {
                tracing::error!(?error, "what is said on a stream cannot be kept");
                // Better no stream than one with a hole.
                let _ = self.replay.keep(&self.name, Kept::End).await;
                return;
            }
            if is_over {
                return;
            }
        }
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
    /// What ends it before its end, where it is no part of a request.
    ends: Option<Ends>,
}

/// What ends a stream that a client came back for.
struct Ends {
    who: Arc<dyn Identify>,
    closing: watch::Receiver<bool>,
    place: StreamPlace,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Ends {
    /// Waits until the session or the server ends.
    async fn ended(ends: &mut Option<Self>) {
        match ends {
            Some(ends) => tokio::select! {
                () = ends.place.ended() => {}
                _ = ends.closing.wait_for(|is_closing| *is_closing) => {}
            },
            None => std::future::pending().await,
        }
    }

    /// Whether its caller is still welcome.
    async fn is_good(ends: Option<&Self>) -> bool {
        match ends {
            Some(ends) => ends.who.identify().await.is_ok(),
            None => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client gets an id to come back with before there is anything to say.
    Primes,
    Open,
    Over,
}

/// An event with an id, as it is read.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// Only an id to come back with.
    Id(String),
    /// A message.
    Message(String, Bytes),
    /// The client is let go.
    ComeBack(String, Duration),
    /// Only that the stream is alive.
    KeepAlive,
}

impl KeptReader {
    /// Ends with its session, with the server, and with its caller's welcome.
    pub(super) fn ends_with(
        mut self,
        who: Arc<dyn Identify>,
        closing: watch::Receiver<bool>,
        place: StreamPlace,
    ) -> Self {
        self.ends = Some(Ends { who, closing, place });
        self
    }

    /// What to send next; `None` at the end.
    pub async fn next(&mut self) -> Option<Read> {
        match self.phase {
            Phase::Over => return None,
            Phase::Primes => {
                self.phase = Phase::Open;
                return Some(Read::Id(self.id()));
            }
            Phase::Open => {}
        }
        if self.waiting.is_empty() {
            let after = self.stream.replay.after(&self.stream.name, self.count);
            let after = tokio::select! {
                after = tokio::time::timeout(KEEP_ALIVE, after) => after,
                () = Ends::ended(&mut self.ends) => {
                    self.phase = Phase::Over;
                    return None;
                }
            };
            let Ok(after) = after else {
                let is_good = Ends::is_good(self.ends.as_ref()).await;
                self.phase = if is_good { Phase::Open } else { Phase::Over };
                return is_good.then_some(Read::KeepAlive);
            };
            self.waiting = after.unwrap_or_else(|error| {
                tracing::error!(?error, "what was said on a stream cannot be read");
                Vec::new()
            });
            self.waiting.reverse();
        }
        let event = self.waiting.pop();
        self.count = self.count.saturating_add(1);
        match event {
            Some(Kept::Message(message)) => Some(Read::Message(self.id(), message)),
            Some(Kept::ComeBack(retry)) => {
                self.phase = Phase::Over;
                Some(Read::ComeBack(self.id(), retry))
            }
            Some(Kept::End) | None => {
                self.phase = Phase::Over;
                None
            }
        }
    }

    fn id(&self) -> String {
        format!("{}:{}", self.stream.name, self.count)
    }
}
