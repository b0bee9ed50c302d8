//! The request that becomes a WebSocket.
//!
//! It is an ordinary one of the client's, so that what goes wrong on the way there is told as it is of
//! every request.

use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Method, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::forward::client::{Client, Head, redirected};
use crate::forward::failure::Failure;
use crate::forward::refusal::Refusal;
use crate::forward::send_failure::SendFailure;
use crate::http_client::send_error::words;

/// An open WebSocket.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Opens one whose messages may be so long.
pub(super) async fn open(
    client: &Client,
    mut headers: HeaderMap,
    limit: usize,
) -> Result<Socket, SendFailure> {
    let key = generate_key();
    let own = [
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
    ];
    headers.extend(own);
    headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    let value = HeaderValue::from_str(&key).map_err(|_| Failure::NoHttp)?;
    headers.insert(SEC_WEBSOCKET_KEY, value);
    let response = client.send(Method::GET, headers, Bytes::new()).await;
    let response = response.map_err(SendFailure::before_the_call)?;
    check(&response, &derive_accept_key(key.as_bytes()))?;
    let upgraded = hyper::upgrade::on(response).await;
    let upgraded = upgraded.map_err(|error| SendFailure::never_sent(&words(&error)))?;
    let config =
        WebSocketConfig::default().max_message_size(Some(limit)).max_frame_size(Some(limit));
    let io = TokioIo::new(upgraded);
    Ok(WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await)
}

/// Whether the service agrees.
fn check(response: &Head, accept: &str) -> Result<(), Failure> {
    let (status, headers) = (response.status(), response.headers());
    match status {
        StatusCode::SWITCHING_PROTOCOLS
            if headers.get(SEC_WEBSOCKET_ACCEPT).is_some_and(|found| found == accept) =>
        {
            Ok(())
        }
        status if status.is_redirection() => Err(redirected(status, headers)),
        status => Err(match Refusal::of(status, headers) {
            Some(refusal) => Failure::Refused(refusal),
            None => Failure::NoWebSocket(status),
        }),
    }
}
