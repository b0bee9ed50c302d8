//! Sends messages to the server. Retries if a retry is safe.

pub(crate) mod suspend;
pub(crate) mod client;
pub(crate) mod param_headers;
pub(crate) mod one_way;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use crate::bridge::receive::message::{
    CallParams, MessageId, ModernMeta, Request, parse_server_message, rpc_error,
};
use crate::bridge::session::OpenSession;
use crate::bridge::{Bridge, BridgeFailure};
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::mcp::parse::headers::{METHOD, NAME, PROTOCOL_VERSION, encode};
use crate::mcp::{HEADER_MISMATCH, UNSUPPORTED_VERSION};
use crate::wire::jsonrpc::{METHOD_NOT_FOUND, RpcError};
use client::{BodyKind, ServerClient};

/// Delay before the first retry. Doubled after each attempt.
const FIRST_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of times that the server may accept a connection and close it without a response.
const MAX_BREAKS: usize = 4;
const BREAK_DELAY: Duration = Duration::from_millis(500);
/// Time limit for opening a connection if the server was not reached within `Limits::first_request_wait`.
const LATE_CONNECT: Duration = Duration::from_secs(1);
const MAX_ERROR_BYTES: usize = 1 << 20;
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of pages of `tools/list` that are read to find a schema.
const MAX_PAGES: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct SendPolicy<'a> {
    pub(crate) ids: &'a [MessageId],
    /// Whether the message waits for a server that is not running yet.
    pub(crate) waits_for_server: bool,
    /// Whether the message may be sent again if the connection closed without a response.
    pub(crate) is_repeatable: bool,
}

pub(crate) type Sent = Result<Response<Incoming>, ErrorResponse>;

#[derive(Debug)]
pub(crate) struct ErrorResponse {
    pub(crate) status: StatusCode,
    location: Option<String>,
    wants_tls: bool,
    /// The body, if it is a JSON-RPC error.
    pub(crate) json: Option<String>,
    error: Option<RpcError>,
}

impl ErrorResponse {
    pub(crate) async fn read(response: Response<Incoming>, http: &ServerClient) -> Self {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.map(ToOwned::to_owned);
        let body = match client::body_kind(response.headers()) {
            BodyKind::Empty => None,
            _ => {
                let text = client::text(response.into_body(), MAX_ERROR_BYTES);
                tokio::time::timeout(ERROR_TIMEOUT, text).await.ok().and_then(Result::ok)
            }
        };
        let message = body.as_deref().and_then(parse_server_message);
        let error = message.as_ref().and_then(rpc_error);
        let wants_tls = status == StatusCode::BAD_REQUEST
            && !http.endpoint().is_https()
            && body.as_deref().is_some_and(names_https);
        let json = body.filter(|_| error.is_some());
        Self { status, location, wants_tls, json, error }
    }

    /// Returns `true` if the server does not know the session. Some servers send 400 instead of 404.
    pub(crate) fn is_lost_session(&self) -> bool {
        let names_it = |error: &RpcError| error.message.to_ascii_lowercase().contains("session");
        match self.status {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => self.error.as_ref().is_some_and(names_it),
            _ => false,
        }
    }

    fn has_code(&self, code: i64) -> bool {
        self.error.as_ref().is_some_and(|error| error.code == code)
    }

    pub(crate) fn failure(&self, http: &ServerClient) -> BridgeFailure {
        if self.wants_tls {
            let message = format!("{} speaks TLS; use `https://`", http.endpoint());
            return BridgeFailure::new(message).with_status(self.status);
        }
        let location = self.location.as_deref();
        BridgeFailure::of_status(http.endpoint(), self.status, location, http.credential())
    }

    pub(crate) fn message(&self, http: &ServerClient) -> String {
        match &self.error {
            Some(error) => error.to_string(),
            None => self.failure(http).message().to_owned(),
        }
    }

    /// Returns `true` if this response to `initialize` shows that the server supports no legacy revision.
    pub(crate) fn rejects_era(&self) -> bool {
        [METHOD_NOT_FOUND, UNSUPPORTED_VERSION, HEADER_MISMATCH]
            .iter()
            .any(|code| self.has_code(*code))
            || !self.supported().is_empty()
    }

    fn supported(&self) -> Vec<&str> {
        let data = self.error.as_ref().and_then(|error| error.data.as_ref());
        let list = data.and_then(|data| data.get("supported")?.as_array());
        list.into_iter().flatten().filter_map(|version| version.as_str()).collect()
    }

    pub(crate) fn era_failure(
        &self,
        http: &ServerClient,
        requested: Option<&str>,
    ) -> BridgeFailure {
        let offers = match self.supported().as_slice() {
            [] => "it does not list its revisions, perhaps it supports only 2026-07-28".to_owned(),
            versions => format!("it supports {}", versions.join(", ")),
        };
        let failure = BridgeFailure::new(format!(
            "{} does not accept `initialize` of revision {}: HTTP {}; {offers}. The bridge does not translate \
             between revisions: use a client that supports a revision of the server",
            http.endpoint(),
            requested.unwrap_or("unknown"),
            self.status,
        ))
        .with_status(self.status);
        match &self.error {
            Some(error) => failure.with_error(error),
            None => failure,
        }
    }
}

impl Bridge {
    /// Sends a request. Opens a new session if the old one is lost.
    pub(crate) async fn send(&self, request: &Request) -> Result<Sent, BridgeFailure> {
        let (mut may_renew, mut may_learn) = (true, true);
        let policy = SendPolicy {
            ids: &request.ids,
            waits_for_server: request.opens(),
            is_repeatable: request.only_reads(),
        };
        loop {
            let live = self.session_for(request);
            let headers = match &request.modern {
                Some(modern) => self.headers_of(request, modern),
                None => live.as_deref().map(OpenSession::headers).unwrap_or_default(),
            };
            let response = self.post_with_retries(&policy, &headers, request.body.clone()).await?;
            if response.status().is_success() {
                return Ok(Ok(response));
            }
            let refusal = ErrorResponse::read(response, &self.http).await;
            let lost = live.filter(|live| live.id.is_some() && refusal.is_lost_session());
            if let Some(live) = lost.filter(|_| std::mem::take(&mut may_renew)) {
                self.reopen_session(&live).await?;
            } else if refusal.has_code(HEADER_MISMATCH)
                && &*request.method == "tools/call"
                && std::mem::take(&mut may_learn)
            {
                self.learn_schemas(request).await;
            } else {
                return Ok(Err(refusal));
            }
        }
    }

    pub(crate) fn session_for(&self, request: &Request) -> Option<std::sync::Arc<OpenSession>> {
        let has_none = request.modern.is_some() || request.is_handshake();
        self.session.live().filter(|_| !has_none)
    }

    fn headers_of(&self, request: &Request, modern: &ModernMeta) -> HeaderMap {
        let mut headers = modern_headers(&modern.version, Some(&request.method));
        if let Some(name) = &modern.name {
            if let Ok(value) = HeaderValue::from_str(&encode(name)) {
                headers.insert(HeaderName::from_static(NAME), value);
            }
            if &*request.method == "tools/call" {
                let CallParams { arguments, .. } = request.params().unwrap_or_default();
                self.param_headers.add(name, arguments, &mut headers);
            }
        }
        headers
    }

    /// Requests `tools/list` to get the schemas of the tools. The requests have the `_meta` of `call`.
    async fn learn_schemas(&self, call: &Request) {
        let Some(modern) = &call.modern else { return };
        let CallParams { meta: Some(meta), .. } = call.params().unwrap_or_default() else { return };
        let mut cursor: Option<Box<serde_json::value::RawValue>> = None;
        for page in 0..MAX_PAGES {
            let params = match &cursor {
                Some(cursor) => json!({"_meta": meta, "cursor": cursor}),
                None => json!({"_meta": meta}),
            };
            let body = json!({"jsonrpc": "2.0", "id": format!("callgate-bridge-{page}"),
                "method": "tools/list", "params": params});
            let list = Request {
                ids: Vec::new(),
                method: "tools/list".into(),
                body: body.to_string().into(),
                modern: Some(ModernMeta { version: modern.version.clone(), name: None }),
            };
            let Some(json) = self.send_own(&list).await else { return };
            let result = parse_server_message(&json).and_then(|message| message.result);
            let Some(next) = result.and_then(|result| self.param_headers.learn(result)) else {
                return;
            };
            cursor = Some(next.to_owned());
        }
    }

    async fn send_own(&self, request: &Request) -> Option<String> {
        let modern = request.modern.as_ref()?;
        let headers = self.headers_of(request, modern);
        let policy = SendPolicy { is_repeatable: true, ..SendPolicy::default() };
        let response =
            self.post_with_retries(&policy, &headers, request.body.clone()).await.ok()?;
        self.read_own_response(response).await
    }

    /// Returns `true` unless all requests of the message are cancelled.
    fn is_wanted(&self, policy: &SendPolicy<'_>) -> bool {
        policy.ids.is_empty() || self.in_flight.are_waiting(policy.ids)
    }

    /// Sends a message. Retries within the time limit while a retry is safe.
    pub(crate) async fn post_with_retries(
        &self,
        policy: &SendPolicy<'_>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, BridgeFailure> {
        let end = self.retry_deadline();
        let mut delay = FIRST_DELAY;
        let (mut is_repeatable, mut breaks) = (policy.is_repeatable, 0);
        loop {
            self.in_flight.set_sent(policy.ids, true);
            let sent = self.http.post(headers, body.clone()).await;
            if let Some(status) = sent.as_ref().ok().map(Response::status)
                && !is_gateway_error(status)
            {
                if is_mcp_status(status) {
                    self.set_reachable(Ok(()));
                }
                return sent.map_err(|error| self.send_failure(&error));
            }
            let error = sent.as_ref().err();
            let was_not_sent = error.is_some_and(SendError::was_not_sent);
            breaks += usize::from(error.is_some_and(SendError::is_break));
            let is_safe = was_not_sent
                || policy.waits_for_server
                || (!is_time_out(&sent) && std::mem::take(&mut is_repeatable));
            let again = is_safe
                && !error.is_some_and(SendError::is_final)
                && breaks < MAX_BREAKS
                && Instant::now() + delay < end
                && self.is_wanted(policy);
            if !again {
                if was_not_sent && self.first_contact().is_some() && Instant::now() + delay >= end {
                    self.http.set_connect_limit(self.limits.connect.min(LATE_CONNECT));
                }
                return sent.map_err(|error| self.send_failure(&error));
            }
            if was_not_sent {
                self.in_flight.set_sent(policy.ids, false);
            }
            let why =
                error.map_or("a proxy responds instead of the server", |error| &error.message);
            self.set_reachable(Err(why.to_owned()));
            // If a port is forwarded to a server that is not running, connections are accepted and closed too.
            tokio::time::sleep(if breaks > 0 { BREAK_DELAY } else { delay }).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }

    fn send_failure(&self, error: &SendError) -> BridgeFailure {
        let endpoint = self.http.endpoint();
        let failure = BridgeFailure::of_sending(endpoint, error);
        let was_there = *self.last_reachable() == Some(Ok(()));
        match error.kind {
            SendErrorKind::Broken { .. } if !was_there && !endpoint.is_https() => {
                failure.and("If the server speaks TLS, use `https://`")
            }
            _ => failure,
        }
    }
}

pub(crate) fn modern_headers(version: &str, method: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    for (name, value) in [(PROTOCOL_VERSION, Some(version)), (METHOD, method)] {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

/// Returns `true` for the error that nginx, Apache or Go sends for plain HTTP on an HTTPS port.
fn names_https(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    [
        "plain http request was sent to https port",
        "speaking plain http to an ssl",
        "to an https server",
    ]
    .iter()
    .any(|phrase| body.contains(phrase))
}

/// Returns `true` if a proxy timed out. The server may still be processing the request.
fn is_time_out(sent: &Result<Response<Incoming>, SendError>) -> bool {
    sent.as_ref().is_ok_and(|response| response.status() == StatusCode::GATEWAY_TIMEOUT)
}

/// Returns `true` if the response may come from an MCP server that accepted the credential.
fn is_mcp_status(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 401 | 403..=405 | 501)
}

/// Returns `true` for the status that a proxy sends if the server is not running.
fn is_gateway_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}
