//! Sends calls over one WebSocket connection.
//!
//! A task owns the connection. It writes requests, and passes each reply to its call. When the connection closes, the
//! task ends. The next request starts a new task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes, error};

use crate::http_client::send_error::{SendError, SendErrorKind, TIMED_OUT, describe};
use crate::upstream::forward::auth::refusal::AuthRefusal;
use crate::upstream::forward::reply::ReplyTarget;
use crate::upstream::forward::send::queue::ReplySender;
use crate::upstream::forward::service::{Service, connect_limit};
use crate::upstream::forward::{Failure, QueuedRequest, RequestId, ServiceResponse};

const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// Opens a connection, and sends requests over it until it closes.
pub(crate) async fn run(service: Arc<Service>, mut requests: mpsc::Receiver<QueuedRequest>) {
    let timed_out = SendError::new(SendErrorKind::ConnectTimeout, TIMED_OUT);
    let opened = timeout(connect_limit(service.options.limits), open(&service)).await;
    let (failure, sink) = match opened.unwrap_or(Err(Failure::Send(timed_out))) {
        Ok(socket) => {
            let (mut sink, stream) = socket.split();
            let reason = exchange(&service, &mut sink, stream, &mut requests).await;
            (Failure::never_sent(reason.describe()), Some(sink))
        }
        Err(failure) => (failure, None),
    };
    // Later requests open another connection.
    requests.close();
    while let Some(request) = requests.recv().await {
        let _ = request.reply.send(Err(failure.clone()));
    }
    if let Some(mut sink) = sink {
        let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
    }
}

async fn open(service: &Service) -> Result<WebSocket, Failure> {
    let key = generate_key();
    let value = HeaderValue::from_str(&key).map_err(|_| Failure::never_sent("no key"))?;
    let mut headers = service.options.headers.clone();
    headers.extend([
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (SEC_WEBSOCKET_KEY, value),
    ]);
    headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    let response = service.upgrade(headers).await.map_err(|failure| match failure {
        // Only the handshake was sent, not the request of the call.
        Failure::Send(SendError { kind: SendErrorKind::Broken { .. }, message }) => {
            Failure::never_sent(message)
        }
        failure => failure,
    })?;
    check(&response, &derive_accept_key(key.as_bytes()))?;
    let upgraded = hyper::upgrade::on(response).await;
    let upgraded = upgraded.map_err(|error| Failure::never_sent(describe(&error)))?;
    let max_reply = Some(service.options.limits.result_bytes);
    let config = WebSocketConfig::default().max_message_size(max_reply).max_frame_size(max_reply);
    let io = TokioIo::new(upgraded);
    Ok(WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await)
}

/// Writes requests and reads replies, until writing or reading ends.
async fn exchange(
    service: &Service,
    sink: &mut SplitSink<WebSocket, Message>,
    stream: SplitStream<WebSocket>,
    requests: &mut mpsc::Receiver<QueuedRequest>,
) -> CloseReason {
    let pending = PendingReplies::new(service.options.limits.concurrent);
    // Reads first, so that nothing is written to a closed connection. Writing is unconstrained, because a service
    // that sends all the time would otherwise use up the task's budget.
    let reason = tokio::select! {
        biased;
        reason = read(&service.name, stream, &pending) => reason,
        reason = tokio::task::unconstrained(write(sink, requests, &pending)) => reason,
    };
    pending.fail_all(&reason);
    reason
}

async fn read(
    upstream: &str,
    mut stream: SplitStream<WebSocket>,
    pending: &PendingReplies,
) -> CloseReason {
    while let Some(message) = stream.next().await {
        let text = match message {
            Ok(Message::Text(text)) => Some(text.to_string()),
            Ok(Message::Binary(bytes)) => String::from_utf8(bytes.into()).ok(),
            Ok(Message::Close(frame)) => {
                return CloseReason::Closed(frame.map(|frame| frame.code.into()));
            }
            // The next read sends the answer to a ping.
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
            Err(error) => return CloseReason::of(&error),
        };
        if !text.is_some_and(|text| pending.reply(text)) {
            tracing::debug!(upstream, "ignored a message that answers no request");
        }
    }
    CloseReason::Closed(None)
}

fn check(response: &Response<Incoming>, accept: &str) -> Result<(), Failure> {
    let (status, headers) = (response.status(), response.headers());
    match status {
        StatusCode::SWITCHING_PROTOCOLS
            if headers.get(SEC_WEBSOCKET_ACCEPT).is_some_and(|value| value == accept) =>
        {
            Ok(())
        }
        status if status.is_redirection() => Err(Failure::redirected(status, headers)),
        status => Err(match AuthRefusal::of(status, headers) {
            Some(refusal) => Failure::Refused(refusal),
            None => Failure::NoWebSocket(status),
        }),
    }
}

async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    requests: &mut mpsc::Receiver<QueuedRequest>,
    pending: &PendingReplies,
) -> CloseReason {
    while let Some(request) = requests.recv().await {
        let Some(body) = pending.add(request) else { continue };
        let sent = match Utf8Bytes::try_from(body) {
            Ok(text) => sink.feed(Message::Text(text)).await,
            Err(error) => Err(error.into()),
        };
        // All queued requests are flushed together.
        let flushed = match sent {
            Ok(()) if requests.is_empty() => sink.flush().await,
            sent => sent,
        };
        if let Err(error) = flushed {
            return CloseReason::of(&error);
        }
    }
    CloseReason::Closed(None)
}

/// The calls that wait for a reply, by request id. A dropped call is removed when its reply arrives, or when a call
/// is added while more than `limit` calls are in the map.
#[derive(Debug)]
struct PendingReplies {
    calls: Mutex<HashMap<RequestId<'static>, ReplySender>>,
    limit: usize,
}

impl PendingReplies {
    fn new(limit: usize) -> Self {
        Self { calls: Mutex::default(), limit }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<RequestId<'static>, ReplySender>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request and returns its body. Returns `None` if the call was dropped.
    fn add(&self, request: QueuedRequest) -> Option<Bytes> {
        let QueuedRequest { id, body, reply, .. } = request;
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

    /// Passes a message to its call. Returns `false` if no call waits for the message.
    fn reply(&self, message: String) -> bool {
        let mut calls = self.calls();
        let sender = match ReplyTarget::of(&message) {
            ReplyTarget::Request(id) => calls.remove(&id.into_owned()),
            // The service could not parse a request. If only one call waits, it must be the request of this call.
            ReplyTarget::UnknownRequest if calls.len() == 1 => {
                calls.drain().next().map(|(_, sender)| sender)
            }
            ReplyTarget::UnknownRequest | ReplyTarget::NotAReply => None,
        };
        drop(calls);
        sender.is_some_and(|sender| sender.send(Ok(ServiceResponse::from_message(message))).is_ok())
    }

    fn fail_all(&self, reason: &CloseReason) {
        let calls = std::mem::take(&mut *self.calls());
        let is_only = calls.len() == 1;
        for sender in calls.into_values() {
            let _ = sender.send(Err(reason.failure(is_only)));
        }
    }
}

#[derive(Debug)]
enum CloseReason {
    /// The service closed the connection, possibly with a code.
    Closed(Option<u16>),
    Broken(String),
    /// A message exceeds the limit. The rest of the connection cannot be read.
    TooLarge(usize),
}

impl CloseReason {
    fn of(error: &Error) -> Self {
        match error {
            Error::ConnectionClosed | Error::AlreadyClosed => Self::Closed(None),
            Error::Protocol(error::ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Closed(None)
            }
            Error::Capacity(error::CapacityError::MessageTooLong { max_size, .. }) => {
                Self::TooLarge(*max_size)
            }
            Error::Io(error) => Self::Broken(describe(error)),
            // The messages of these errors do not contain data of the frame.
            Error::Protocol(error) => Self::Broken(error.to_string()),
            _ => Self::Broken("the data is not a WebSocket frame".to_owned()),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Closed(None) => "closed by the service".to_owned(),
            Self::Closed(Some(code)) => format!("closed by the service with code {code}"),
            Self::Broken(message) => message.clone(),
            Self::TooLarge(limit) => {
                format!("a message on the same connection is longer than {limit} bytes")
            }
        }
    }

    /// Returns the failure for a request that was written. If several calls wait, a message that is too large may
    /// belong to any of them, so each call gets the failure for a closed connection.
    fn failure(&self, is_only: bool) -> Failure {
        match self {
            Self::TooLarge(limit) if is_only => Failure::TooLarge(*limit),
            reason => Failure::broken(reason.describe()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::model::method::Safety;

    #[test]
    fn dropped_calls_are_removed() {
        let pending = PendingReplies::new(3);
        let request = |number| {
            let ((headers, credential, body, reservation), (reply, receiver)) =
                (Default::default(), oneshot::channel());
            let (id, safety) = (RequestId::Number(number), Safety::ReadOnly);
            (QueuedRequest { id, headers, credential, body, safety, reservation, reply }, receiver)
        };
        for number in 1..100 {
            let (request, receiver) = request(number);
            assert!(pending.add(request).is_some());
            drop(receiver);
            assert!(pending.calls().len() <= 4);
        }
        let (request, receiver) = request(100);
        drop(receiver);
        assert!(pending.add(request).is_none(), "the request is not sent");
    }
}
