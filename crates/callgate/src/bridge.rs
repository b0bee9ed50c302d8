//! From MCP over lines to a Streamable HTTP server, of any make and of both eras.
//!
//! A client that starts programs talks to [`run`] over standard input and output; each message goes to
//! the server as it stands, and so does what comes back. The bridge translates nothing. It adds the
//! headers that HTTP wants, waits for a server that is not up, finds its way back when a session or a
//! connection is lost, and sees to it that each request has one answer.

mod answer;
mod client;
mod clock;
mod credential;
mod failure;
mod forward;
mod in_flight;
mod message;
mod options;
mod outbox;
mod param_headers;
mod session;
mod session_restore;
pub mod sse;
mod stream;
mod truncated_id;

use std::collections::HashSet;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::wire::jsonrpc::{INVALID_REQUEST, RpcError};
use crate::wire::lines::{Line, read_line};
use answer::LINGER;
use client::Http;
use failure::{Failure, error_message};
use in_flight::{CancelBy, InFlight};
use message::{FromClient, INITIALIZED, Id, LISTEN, Other, Request, ids_of_refused};
use outbox::Numbered;
use param_headers::ParamHeaders;
use session::Session;
use session_restore::SessionSettings;
use truncated_id::truncated_id;

pub use crate::http_client::endpoint::{Endpoint, EndpointError};
pub use crate::http_client::tls::{CertificateError, NoTls};
pub use options::{HeaderError, Limits, Options};

/// So many messages wait for a client that does not read.
const MAX_UNREAD: usize = 64;
/// So many messages that need no answer wait for the server.
const MAX_UNTOLD: usize = 1024;
/// How long the end of a session may take, and the last words to the client.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a bridge ended before its client did.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// TLS cannot be set up.
    #[error(transparent)]
    NoTls(#[from] NoTls),
    /// The streams broke.
    #[error("cannot read or write messages")]
    Io(#[from] io::Error),
}

/// Takes messages from `input` to the server and back to `output`, until the input ends or `stop` comes.
/// Must run within a tokio runtime.
pub async fn run(
    options: &Options,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    stop: impl Future<Output = ()>,
) -> Result<(), BridgeError> {
    let (lines, unread) = mpsc::channel(MAX_UNREAD);
    let bridge = Arc::new(Bridge::new(options, lines)?);
    let mut write = pin!(write(output, unread));
    let talk = async {
        let mut dispatcher = Dispatcher::new(Arc::clone(&bridge));
        let read = tokio::select! {
            read = dispatcher.read(input) => read,
            () = stop => {
                dispatcher.tasks.shutdown().await;
                Ok(())
            }
        };
        dispatcher.close().await;
        read
    };
    let read = tokio::select! {
        read = talk => read,
        // Nobody reads any more.
        written = &mut write => return Ok(written?),
    };
    drop(bridge);
    // A client that does not read holds up no end.
    let _ = tokio::time::timeout(LAST_WORDS, write).await;
    Ok(read?)
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    while let Some(mut line) = lines.recv().await {
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

/// What all messages share.
#[derive(Debug)]
struct Bridge {
    http: Http,
    limits: Limits,
    session: Session,
    in_flight: InFlight,
    param_headers: ParamHeaders,
    settings: SessionSettings,
    lines: mpsc::Sender<Vec<u8>>,
    /// Whether the last attempt reached the server, or why not; `None` before the first.
    reached: Mutex<Option<Result<(), String>>>,
}

impl Bridge {
    fn new(options: &Options, lines: mpsc::Sender<Vec<u8>>) -> Result<Self, NoTls> {
        Ok(Self {
            http: Http::new(options)?,
            limits: options.limits,
            session: Session::default(),
            in_flight: InFlight::default(),
            param_headers: ParamHeaders::default(),
            settings: SessionSettings::default(),
            lines,
            reached: Mutex::default(),
        })
    }

    /// A line for the client. Where nobody reads, the end is near.
    async fn write(&self, line: Vec<u8>) {
        let _ = self.lines.send(line).await;
    }

    /// Logs whether the server can be reached, if that has changed.
    fn set_reached(&self, reached: Result<(), String>) {
        let endpoint = self.http.endpoint();
        let mut last = self.last_reached();
        if last.as_ref().is_none_or(|last| last.is_ok() != reached.is_ok()) {
            match &reached {
                Ok(()) => tracing::info!("connected to {endpoint}"),
                Err(why) => tracing::info!("waiting for {endpoint}: {why}"),
            }
        }
        *last = Some(reached);
    }

    fn last_reached(&self) -> MutexGuard<'_, Option<Result<(), String>>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For requests that nobody waits for any longer.
    fn gave_up(&self) -> Failure {
        let endpoint = self.http.endpoint();
        match &*self.last_reached() {
            Some(Err(why)) => {
                let error = SendError::new(SendErrorKind::NotSent, why.clone());
                Failure::of_sending(endpoint, &error)
            }
            _ => Failure::new(format!(
                "the input ended, and {endpoint} did not answer within {:?} after that. The request may \
                 have been carried out; look before you send it again",
                self.limits.end
            )),
        }
    }

    /// Ends the session, if there is one.
    async fn end_session(&self) {
        let Some(live) = self.session.live().filter(|live| live.id.is_some()) else { return };
        let _ = tokio::time::timeout(LAST_WORDS, self.http.delete(&live.headers())).await;
    }
}

/// Where the client's messages arrive.
struct Dispatcher {
    bridge: Arc<Bridge>,
    /// Requests under way.
    tasks: JoinSet<()>,
    /// What goes on beside them.
    background: JoinSet<()>,
    outbox: mpsc::Sender<Numbered>,
    last_number: u64,
    told: watch::Receiver<u64>,
    /// What the server must be told before any further request.
    barrier: u64,
}

impl Dispatcher {
    fn new(bridge: Arc<Bridge>) -> Self {
        let (outbox, queue) = mpsc::channel(MAX_UNTOLD);
        let (telling, told) = watch::channel(0);
        let mut background = JoinSet::new();
        let each = || Arc::clone(&bridge);
        let (teller, listener, looker) = (each(), each(), each());
        background.spawn(async move { teller.tell_all(queue, telling).await });
        background.spawn(async move { listener.listen().await });
        background.spawn(async move { looker.http.keep_looking().await });
        let tasks = JoinSet::new();
        Self { bridge, tasks, background, outbox, last_number: 0, told, barrier: 0 }
    }

    async fn read(&mut self, mut input: impl AsyncBufRead + Unpin) -> io::Result<()> {
        let limit = self.bridge.limits.line_bytes;
        loop {
            let line = read_line(&mut input, limit).await?;
            // What has ended takes no place.
            while self.tasks.try_join_next().is_some() {}
            while self.background.try_join_next().is_some() {}
            match line {
                Line::End => break,
                Line::TooLong(ends) => {
                    let words = format!("the message is longer than {limit} bytes");
                    let error = RpcError::new(INVALID_REQUEST, words);
                    self.refuse(truncated_id(&ends).as_slice(), &error).await;
                }
                Line::Text(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                Line::Text(line) => self.take(line.into()).await,
            }
        }
        self.bridge.in_flight.end_listening();
        let (told, last) = (&mut self.told, self.last_number);
        let finished = async {
            while self.tasks.join_next().await.is_some() {}
            let _ = told.wait_for(|told| *told >= last).await;
        };
        let _ = tokio::time::timeout(self.bridge.limits.end, finished).await;
        // A client that does not read holds up no end.
        let _ = tokio::time::timeout(LAST_WORDS, self.give_up()).await;
        Ok(())
    }

    /// Ends what is under way, and says so.
    async fn give_up(&mut self) {
        self.tasks.shutdown().await;
        let failure = self.bridge.gave_up();
        for id in self.bridge.in_flight.take_waiting() {
            self.bridge.write(failure.message(&id, self.bridge.http.endpoint())).await;
        }
    }

    async fn take(&mut self, line: Bytes) {
        match FromClient::parse(&line) {
            Ok(FromClient::Request(request)) => self.ask(request).await,
            Ok(FromClient::Other(other)) => self.tell(other).await,
            Err(error) => {
                let ids = ids_of_refused(&String::from_utf8_lossy(&line));
                let error = RpcError::new(error.code(), error.to_string());
                self.refuse(&ids, &error).await;
            }
        }
    }

    /// Tells each request that it is not sent. One whose id is under way has no answer of its own, since
    /// the client would take that for the other's.
    async fn refuse(&self, ids: &[Id], error: &RpcError) {
        let ids: HashSet<&Id> = ids.iter().filter(|id| !self.bridge.in_flight.has(id)).collect();
        if ids.is_empty() {
            self.bridge.write(error_message(None, error)).await;
        }
        for id in ids {
            self.bridge.write(error_message(Some(id.as_json()), error)).await;
        }
    }

    async fn ask(&mut self, request: Request) {
        let in_flight = &self.bridge.in_flight;
        let limit = self.bridge.limits.in_flight;
        if in_flight.len() + request.ids.len() > limit {
            let failure = Failure::new(format!("no more than {limit} requests at once"));
            for id in request.ids.iter().collect::<HashSet<_>>() {
                self.bridge.write(failure.message(id, self.bridge.http.endpoint())).await;
            }
            return;
        }
        let cancel_by = match (&request.modern, &*request.method) {
            (None, _) if request.ids.len() > 1 => CancelBy::BatchMessage,
            (None, _) => CancelBy::Message,
            (Some(_), LISTEN) => CancelBy::DisconnectAtEnd,
            (Some(_), _) => CancelBy::Disconnect,
        };
        if let Err(id) = in_flight.begin(&request.ids, cancel_by) {
            let words = format!("a request with the id {} is under way", id.as_json());
            tracing::warn!("{words}; another one is not sent");
            return self.refuse(&request.ids, &RpcError::new(INVALID_REQUEST, words)).await;
        }
        let ids = request.ids.clone();
        let (bridge, mut told, barrier) =
            (Arc::clone(&self.bridge), self.told.clone(), self.barrier);
        let task = self.tasks.spawn(async move {
            let _ = told.wait_for(|told| *told >= barrier).await;
            bridge.answer(&request).await;
        });
        self.bridge.in_flight.set_task(&ids, &task);
    }

    async fn tell(&mut self, other: Other) {
        if let Some(id) = &other.cancels {
            // Without a session nobody could understand it.
            if !self.bridge.in_flight.cancel(id) || self.bridge.session.live().is_none() {
                return;
            }
            let (bridge, id) = (Arc::clone(&self.bridge), id.clone());
            self.background.spawn(async move {
                tokio::time::sleep(LINGER).await;
                bridge.in_flight.abandon(&id);
            });
        }
        self.last_number += 1;
        if other.method.as_deref() == Some(INITIALIZED) {
            self.barrier = self.last_number;
        }
        let _ = self.outbox.send((self.last_number, other)).await;
    }

    async fn close(mut self) {
        self.tasks.shutdown().await;
        self.background.shutdown().await;
        self.bridge.end_session().await;
    }
}
