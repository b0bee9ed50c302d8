//! A service behind a WebSocket: one connection for all calls, which is kept.
//!
//! A task owns the connection. It begins with the request that found none, writes requests as they
//! come, and hands each message to who waits for it. It ends with the connection; the next request
//! begins another.

mod handshake;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes, error};

use super::client::{Client, connect_limit};
use super::failure::Failure;
use super::mailbox::{Answered, Asked, Mailbox};
use super::options::ForwardOptions;
use super::send_failure::SendFailure;
use super::stats::ForwardStats;
use crate::http_client::send_error::words;
use crate::http_client::tls::NoTls;
use handshake::Socket;
use waiting::Waiting;

/// For a last word at the end of a connection.
const LAST_WORD: Duration = Duration::from_secs(1);

const TIMED_OUT: &str = "no answer from the machine (timed out)";

/// A service behind a WebSocket.
#[derive(Debug)]
pub(super) struct WebSocket {
    mailbox: Mailbox,
    line: Arc<Line>,
}

/// What each connection needs.
#[derive(Debug)]
struct Line {
    client: Client,
    headers: HeaderMap,
    connect_limit: Duration,
    result_bytes: usize,
    concurrent: usize,
    stats: Arc<ForwardStats>,
}

impl WebSocket {
    pub(super) fn new(options: &ForwardOptions, stats: Arc<ForwardStats>) -> Result<Self, NoTls> {
        let limits = options.limits;
        let line = Line {
            client: Client::new(options)?,
            headers: options.headers.clone(),
            connect_limit: connect_limit(limits),
            result_bytes: limits.result_bytes,
            concurrent: limits.concurrent,
            stats,
        };
        Ok(Self { mailbox: Mailbox::new(limits.concurrent), line: Arc::new(line) })
    }

    pub(super) fn client(&self) -> &Client {
        &self.line.client
    }

    /// Sends a request over the connection, and waits for its reply.
    pub(super) async fn ask(&self, asked: (Asked, oneshot::Receiver<Answered>)) -> Answered {
        let line = Arc::clone(&self.line);
        let start = |requests| drop(tokio::spawn(line.run(requests)));
        self.mailbox.ask(asked, start).await
    }
}

impl Line {
    /// One connection, from its beginning to its end.
    async fn run(self: Arc<Self>, mut requests: mpsc::Receiver<Asked>) {
        let opened = timeout(self.connect_limit, self.open()).await;
        let opened = opened.unwrap_or_else(|_| Err(SendFailure::silent(TIMED_OUT)));
        let (failure, sink) = match opened {
            Ok(socket) => {
                let (mut sink, stream) = socket.split();
                let end = self.converse(&mut sink, stream, &mut requests).await;
                (SendFailure::never_sent(&end.words()), Some(sink))
            }
            Err(failure) => (failure, None),
        };
        // Whoever comes now begins another connection.
        requests.close();
        while let Some(asked) = requests.recv().await {
            asked.waiter.tell(Err(failure.clone()));
        }
        if let Some(mut sink) = sink {
            let _ = timeout(LAST_WORD, sink.close()).await;
        }
    }

    async fn open(&self) -> Result<Socket, SendFailure> {
        handshake::open(&self.client, self.headers.clone(), self.result_bytes).await
    }

    /// Requests out and replies in, until one of the two ends.
    async fn converse(
        &self,
        sink: &mut SplitSink<Socket, Message>,
        stream: SplitStream<Socket>,
        requests: &mut mpsc::Receiver<Asked>,
    ) -> End {
        let waiting = Waiting::new(self.concurrent);
        // An end that has arrived is read before anything is written. A service that talks all the
        // time uses up the task's share of time, and must not keep us from writing.
        let end = tokio::select! {
            biased;
            end = self.listen(stream, &waiting) => end,
            end = tokio::task::unconstrained(speak(sink, requests, &waiting)) => end,
        };
        waiting.fail_all(&end);
        end
    }

    async fn listen(&self, mut stream: SplitStream<Socket>, waiting: &Waiting) -> End {
        while let Some(message) = stream.next().await {
            let text = match message {
                Ok(Message::Text(text)) => Some(text.to_string()),
                Ok(Message::Binary(bytes)) => String::from_utf8(bytes.into()).ok(),
                Ok(Message::Close(frame)) => {
                    return End::Closed(frame.map(|frame| frame.code.into()));
                }
                // Pings are answered with the next look at the stream.
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
                Err(error) => return End::of(&error),
            };
            if !text.is_some_and(|text| waiting.answer(text)) {
                self.stats.count_ignored(1);
            }
        }
        End::Closed(None)
    }
}

async fn speak(
    sink: &mut SplitSink<Socket, Message>,
    requests: &mut mpsc::Receiver<Asked>,
    waiting: &Waiting,
) -> End {
    while let Some(asked) = requests.recv().await {
        let Some(body) = waiting.add(asked) else { continue };
        let sent = match Utf8Bytes::try_from(body) {
            Ok(text) => sink.feed(Message::Text(text)).await,
            Err(error) => Err(error.into()),
        };
        // Requests that are there already go out with it.
        let flushed = match sent {
            Ok(()) if requests.is_empty() => sink.flush().await,
            sent => sent,
        };
        if let Err(error) = flushed {
            return End::of(&error);
        }
    }
    End::Closed(None)
}

/// How a connection ended.
#[derive(Debug)]
enum End {
    /// By the service, perhaps with a code.
    Closed(Option<u16>),
    Broken(String),
    /// By a message beyond the limit. What follows on the connection cannot be read.
    TooLarge(usize),
}

impl End {
    fn of(error: &Error) -> Self {
        match error {
            Error::ConnectionClosed | Error::AlreadyClosed => Self::Closed(None),
            Error::Protocol(error::ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Closed(None)
            }
            Error::Capacity(error::CapacityError::MessageTooLong { max_size, .. }) => {
                Self::TooLarge(*max_size)
            }
            Error::Io(error) => Self::Broken(words(error)),
            // These name what is wrong with a frame, and show nothing of it.
            Error::Protocol(error) => Self::Broken(error.to_string()),
            _ => Self::Broken("what it sends is no WebSocket".to_owned()),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Closed(None) => "closed by the service".to_owned(),
            Self::Closed(Some(code)) => format!("closed by the service with code {code}"),
            Self::Broken(words) => words.clone(),
            Self::TooLarge(limit) => {
                format!("a message on the same connection is longer than {limit} bytes")
            }
        }
    }

    /// What it means for a request that was written. Whom a message beyond the limit was for is known
    /// only where one call was waiting.
    fn failure(&self, is_only: bool) -> SendFailure {
        match self {
            Self::TooLarge(limit) if is_only => Failure::TooLarge(*limit).into(),
            end => SendFailure::broken(&end.words()),
        }
    }
}
