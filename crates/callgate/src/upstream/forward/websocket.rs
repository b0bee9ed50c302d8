//! A service behind a WebSocket: one connection for all calls, which is kept.
//!
//! A task owns the connection. The first request opens it; the task writes requests as they come, and
//! hands each message to the caller who waits for it. It ends with the connection; the next request
//! opens another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes, error};

use super::client::{Client, connect_limit};
use super::failure::Failure;
use super::options::ForwardOptions;
use super::outbox::Outgoing;
use super::refusal::Refusal;
use super::reply::{Addressee, ServiceResponse};
use super::request::RequestId;
use super::stats::ForwardStats;
use crate::http_client::send_error::{SendError, SendErrorKind, TIMED_OUT, words};

/// Time limit of the closing handshake.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Opens connections to a service, one at a time.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    headers: HeaderMap,
    connect_limit: Duration,
    result_bytes: usize,
    concurrent: usize,
    stats: Arc<ForwardStats>,
}

impl Connection {
    pub(super) fn new(options: &ForwardOptions, client: Client, stats: Arc<ForwardStats>) -> Self {
        Self {
            client,
            headers: options.headers.clone(),
            connect_limit: connect_limit(options.limits),
            result_bytes: options.limits.result_bytes,
            concurrent: options.limits.concurrent,
            stats,
        }
    }

    /// Opens a connection, and sends requests over it until it ends.
    pub(super) async fn run(self: Arc<Self>, mut requests: mpsc::Receiver<Outgoing>) {
        let timed_out = SendError::new(SendErrorKind::ConnectTimeout, TIMED_OUT);
        let opened = timeout(self.connect_limit, self.open()).await;
        let (failure, sink) = match opened.unwrap_or(Err(Failure::Send(timed_out))) {
            Ok(socket) => {
                let (mut sink, stream) = socket.split();
                let end = self.exchange(&mut sink, stream, &mut requests).await;
                (Failure::never_sent(end.words()), Some(sink))
            }
            Err(failure) => (failure, None),
        };
        // Later requests open another connection.
        requests.close();
        while let Some(request) = requests.recv().await {
            let _ = request.reply.send(Err(failure.clone()));
        }
        if let Some(mut sink) = sink {
            let _ = timeout(CLOSE_LIMIT, sink.close()).await;
        }
    }

    /// Sends an ordinary request of the client that becomes a WebSocket.
    async fn open(&self) -> Result<Socket, Failure> {
        let key = generate_key();
        let value = HeaderValue::from_str(&key).map_err(|_| Failure::never_sent("no key"))?;
        let mut headers = self.headers.clone();
        headers.extend([
            (CONNECTION, HeaderValue::from_static("Upgrade")),
            (UPGRADE, HeaderValue::from_static("websocket")),
            (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
            (SEC_WEBSOCKET_KEY, value),
        ]);
        headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        let response = self.client.upgrade(headers).await.map_err(|failure| match failure {
            // The call's own request was not sent.
            Failure::Send(SendError { kind: SendErrorKind::Broken { .. }, words }) => {
                Failure::never_sent(words)
            }
            failure => failure,
        })?;
        check(&response, &derive_accept_key(key.as_bytes()))?;
        let upgraded = hyper::upgrade::on(response).await;
        let upgraded = upgraded.map_err(|error| Failure::never_sent(words(&error)))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(self.result_bytes))
            .max_frame_size(Some(self.result_bytes));
        let io = TokioIo::new(upgraded);
        Ok(WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await)
    }

    /// Writes requests and reads replies, until one of the two ends.
    async fn exchange(
        &self,
        sink: &mut SplitSink<Socket, Message>,
        stream: SplitStream<Socket>,
        requests: &mut mpsc::Receiver<Outgoing>,
    ) -> End {
        let pending = Pending::new(self.concurrent);
        // An end that has arrived is read before anything is written. A service that sends all the time
        // uses up the task's budget, and must not keep requests from being written.
        let end = tokio::select! {
            biased;
            end = self.read(stream, &pending) => end,
            end = tokio::task::unconstrained(write(sink, requests, &pending)) => end,
        };
        pending.fail_all(&end);
        end
    }

    async fn read(&self, mut stream: SplitStream<Socket>, pending: &Pending) -> End {
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
            if !text.is_some_and(|text| pending.reply(text)) {
                self.stats.count_ignored(1);
            }
        }
        End::Closed(None)
    }
}

/// Checks that the service agrees to open a WebSocket.
fn check(response: &Response<Incoming>, accept: &str) -> Result<(), Failure> {
    let (status, headers) = (response.status(), response.headers());
    match status {
        StatusCode::SWITCHING_PROTOCOLS
            if headers.get(SEC_WEBSOCKET_ACCEPT).is_some_and(|found| found == accept) =>
        {
            Ok(())
        }
        status if status.is_redirection() => Err(Failure::redirected(status, headers)),
        status => Err(match Refusal::of(status, headers) {
            Some(refusal) => Failure::Refused(refusal),
            None => Failure::NoWebSocket(status),
        }),
    }
}

async fn write(
    sink: &mut SplitSink<Socket, Message>,
    requests: &mut mpsc::Receiver<Outgoing>,
    pending: &Pending,
) -> End {
    while let Some(request) = requests.recv().await {
        let Some(body) = pending.add(request) else { continue };
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

type Waiter = oneshot::Sender<Result<ServiceResponse, Failure>>;

/// The callers who wait for a reply on a connection, by the ids of their requests. Those who gave up are
/// removed when the reply comes, or when there are too many.
#[derive(Debug)]
struct Pending {
    calls: Mutex<HashMap<RequestId<'static>, Waiter>>,
    /// Maximum number of calls at once.
    limit: usize,
}

impl Pending {
    fn new(limit: usize) -> Self {
        Self { calls: Mutex::default(), limit }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<RequestId<'static>, Waiter>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request and returns its body; `None` if the caller no longer waits.
    fn add(&self, request: Outgoing) -> Option<Bytes> {
        let Outgoing { id, body, reply, .. } = request;
        if reply.is_closed() {
            return None;
        }
        let mut calls = self.calls();
        if calls.len() > self.limit {
            calls.retain(|_, reply| !reply.is_closed());
        }
        calls.insert(id, reply);
        Some(body)
    }

    /// Hands a message to the caller who waits for it. Returns `false` if nobody does.
    fn reply(&self, message: String) -> bool {
        let mut calls = self.calls();
        let waiter = match Addressee::of(&message) {
            Addressee::Request(id) => calls.remove(&id.into_owned()),
            // The service could not read a request. If there is only one, it is that.
            Addressee::Unnamed if calls.len() == 1 => {
                calls.drain().next().map(|(_, waiter)| waiter)
            }
            Addressee::Unnamed | Addressee::Nobody => None,
        };
        drop(calls);
        waiter.is_some_and(|waiter| waiter.send(Ok(ServiceResponse::bare(message))).is_ok())
    }

    fn fail_all(&self, end: &End) {
        let calls = std::mem::take(&mut *self.calls());
        let is_only = calls.len() == 1;
        for waiter in calls.into_values() {
            let _ = waiter.send(Err(end.failure(is_only)));
        }
    }
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

    /// Returns the failure of a request that was written. A message beyond the limit can be attributed
    /// only if one call was waiting.
    fn failure(&self, is_only: bool) -> Failure {
        match self {
            Self::TooLarge(limit) if is_only => Failure::TooLarge(*limit),
            end => Failure::broken(end.words()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::method::Safety;

    #[test]
    fn calls_that_nobody_waits_for_are_not_kept_for_ever() {
        let pending = Pending::new(3);
        let request = |number| {
            let ((headers, credential, body, reservation), (reply, answer)) =
                (Default::default(), oneshot::channel());
            let (id, safety) = (RequestId::Number(number), Safety::ReadOnly);
            (Outgoing { id, headers, credential, body, safety, reservation, reply }, answer)
        };
        for number in 1..100 {
            let (request, answer) = request(number);
            assert!(pending.add(request).is_some());
            drop(answer);
            assert!(pending.calls().len() <= 4);
        }
        let (request, answer) = request(100);
        drop(answer);
        assert!(pending.add(request).is_none(), "it is not even sent");
    }
}
