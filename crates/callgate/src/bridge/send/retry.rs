//! Sends a message, and sends it again while that is safe.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use crate::bridge::receive::message::MessageId;
use crate::bridge::{Bridge, BridgeFailure};
use crate::http_client::send_error::{SendError, SendErrorKind};

/// Delay before the first retry. Doubled after each attempt.
const FIRST_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of times that the server may accept a connection and close it without a response.
const MAX_DISCONNECTS: usize = 4;
const DISCONNECT_DELAY: Duration = Duration::from_millis(500);
/// Time limit for opening a connection if the server was not reached within `Limits::first_request_wait`.
const LATE_CONNECT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct SendPolicy<'a> {
    pub(crate) ids: &'a [MessageId],
    /// Whether the message waits for a server that is not running yet.
    pub(crate) waits_for_server: bool,
    /// Whether the message may be sent again if the connection closed without a response.
    pub(crate) is_repeatable: bool,
}

impl Bridge {
    /// Returns `true` unless all requests of the message are cancelled.
    fn is_awaited(&self, policy: &SendPolicy<'_>) -> bool {
        policy.ids.is_empty() || self.in_flight.are_waiting(policy.ids)
    }

    /// Sends a message. Retries within the time limit while a retry is safe.
    pub(crate) async fn post_with_retries(
        &self,
        policy: &SendPolicy<'_>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, BridgeFailure> {
        let deadline = self.retry_deadline();
        let mut delay = FIRST_DELAY;
        let (mut is_repeatable, mut disconnects) = (policy.is_repeatable, 0);
        loop {
            self.in_flight.set_sent(policy.ids, true);
            let result = self.http.post(headers, body.clone()).await;
            if let Some(status) = result.as_ref().ok().map(Response::status)
                && !is_gateway_error(status)
            {
                if is_mcp_status(status) {
                    self.set_reachable(Ok(()));
                }
                return result.map_err(|error| self.send_failure(&error));
            }
            let error = result.as_ref().err();
            let was_not_sent = error.is_some_and(SendError::was_not_sent);
            disconnects += usize::from(error.is_some_and(SendError::is_disconnect));
            let is_safe = was_not_sent
                || policy.waits_for_server
                || (!is_gateway_timeout(&result) && std::mem::take(&mut is_repeatable));
            let should_retry = is_safe
                && !error.is_some_and(SendError::is_final)
                && disconnects < MAX_DISCONNECTS
                && Instant::now() + delay < deadline
                && self.is_awaited(policy);
            if !should_retry {
                let was_never_reached = self.reachability().deadline.is_some();
                if was_not_sent && was_never_reached && Instant::now() + delay >= deadline {
                    self.http.set_connect_limit(self.limits.connect.min(LATE_CONNECT));
                }
                return result.map_err(|error| self.send_failure(&error));
            }
            if was_not_sent {
                self.in_flight.set_sent(policy.ids, false);
            }
            let reason =
                error.map_or("a proxy responds instead of the server", |error| &error.message);
            self.set_reachable(Err(reason.to_owned()));
            // A port forwarder also accepts connections and closes them while the server is not running.
            tokio::time::sleep(if disconnects > 0 { DISCONNECT_DELAY } else { delay }).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }

    fn send_failure(&self, error: &SendError) -> BridgeFailure {
        let endpoint = self.http.endpoint();
        let failure = BridgeFailure::of_sending(endpoint, error);
        let was_reached = self.reachability().last == Some(Ok(()));
        match error.kind {
            SendErrorKind::Broken { .. } if !was_reached && !endpoint.is_https() => {
                failure.with_sentence("If the server speaks TLS, use `https://`")
            }
            _ => failure,
        }
    }
}

/// Returns `true` if a proxy timed out. The server may still be processing the request.
fn is_gateway_timeout(result: &Result<Response<Incoming>, SendError>) -> bool {
    result.as_ref().is_ok_and(|response| response.status() == StatusCode::GATEWAY_TIMEOUT)
}

/// Returns `true` if the response may come from an MCP server that accepted the credential.
fn is_mcp_status(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 401 | 403..=405 | 501)
}

/// Returns `true` for the status that a proxy sends if the server is not running.
fn is_gateway_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}
