//! Streamable HTTP: one endpoint for every revision. Replies with JSON or an event stream, depending on
//! the `Accept` header and on whether the call sends notifications.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ACCEPT, ALLOW};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;

use super::rest;
use crate::access::{Caller, NoShare, Share};
use crate::mcp::{
    BatchPart, CallReply, EncodedMessage, Event, Header, Headers, Identify, IdentifyError, Inbound,
    InboundKind, METHOD, McpError, McpResponse, NAME, PROTOCOL_VERSION, RunningCall, SESSION_ID,
    answer_batch,
};
use crate::transport::http::body::{self, Slices};
use crate::transport::http::error::{HttpError, add_retry_after};
use crate::transport::http::{SharedState, authenticate, origin, response, sse};
use crate::upstream::BoxFuture;
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST};

/// Time after which the reply becomes an event stream if the client accepts one but prefers JSON.
const STREAM_AFTER: Duration = Duration::from_secs(2);

/// Handles `POST`, `GET` and `DELETE` of `/mcp`.
pub(crate) async fn handle(
    state: &SharedState,
    caller: &Caller,
    parts: &Parts,
    body: Result<Bytes, HttpError>,
) -> Result<Response, HttpError> {
    // Counts only messages that cannot be read. `Mcp::handle` counts all others, because it replies to a refused tool
    // call with a result instead of an error.
    let counted = |error: HttpError| match state.gateway.count_request(caller) {
        Ok(()) => error,
        Err(limited) => limited.into(),
    };
    let body = body.map_err(counted)?;
    let (kind, text) = read(state, parts, &body).map_err(counted)?;
    let accepted = AcceptedTypes::of(&parts.headers);
    let headers = RequestHeaders::new(&parts.headers);
    let identify = || Arc::new(Reauthenticate { parts: parts.clone(), state: state.clone() }) as _;
    let inbound = Inbound {
        kind,
        headers: (kind != InboundKind::RawRequest).then_some(&headers),
        body: &text,
        connection: None,
        caller,
        identify: &identify,
        accepts_events: accepted.stream,
    };
    match state.mcp.handle(&inbound).await? {
        McpResponse::Accepted if kind == InboundKind::EndSession => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        response => Ok(to_http(state, caller, accepted, response).await?),
    }
}

/// Returns the message of a request.
fn read<'a>(
    state: &SharedState,
    parts: &'a Parts,
    body: &'a [u8],
) -> Result<(InboundKind, Cow<'a, str>), HttpError> {
    let not_allowed = |message| Err(McpError::new(405, INVALID_REQUEST, message).into());
    match parts.method {
        Method::POST => match body::text(body) {
            Ok(text) => Ok((InboundKind::Message, Cow::Borrowed(text))),
            Err(error) => Err(McpError::new(400, error.code(), error.to_string()).into()),
        },
        Method::DELETE => Ok((InboundKind::EndSession, Cow::Borrowed(""))),
        Method::GET => match rest::query_parameter(&parts.uri, "rawRequest") {
            None => Ok((InboundKind::OpenStream, Cow::Borrowed(""))),
            Some(_) if !state.options.raw_request => not_allowed(
                "`rawRequest` is turned off; send the message with POST, or set `raw_request`",
            ),
            Some(raw) => {
                origin::check_fetch_site(&parts.headers)?;
                Ok((InboundKind::RawRequest, raw))
            }
        },
        _ => not_allowed("this URL accepts messages only with POST"),
    }
}

/// Converts the response of the protocol to HTTP.
async fn to_http(
    state: &SharedState,
    caller: &Caller,
    accepted: AcceptedTypes,
    response: McpResponse,
) -> Result<Response, McpError> {
    Ok(match response {
        McpResponse::Message(message) => accepted.message(message),
        McpResponse::SessionOpened { message, session } => {
            with_session(accepted.message(message), session)
        }
        McpResponse::Accepted => StatusCode::ACCEPTED.into_response(),
        McpResponse::Call(mut call) => {
            let share = share_of_call(state, caller, &call)?;
            match call.try_ready().await {
                Poll::Ready(reply) => accepted.call_reply(reply),
                Poll::Pending => Box::pin(wait_for_call(accepted, call, share)).await,
            }
        }
        McpResponse::Batch(parts) => Box::pin(batch(state, caller, accepted, parts)).await?,
        McpResponse::Resumed(reader) => {
            let share = share_of_stream(state, caller, accepted)?;
            body::keep_while_streaming(sse::of_stored(*reader), share)
        }
        McpResponse::Notifications(stream) => {
            let share = share_of_stream(state, caller, accepted);
            let share = share.map_err(|error| stream.error(error))?;
            body::keep_while_streaming(sse::of_notifications(stream), share)
        }
    })
}

fn with_session(mut response: Response, session: Option<String>) -> Response {
    if let Some(id) = session.and_then(|id| HeaderValue::try_from(id).ok()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Counts a call against `max_legacy_calls`. Returns `None` for a modern call, which is not counted.
fn share_of_call(
    state: &SharedState,
    caller: &Caller,
    call: &RunningCall,
) -> Result<Option<Share>, McpError> {
    if call.ends_with_client() {
        return Ok(None);
    }
    let share = state.legacy_calls.try_acquire(caller.principal(), 1);
    share.map(Some).map_err(|reason| too_many("calls running", reason).with_id(call.id()))
}

/// Counts an event stream against `max_streams`. Fails if the client does not accept event streams.
fn share_of_stream(
    state: &SharedState,
    caller: &Caller,
    accepted: AcceptedTypes,
) -> Result<Share, McpError> {
    if !accepted.stream {
        let message = "this request opens an event stream: accept `text/event-stream`";
        return Err(McpError::new(406, INVALID_REQUEST, message));
    }
    let share = state.streams.try_acquire(caller.principal(), 1);
    share.map_err(|reason| too_many("streams open", reason))
}

fn too_many(subject: &str, reason: NoShare) -> McpError {
    let message = match reason {
        NoShare::PrincipalLimit => {
            format!("you have too many {subject}; end some, or try again later")
        }
        NoShare::UsedByOthers => format!("this server has too many {subject}; try again later"),
    };
    McpError::new(503, INTERNAL_ERROR, message)
}

/// Runs a batch. Counts all its calls against `max_legacy_calls` before the first call starts.
async fn batch(
    state: &SharedState,
    caller: &Caller,
    accepted: AcceptedTypes,
    parts: Vec<BatchPart>,
) -> Result<Response, McpError> {
    let calls = parts.iter().filter(|part| matches!(part, BatchPart::Call(_))).count();
    let share = state.legacy_calls.try_acquire(caller.principal(), calls);
    let share = Arc::new(share.map_err(|reason| too_many("calls running", reason))?);
    Ok(match answer_batch(parts, |run| spawn(run, Arc::clone(&share))).await {
        Some(message) => accepted.message(message),
        None => accepted.no_message(),
    })
}

/// Runs a call that is not ready. Replies with JSON if the client does not accept event streams. Otherwise replies with
/// an event stream. There is one exception: if the client lists JSON before `text/event-stream` and requests no
/// progress, the function first waits for [`STREAM_AFTER`]. If the call ends in this time without having sent a
/// message, the reply is JSON.
///
/// If `share` is given, the call runs in a separate task and continues when its client disconnects. The share is
/// released when the call ends.
async fn wait_for_call(
    accepted: AcceptedTypes,
    mut call: Box<RunningCall>,
    share: Option<Share>,
) -> Response {
    if let Some(share) = share {
        spawn(call.detach(), share);
    }
    if !accepted.stream {
        return accepted.call_reply(call.reply().await);
    }
    if !accepted.stream_first
        && !call.has_progress()
        && let Poll::Ready(reply) = call.reply_within(STREAM_AFTER).await
    {
        return accepted.call_reply(reply);
    }
    let Some(stream) = call.take_stream() else { return sse::of_call(*call) };
    let reader = stream.read();
    tokio::spawn(stream.run(*call));
    sse::of_stored(reader)
}

/// Runs a call in a separate task. Keeps `share` until the call ends.
fn spawn(run: BoxFuture<'static, ()>, share: impl Send + 'static) {
    tokio::spawn(async move {
        run.await;
        drop(share);
    });
}

/// The response types that the client accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedTypes {
    pub(crate) json: bool,
    pub(crate) stream: bool,
    /// Whether the client lists `text/event-stream` before JSON.
    pub(crate) stream_first: bool,
}

impl AcceptedTypes {
    /// Reads `Accept`. Defaults to JSON if the header is missing or contains neither type.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        // Fast path for the value that nearly all clients send.
        if headers.get(ACCEPT).is_some_and(|value| value == "application/json, text/event-stream") {
            return Self { json: true, stream: true, stream_first: false };
        }
        let mut accepted = Self { json: false, stream: false, stream_first: false };
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000")) {
                continue;
            }
            if media.eq_ignore_ascii_case("text/event-stream") {
                accepted.stream = true;
                accepted.stream_first = !accepted.json;
            } else if ["application/json", "application/*", "*/*"]
                .iter()
                .any(|json| media.eq_ignore_ascii_case(json))
            {
                accepted.json = true;
            }
        }
        Self { json: accepted.json || !accepted.stream, ..accepted }
    }

    fn message(self, message: EncodedMessage) -> Response {
        if self.stream_first {
            return sse::of_events([Event::Message(message)]);
        }
        json(StatusCode::OK, message)
    }

    fn call_reply(self, reply: Option<CallReply>) -> Response {
        match reply {
            None => self.no_message(),
            Some(CallReply { message, status, .. }) if status != 200 => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
                json(status, message)
            }
            Some(reply) if self.stream && !reply.notifications.is_empty() => {
                sse::of_events([Event::Reply(reply)])
            }
            Some(reply) => self.message(reply.message),
        }
    }

    /// Returns the response to a cancelled request.
    fn no_message(self) -> Response {
        if self.stream {
            return sse::of_events([]);
        }
        StatusCode::NO_CONTENT.into_response()
    }
}

fn json(status: StatusCode, message: EncodedMessage) -> Response {
    let body = match message.into_whole() {
        Ok(bytes) => Body::from(bytes),
        Err(slices) => Body::new(Slices::new(slices)),
    };
    response::bytes_as_json(status, body)
}

/// Returns an error response. Errors are always JSON.
pub(crate) fn error_response(error: &McpError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = json(status, error.message());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    }
    add_retry_after(&mut response, error.retry_after);
    response
}

/// The headers of a request. Those of the protocol are found in one pass, because each lookup hashes the name.
struct RequestHeaders<'a> {
    all: &'a HeaderMap,
    version: Header<'a>,
    method: Header<'a>,
    name: Header<'a>,
    session: Header<'a>,
}

impl<'a> RequestHeaders<'a> {
    fn new(all: &'a HeaderMap) -> Self {
        let absent = Header::Absent;
        let mut headers =
            Self { all, version: absent, method: absent, name: absent, session: absent };
        for (name, value) in all {
            let name = name.as_str();
            // Most headers do not belong to the protocol.
            if !name.starts_with("mcp-") {
                continue;
            }
            let header = match name {
                PROTOCOL_VERSION => &mut headers.version,
                METHOD => &mut headers.method,
                NAME => &mut headers.name,
                SESSION_ID => &mut headers.session,
                _ => continue,
            };
            *header = header.and(value.to_str().ok());
        }
        headers
    }
}

impl Headers for RequestHeaders<'_> {
    fn header(&self, name: &str) -> Header<'_> {
        match name {
            PROTOCOL_VERSION => self.version,
            METHOD => self.method,
            NAME => self.name,
            SESSION_ID => self.session,
            name => {
                let values = self.all.get_all(name).iter().map(|value| value.to_str().ok());
                values.fold(Header::Absent, Header::and)
            }
        }
    }
}

/// Verifies the credential of a request again while its stream is open.
struct Reauthenticate {
    parts: Parts,
    state: SharedState,
}

impl Identify for Reauthenticate {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
        Box::pin(async {
            authenticate::caller(&self.state, &self.parts).await.map_err(|refusal| match refusal {
                HttpError::Unavailable(_) => IdentifyError::Unavailable,
                _ => IdentifyError::Refused,
            })
        })
    }
}
