//! Streamable HTTP: one endpoint for every revision. Replies with JSON or an event stream, depending on
//! the `Accept` header and on whether the call sends notifications.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ACCEPT, ALLOW};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::rest;
use crate::access::Caller;
use crate::mcp::{
    Answer, BatchPart, Event, Header, Headers, Identify, Inbound, METHOD, NAME, OutMessage,
    PROTOCOL_VERSION, Reject, Reply, RunningCall, SESSION_ID, Unidentified, Verb, answer_batch,
};
use crate::transport::http::body::{self, Slices};
use crate::transport::http::error::{Refusal, say_when_to_retry};
use crate::transport::http::{Shared, authenticate, response, sse};
use crate::upstream::BoxFuture;
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST};

/// After this long, switches the reply to an event stream if the client accepts one.
const STREAM_AFTER: Duration = Duration::from_secs(2);

/// `POST`, `GET` and `DELETE` of `/mcp`, and of `/` where that is wanted too.
pub(crate) async fn answer(
    shared: &Shared,
    caller: &Caller,
    parts: &Parts,
    body: Bytes,
) -> Result<Response, Refusal> {
    let raw = (parts.method == Method::GET)
        .then(|| rest::query_parameter(&parts.uri, "rawRequest"))
        .flatten();
    let (verb, body) = match (&parts.method, raw) {
        (&Method::GET, Some(raw)) => {
            check_raw_request(shared, &parts.headers)?;
            (Verb::Raw, Bytes::from(raw.into_owned()))
        }
        (&Method::GET, None) => (Verb::Get, body),
        (&Method::DELETE, _) => (Verb::Delete, body),
        (&Method::POST, _) => (Verb::Post, body),
        _ => return Err(Reject::with_status(405, INVALID_REQUEST, "POST messages here").into()),
    };
    Ok(handle(shared, caller, parts, verb, &body).await)
}

async fn handle(
    shared: &Shared,
    caller: &Caller,
    parts: &Parts,
    verb: Verb,
    body: &Bytes,
) -> Response {
    let text = match body::text(body) {
        Ok(text) => text,
        Err(error) => {
            return rejected(&Reject::with_status(400, error.code(), error.to_string()));
        }
    };
    let accepted = Accepted::of(&parts.headers);
    let identify = || Arc::new(Asking { parts: parts.clone(), shared: shared.clone() }) as _;
    let inbound = Inbound {
        verb,
        headers: (verb != Verb::Raw).then_some(&parts.headers),
        body: text,
        connection: None,
        caller,
        identify: &identify,
        accepts_events: accepted.stream,
    };
    match shared.mcp.handle(&inbound).await {
        Err(reject) => rejected(&reject),
        Ok(Reply::Message(message)) => accepted.reply(message),
        Ok(Reply::Opened { message, session }) => {
            let mut response = accepted.reply(message);
            if let Some(id) = session.and_then(|id| HeaderValue::try_from(id).ok()) {
                response.headers_mut().insert(SESSION_ID, id);
            }
            response
        }
        Ok(Reply::Accepted) if verb == Verb::Delete => StatusCode::NO_CONTENT.into_response(),
        Ok(Reply::Accepted) => StatusCode::ACCEPTED.into_response(),
        Ok(Reply::Call(call)) if call.ends_with_client() => run(accepted, call, None).await,
        Ok(Reply::Call(call)) => match Arc::clone(&shared.legacy_calls).try_acquire_owned() {
            Ok(permit) => run(accepted, call, Some(permit)).await,
            Err(_) => rejected(&too_many("calls run").of(call.id())),
        },
        Ok(Reply::Batch(parts)) => batch(shared, accepted, parts).await,
        Ok(Reply::Replay(_)) if !accepted.stream => rejected(&no_stream()),
        Ok(Reply::Replay(reader)) => match Arc::clone(&shared.streams).try_acquire_owned() {
            Ok(permit) => sse::of_kept(*reader, Some(permit)),
            Err(_) => rejected(&too_many("clients listen")),
        },
        Ok(Reply::Listen(listener)) if !accepted.stream => rejected(&listener.refused(no_stream())),
        Ok(Reply::Listen(listener)) => match Arc::clone(&shared.streams).try_acquire_owned() {
            Ok(permit) => sse::of_listener(listener, permit),
            Err(_) => rejected(&listener.refused(too_many("clients listen"))),
        },
    }
}

fn no_stream() -> Reject {
    let message = "this is a stream: accept `text/event-stream`, or POST a message";
    Reject::with_status(406, INVALID_REQUEST, message)
}

fn too_many(what: &str) -> Reject {
    Reject::with_status(503, INTERNAL_ERROR, format!("too many {what} already; try again later"))
}

/// The calls of a batch take their places together, and give them back together.
async fn batch(shared: &Shared, accepted: Accepted, parts: Vec<BatchPart>) -> Response {
    let calls = parts.iter().filter(|part| matches!(part, BatchPart::Call(_))).count();
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    let Ok(places) = Arc::clone(&shared.legacy_calls).try_acquire_many_owned(calls) else {
        return rejected(&too_many("calls run"));
    };
    let places = Arc::new(places);
    let spawn = |run: BoxFuture<'static, ()>| {
        let places = Arc::clone(&places);
        tokio::spawn(async move {
            run.await;
            drop(places);
        });
    };
    match answer_batch(parts, spawn).await {
        Some(message) => accepted.reply(message),
        None => accepted.nothing(),
    }
}

/// Replies with JSON if the call ends before it sends anything and before [`STREAM_AFTER`], otherwise
/// with an event stream if the client accepts one. With a permit, the call outlives its client.
async fn run(
    accepted: Accepted,
    mut call: RunningCall,
    permit: Option<OwnedSemaphorePermit>,
) -> Response {
    if let Poll::Ready(answer) = call.try_ready().await {
        return accepted.answer(answer);
    }
    if let Some(permit) = permit {
        let run = call.detach();
        tokio::spawn(async move {
            run.await;
            drop(permit);
        });
    }
    if !accepted.stream {
        return accepted.answer(call.answer().await);
    }
    if !accepted.stream_first
        && !call.has_progress()
        && let Poll::Ready(answer) = call.answer_within(STREAM_AFTER).await
    {
        return accepted.answer(answer);
    }
    let Some(kept) = call.take_kept() else { return sse::of_call(call) };
    let reader = kept.read();
    tokio::spawn(kept.keep(call));
    sse::of_kept(reader, None)
}

/// What the client can read.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    json: bool,
    stream: bool,
    /// Whether it would rather have a stream.
    stream_first: bool,
}

impl Accepted {
    /// Defaults to JSON when `Accept` is missing or names neither type. A client that names the stream
    /// first gets one for a single message too.
    fn of(headers: &HeaderMap) -> Self {
        // What nearly all clients say.
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

    fn reply(self, message: OutMessage) -> Response {
        if self.stream_first {
            return sse::of_events([Event::Message(message)]);
        }
        json(StatusCode::OK, message)
    }

    fn answer(self, answer: Option<Answer>) -> Response {
        match answer {
            None => self.nothing(),
            Some(Answer { reply, status, .. }) if status != 200 => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
                json(status, reply)
            }
            Some(answer) if self.stream && !answer.notes.is_empty() => {
                sse::of_events([Event::Reply(answer)])
            }
            Some(answer) => self.reply(answer.reply),
        }
    }

    /// A request that was cancelled has no answer.
    fn nothing(self) -> Response {
        if self.stream {
            return sse::of_events([]);
        }
        StatusCode::NO_CONTENT.into_response()
    }
}

fn json(status: StatusCode, message: OutMessage) -> Response {
    let body = match message.into_whole() {
        Ok(bytes) => Body::from(bytes),
        Err(slices) => Body::new(Slices::new(slices)),
    };
    response::bytes_as_json(status, body)
}

/// Errors are JSON always.
pub(crate) fn rejected(reject: &Reject) -> Response {
    let status = StatusCode::from_u16(reject.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = json(status, reject.message());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    }
    say_when_to_retry(&mut response);
    response
}

/// The seed's form for debugging: off unless wanted, and never for a page of another site.
fn check_raw_request(shared: &Shared, headers: &HeaderMap) -> Result<(), Reject> {
    if !shared.options.raw_request {
        let message = "`rawRequest` is off; POST the message, or set `raw_request`";
        return Err(Reject::with_status(405, INVALID_REQUEST, message));
    }
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => {
            let message = "`rawRequest` is not for pages of other sites";
            Err(Reject::with_status(403, INVALID_REQUEST, message))
        }
    }
}

static KNOWN: [HeaderName; 4] = [
    HeaderName::from_static(PROTOCOL_VERSION),
    HeaderName::from_static(METHOD),
    HeaderName::from_static(NAME),
    HeaderName::from_static(SESSION_ID),
];

impl Headers for HeaderMap {
    fn header(&self, name: &str) -> Header<'_> {
        // Those of each request need not be read as names each time.
        let known = KNOWN.iter().find(|known| known.as_str() == name);
        let values = match known {
            Some(known) => self.get_all(known).iter(),
            None => self.get_all(name).iter(),
        };
        Header::of(values.map(|value| value.to_str().ok()))
    }
}

/// A request whose credential is looked at again while its stream is open.
struct Asking {
    parts: Parts,
    shared: Shared,
}

impl Identify for Asking {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, Unidentified>> {
        Box::pin(async {
            authenticate::caller(&self.shared, &self.parts).await.map_err(|refusal| match refusal {
                Refusal::Unavailable(_) => Unidentified::Unavailable,
                _ => Unidentified::Refused,
            })
        })
    }
}
