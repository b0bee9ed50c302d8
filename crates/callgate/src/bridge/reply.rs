//! Sends a request and relays its response. Each request gets one response, which may be an error.

pub(crate) mod sse;
pub(crate) mod event_stream;
mod resume;

use std::time::Duration;

use http::header::HeaderValue;
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::bridge::error_reply::{CHECK_URL, error_message};
use crate::bridge::receive::message::{
    ClientMessage, MessageId, ProtocolVersion, ServerMessage, parse_server_message, rpc_error,
};
use crate::bridge::reply::event_stream::EventStream;
use crate::bridge::send::ErrorResponse;
use crate::bridge::send::client::{self, BodyError, BodyKind};
use crate::bridge::{Bridge, BridgeFailure};
use crate::mcp::parse::headers::SESSION_ID;
use crate::mcp::reply::compact::compact;
use crate::wire::jsonrpc::RpcError;

/// Maximum time that a stream may stay open after the response.
pub(crate) const STREAM_GRACE: Duration = Duration::from_secs(1);

pub(crate) struct SentRequest<'a> {
    request: &'a ClientMessage,
    /// Id of the session that the request opened.
    session_id: Option<HeaderValue>,
}

impl Bridge {
    /// Sends a request, and writes its response or an error to the client.
    pub(crate) async fn handle(&self, request: &ClientMessage) {
        if let Err(failure) = self.exchange(request).await {
            for id in &request.ids {
                self.fail(id, &failure).await;
            }
        }
        for id in &request.ids {
            self.in_flight.complete(id);
        }
    }

    pub(crate) async fn fail(&self, id: &MessageId, failure: &BridgeFailure) {
        if self.in_flight.complete(id) {
            tracing::warn!("{}", failure.message());
            self.write(failure.to_response(id, self.http.endpoint())).await;
        }
    }

    async fn exchange(&self, request: &ClientMessage) -> Result<(), BridgeFailure> {
        let response = match self.send(request).await? {
            Ok(response) => response,
            Err(refusal) => return self.handle_refusal(request, refusal).await,
        };
        let session_id = response.headers().get(SESSION_ID).cloned();
        let sent = SentRequest { request, session_id };
        match client::body_kind(response.headers()) {
            BodyKind::Events => {
                let events = EventStream::new(response.into_body(), &self.limits);
                self.relay_event_stream(&sent, events).await
            }
            BodyKind::Json => self.relay_json(&sent, response).await,
            BodyKind::Empty | BodyKind::Other => {
                let status = response.status();
                let message = format!(
                    "{} responded with HTTP {status} and neither JSON nor a stream. {CHECK_URL}",
                    self.http.endpoint()
                );
                Err(BridgeFailure::new(message).with_status(status))
            }
        }
    }

    async fn handle_refusal(
        &self,
        request: &ClientMessage,
        refusal: ErrorResponse,
    ) -> Result<(), BridgeFailure> {
        if request.is_handshake() && refusal.rejects_era() {
            let requested = request.params().map(|ProtocolVersion { version }| version);
            return Err(refusal.era_failure(&self.http, requested.as_deref()));
        }
        match &refusal.json {
            // The bridge's own message is better, because the server does not know where the user set the token.
            Some(_) if refusal.status == StatusCode::UNAUTHORIZED => {
                Err(refusal.failure(&self.http))
            }
            // The server's own error is more specific.
            Some(json) => {
                if refusal.status == StatusCode::FORBIDDEN {
                    tracing::warn!("{}", refusal.failure(&self.http).message());
                }
                let sent = SentRequest { request, session_id: None };
                self.relay(json, Some(&sent)).await;
                self.check_responses(request)
            }
            None => Err(refusal.failure(&self.http)),
        }
    }

    async fn relay_json(
        &self,
        sent: &SentRequest<'_>,
        response: Response<Incoming>,
    ) -> Result<(), BridgeFailure> {
        let json = client::text(response.into_body(), self.limits.body_bytes).await;
        let json = json.map_err(|error| BridgeFailure::of_body(self.http.endpoint(), &error))?;
        if json.trim_start().starts_with('[') {
            self.relay_batch(&json, sent).await;
        } else {
            self.relay(&json, Some(sent)).await;
        }
        self.check_responses(sent.request)
    }

    fn check_responses(&self, request: &ClientMessage) -> Result<(), BridgeFailure> {
        if self.in_flight.are_waiting(&request.ids) {
            let endpoint = self.http.endpoint();
            let message = format!("the response of {endpoint} has no answer to the request");
            let is_first = request.is_first_request();
            return Err(BridgeFailure::new(if is_first {
                format!("{message}. {CHECK_URL}")
            } else {
                message
            }));
        }
        Ok(())
    }

    async fn relay_events(
        &self,
        sent: &SentRequest<'_>,
        events: &mut EventStream,
    ) -> Result<(), BodyError> {
        loop {
            let json = if self.in_flight.are_waiting(&sent.request.ids) {
                events.next().await?
            } else {
                // Reads the stream to its end, so that the connection can be reused.
                tokio::time::timeout(STREAM_GRACE, events.next()).await.unwrap_or(Ok(None))?
            };
            let Some(json) = json else { return Ok(()) };
            self.relay(&json, Some(sent)).await;
        }
    }

    pub(crate) async fn relay(&self, json: &str, sent: Option<&SentRequest<'_>>) {
        let Some(message) = parse_server_message(json) else {
            tracing::warn!(
                "the server sent data that is not a JSON-RPC message; the data is ignored"
            );
            return;
        };
        if message.method.is_some() {
            self.write(compact(json).into_owned().into_bytes()).await;
            return;
        }
        let Some(id) = message.id else {
            if let (Some(error), Some(sent)) = (rpc_error(&message), sent) {
                self.relay_error_without_id(&error, &sent.request.ids).await;
            }
            return;
        };
        let id = MessageId::of(id);
        if let Some(sent) = sent.filter(|sent| sent.request.ids.contains(&id)) {
            self.record_result(sent, &message);
        }
        if self.in_flight.complete(&id) {
            self.write(compact(json).into_owned().into_bytes()).await;
        }
    }

    /// Relays the responses to a batch, each response once.
    async fn relay_batch(&self, json: &str, sent: &SentRequest<'_>) {
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) else { return };
        let (mut relayed, mut error_without_id) = (Vec::with_capacity(items.len()), None);
        for item in &items {
            let Some(message) = parse_server_message(item.get()) else { continue };
            match message.id {
                Some(id)
                    if message.method.is_none() && !self.in_flight.complete(&MessageId::of(id)) => {
                }
                None if message.method.is_none() => {
                    error_without_id = rpc_error(&message).or(error_without_id);
                }
                _ => relayed.push(*item),
            }
        }
        if relayed.len() == items.len() {
            self.write(compact(json).into_owned().into_bytes()).await;
        } else if !relayed.is_empty() {
            let items: Vec<_> = relayed.iter().map(|item| compact(item.get())).collect();
            self.write(format!("[{}]", items.join(",")).into_bytes()).await;
        }
        if let Some(error) = error_without_id {
            self.relay_error_without_id(&error, &sent.request.ids).await;
        }
    }

    /// Relays an error without an id to all requests that still wait for a response.
    async fn relay_error_without_id(&self, error: &RpcError, ids: &[MessageId]) {
        for id in ids {
            if self.in_flight.complete(id) {
                self.write(error_message(Some(id.as_json()), error)).await;
            }
        }
    }

    fn record_result(&self, sent: &SentRequest<'_>, message: &ServerMessage<'_>) {
        let Some(result) = message.result else { return };
        let is_tool_list = &*sent.request.method == "tools/list";
        if is_tool_list && self.http.credential().is_none() && has_no_tools(result) {
            tracing::warn!(
                "{} lists no tools for callers without a token: set CALLGATE_TOKEN if the server needs a token",
                self.http.endpoint()
            );
        }
        if sent.request.is_handshake() {
            self.settings.clear();
            self.session.open(&sent.request.body, sent.session_id.clone(), result);
        } else if !sent.request.is_modern() {
            self.settings.record(sent.request);
        } else if is_tool_list {
            self.param_headers.record_tools(result);
        }
    }
}

fn has_no_tools(result: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct OpaqueToolList {
        tools: Vec<IgnoredAny>,
    }
    serde_json::from_str(result.get()).is_ok_and(|list: OpaqueToolList| list.tools.is_empty())
}
