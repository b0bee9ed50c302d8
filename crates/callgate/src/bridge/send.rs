//! Sends messages to the server.

pub(crate) mod suspend_detector;
pub(crate) mod client;
pub(crate) mod param_headers;
pub(crate) mod one_way;
pub(crate) mod retry;

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use crate::bridge::receive::message::{CallParams, ClientMessage, parse_server_message, rpc_error};
use crate::bridge::session::OpenSession;
use crate::bridge::{Bridge, BridgeFailure};
use crate::mcp::parse::headers::{METHOD, NAME, PROTOCOL_VERSION, encode};
use crate::mcp::{HEADER_MISMATCH, UNSUPPORTED_VERSION};
use crate::wire::jsonrpc::{METHOD_NOT_FOUND, RpcError};
use client::{BodyKind, ServerClient};
use retry::SendPolicy;

const MAX_ERROR_BYTES: usize = 1 << 20;
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of pages of `tools/list` that are read to find a schema.
const MAX_PAGES: usize = 100;

pub(crate) type SendResult = Result<Response<Incoming>, ErrorResponse>;

#[derive(Debug)]
pub(crate) struct ErrorResponse {
    pub(crate) status: StatusCode,
    location: Option<String>,
    expects_tls: bool,
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
        let expects_tls = status == StatusCode::BAD_REQUEST
            && !http.endpoint().is_https()
            && body.as_deref().is_some_and(mentions_https);
        let json = body.filter(|_| error.is_some());
        Self { status, location, expects_tls, json, error }
    }

    /// Returns `true` if the server does not know the session. Some servers send 400 instead of 404.
    pub(crate) fn is_lost_session(&self) -> bool {
        let mentions_session =
            |error: &RpcError| error.message.to_ascii_lowercase().contains("session");
        match self.status {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => self.error.as_ref().is_some_and(mentions_session),
            _ => false,
        }
    }

    fn has_code(&self, code: i64) -> bool {
        self.error.as_ref().is_some_and(|error| error.code == code)
    }

    pub(crate) fn failure(&self, http: &ServerClient) -> BridgeFailure {
        if self.expects_tls {
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

    /// Returns `true` if this response to `initialize` shows that the server does not support `initialize`, or does
    /// not support the revision that the client requested.
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
        let supported = match self.supported().as_slice() {
            [] => "the server lists no revisions and may support only 2026-07-28".to_owned(),
            versions => format!("the server supports {}", versions.join(", ")),
        };
        let failure = BridgeFailure::new(format!(
            "{} does not accept `initialize` of revision {}: HTTP {}; {supported}. The bridge does not translate \
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
    pub(crate) async fn send(&self, request: &ClientMessage) -> Result<SendResult, BridgeFailure> {
        let (mut may_reopen, mut may_fetch_schemas) = (true, true);
        let policy = SendPolicy {
            ids: &request.ids,
            waits_for_server: request.is_first_request(),
            is_repeatable: request.is_read_only(),
        };
        loop {
            let session = self.session_for(request);
            let headers = self.headers_of(request, session.as_deref());
            let response = self.post_with_retries(&policy, &headers, request.body.clone()).await?;
            if response.status().is_success() {
                return Ok(Ok(response));
            }
            let refusal = ErrorResponse::read(response, &self.http).await;
            let lost = session.filter(|session| session.id.is_some() && refusal.is_lost_session());
            if let Some(session) = lost.filter(|_| std::mem::take(&mut may_reopen)) {
                self.reopen_session(&session).await?;
            } else if refusal.has_code(HEADER_MISMATCH)
                && &*request.method == "tools/call"
                && std::mem::take(&mut may_fetch_schemas)
            {
                self.fetch_schemas(request).await;
            } else {
                return Ok(Err(refusal));
            }
        }
    }

    pub(crate) fn session_for(&self, message: &ClientMessage) -> Option<Arc<OpenSession>> {
        let is_sessionless = message.is_modern() || message.is_handshake();
        self.session.current().filter(|_| !is_sessionless)
    }

    /// Returns the headers of a message: those of its session, or those of the modern era.
    pub(crate) fn headers_of(
        &self,
        message: &ClientMessage,
        session: Option<&OpenSession>,
    ) -> HeaderMap {
        let Some(version) = message.version.as_deref() else {
            return session.map(OpenSession::headers).unwrap_or_default();
        };
        let mut headers = HeaderMap::with_capacity(8);
        let name = message.name.as_deref();
        let encoded = name.map(encode);
        let (method, encoded) = (Some(&*message.method), encoded.as_deref());
        for (name, value) in [(PROTOCOL_VERSION, Some(version)), (METHOD, method), (NAME, encoded)]
        {
            if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        if let Some(name) = name.filter(|_| &*message.method == "tools/call") {
            let CallParams { arguments, .. } = message.params().unwrap_or_default();
            self.param_headers.add(name, arguments, &mut headers);
        }
        headers
    }

    /// Requests `tools/list` to get the schemas of the tools. The requests have the `_meta` of `call`.
    async fn fetch_schemas(&self, call: &ClientMessage) {
        let CallParams { meta: Some(meta), .. } = call.params().unwrap_or_default() else { return };
        let mut cursor: Option<Box<serde_json::value::RawValue>> = None;
        for page in 0..MAX_PAGES {
            let params = match &cursor {
                Some(cursor) => json!({"_meta": meta, "cursor": cursor}),
                None => json!({"_meta": meta}),
            };
            let body = json!({"jsonrpc": "2.0", "id": format!("callgate-bridge-{page}"),
                "method": "tools/list", "params": params});
            let request = ClientMessage {
                method: "tools/list".into(),
                version: call.version.clone(),
                body: body.to_string().into(),
                ..ClientMessage::default()
            };
            let Some(json) = self.send_internal(&request).await else { return };
            let result = parse_server_message(&json).and_then(|message| message.result);
            let Some(next) = result.and_then(|result| self.param_headers.record_tools(result))
            else {
                return;
            };
            cursor = Some(next.to_owned());
        }
    }

    async fn send_internal(&self, request: &ClientMessage) -> Option<String> {
        let headers = self.headers_of(request, None);
        let policy = SendPolicy { is_repeatable: true, ..SendPolicy::default() };
        let response =
            self.post_with_retries(&policy, &headers, request.body.clone()).await.ok()?;
        self.read_internal_response(response).await
    }
}

/// Returns `true` for the error that nginx, Apache or Go sends for plain HTTP on an HTTPS port.
fn mentions_https(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    [
        "plain http request was sent to https port",
        "speaking plain http to an ssl",
        "to an https server",
    ]
    .iter()
    .any(|phrase| body.contains(phrase))
}
