//! Reads event streams: responses to requests, and the stream of a legacy session.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Incoming;

use crate::backoff::jittered;
use crate::bridge::receive::message::parse_server_message;
use crate::bridge::reply::sse::{SseDecoder, SseEvent};
use crate::bridge::send::client::{self, BodyError, BodyKind};
use crate::bridge::session::OpenSession;
use crate::bridge::{Bridge, Limits};
use crate::mcp::parse::headers::LAST_EVENT_ID;

pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Minimum delay before a stream is reopened, even if the server requests a shorter one.
pub(crate) const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct EventStream {
    body: Incoming,
    pub(crate) decoder: SseDecoder,
    events: VecDeque<SseEvent>,
}

impl EventStream {
    pub(crate) fn new(body: Incoming, limits: &Limits) -> Self {
        Self { body, decoder: SseDecoder::new(limits.event_bytes), events: VecDeque::new() }
    }

    /// Returns the next message, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, BodyError> {
        loop {
            while let Some(event) = self.events.pop_front() {
                // An event with empty data is a keep-alive, or only sets the id for resuming.
                if matches!(&*event.kind, "" | "message") && !event.data.trim().is_empty() {
                    return Ok(Some(event.data));
                }
            }
            let Some(chunk) = client::next_chunk(&mut self.body).await? else { return Ok(None) };
            self.events.extend(self.decoder.push(&chunk)?);
        }
    }
}

pub(crate) fn resume_headers(mut headers: HeaderMap, last_event_id: Option<&str>) -> HeaderMap {
    if let Some(Ok(id)) = last_event_id.map(HeaderValue::from_str) {
        headers.insert(HeaderName::from_static(LAST_EVENT_ID), id);
    }
    headers
}

#[derive(Debug, Default)]
struct StreamPosition {
    generation: u64,
    last_event_id: Option<String>,
    was_open: bool,
}

impl Bridge {
    /// Keeps the stream of the current session open and relays the messages on it.
    pub(crate) async fn listen(&self) {
        let (mut sessions, mut suspends) = (self.session.subscribe(), self.http.suspends());
        let mut position = StreamPosition::default();
        loop {
            let session = sessions.borrow_and_update().clone().filter(|session| session.is_ready);
            let generation = session.as_ref().map_or(0, |session| session.generation);
            if generation != position.generation {
                position = StreamPosition { generation, ..StreamPosition::default() };
            }
            let listening = async {
                if let Some(session) = session {
                    self.listen_to(&session, &mut position).await;
                }
                // There is no session, or the server has no stream for the session. Waits for a new session.
                std::future::pending::<()>().await;
            };
            let is_over = tokio::select! {
                () = listening => false,
                changed = sessions.changed() => changed.is_err(),
                suspended = suspends.changed() => suspended.is_err(),
            };
            if is_over {
                return;
            }
        }
    }

    /// Keeps the stream of one session open. Returns only if the server refuses to open the stream.
    async fn listen_to(&self, session: &OpenSession, position: &mut StreamPosition) {
        let mut delay = RETRY_DELAY;
        loop {
            let started = Instant::now();
            let headers = resume_headers(session.headers(), position.last_event_id.as_deref());
            let retry = match self.http.get(&headers).await {
                Ok(response) if is_stream(&response) => {
                    position.was_open = true;
                    let events = EventStream::new(response.into_body(), &self.limits);
                    self.relay_stream(events, position).await
                }
                Ok(response) if !response.status().is_server_error() => {
                    let is_lost = matches!(response.status().as_u16(), 400 | 404);
                    if position.was_open && is_lost && session.id.is_some() {
                        // An error is ignored here, because the next request of the session reports it.
                        let _ = self.reopen_session(session).await;
                    }
                    return;
                }
                _ => None,
            };
            // A stream that was open for a while is reopened with a short delay.
            if started.elapsed() > delay * 2 {
                delay = RETRY_DELAY;
            }
            tokio::time::sleep(retry.unwrap_or_else(|| jittered(delay)).max(MIN_RETRY_DELAY)).await;
            delay = (delay * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Relays messages until the stream ends. Returns the delay that the server requested, if there is one.
    async fn relay_stream(
        &self,
        mut events: EventStream,
        position: &mut StreamPosition,
    ) -> Option<Duration> {
        loop {
            let next = events.next().await;
            if let Some(id) = events.decoder.last_event_id() {
                position.last_event_id = Some(id.to_owned());
            }
            match next {
                Ok(Some(json)) => self.relay(&json, None).await,
                _ => return events.decoder.retry(),
            }
        }
    }

    /// Returns the response to a request that the bridge itself sent. Ignores other messages.
    pub(crate) async fn read_internal_response(
        &self,
        response: Response<Incoming>,
    ) -> Option<String> {
        if client::body_kind(response.headers()) != BodyKind::Events {
            return client::text(response.into_body(), self.limits.body_bytes).await.ok();
        }
        let mut events = EventStream::new(response.into_body(), &self.limits);
        loop {
            let json = events.next().await.ok()??;
            if parse_server_message(&json)?.method.is_none() {
                return Some(json);
            }
        }
    }
}

pub(crate) fn is_stream(response: &Response<Incoming>) -> bool {
    response.status() == StatusCode::OK && client::body_kind(response.headers()) == BodyKind::Events
}
