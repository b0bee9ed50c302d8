//! Streams of the server: messages out of events, and the stream that a legacy client listens to.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::Bridge;
use super::client::{self, BodyError, Kind};
use super::message::from_server;
use super::options::Limits;
use super::session::Live;
use super::sse::{SseEvent, SseReader};
use crate::backoff::jittered;
use crate::mcp::parse::headers::LAST_EVENT_ID;

/// Before a stream is opened again, where the server does not say.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// A server that wants to be asked again at once is asked this seldom.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Messages out of a body of events.
#[derive(Debug)]
pub(super) struct EventStream {
    body: Incoming,
    pub(super) reader: SseReader,
    read: VecDeque<SseEvent>,
}

impl EventStream {
    pub(super) fn new(body: Incoming, limits: &Limits) -> Self {
        Self { body, reader: SseReader::new(limits.event_bytes), read: VecDeque::new() }
    }

    /// The next message as JSON; nothing where the stream has ended.
    pub(super) async fn next(&mut self) -> Result<Option<String>, BodyError> {
        loop {
            while let Some(event) = self.read.pop_front() {
                // Empty data is a sign of life, or says where to resume.
                if matches!(&*event.kind, "" | "message") && !event.data.trim().is_empty() {
                    return Ok(Some(event.data));
                }
            }
            let Some(chunk) = client::next_chunk(&mut self.body).await? else { return Ok(None) };
            let events = self.reader.push(&chunk);
            self.read.extend(events.map_err(|error| BodyError::TooLong(error.0))?);
        }
    }
}

/// With where a stream goes on.
pub(super) fn resuming(mut headers: HeaderMap, last_event_id: Option<&str>) -> HeaderMap {
    if let Some(Ok(id)) = last_event_id.map(HeaderValue::from_str) {
        headers.insert(HeaderName::from_static(LAST_EVENT_ID), id);
    }
    headers
}

/// What is known of the stream of one session.
#[derive(Debug, Default)]
struct Place {
    generation: u64,
    last_event_id: Option<String>,
    was_open: bool,
}

impl Bridge {
    /// Listens to whatever session there is, for ever.
    pub(super) async fn listen(&self) {
        let (mut lives, mut jumps) = (self.session.subscribe(), self.http.jumps());
        let mut place = Place::default();
        loop {
            let live = lives.borrow_and_update().clone().filter(|live| live.is_ready);
            let generation = live.as_ref().map_or(0, |live| live.generation);
            if generation != place.generation {
                place = Place { generation, ..Place::default() };
            }
            let listening = async {
                if let Some(live) = live {
                    self.listen_to(&live, &mut place).await;
                }
                // There is no such stream; until there is another session.
                std::future::pending::<()>().await;
            };
            let is_over = tokio::select! {
                () = listening => false,
                changed = lives.changed() => changed.is_err(),
                jumped = jumps.changed() => jumped.is_err(),
            };
            if is_over {
                return;
            }
        }
    }

    /// Returns when the server has no stream for it.
    async fn listen_to(&self, live: &Live, place: &mut Place) {
        let mut pause = PAUSE;
        loop {
            let started = Instant::now();
            let headers = resuming(live.headers(), place.last_event_id.as_deref());
            let retry = match self.http.get(&headers).await {
                Ok(response) if is_stream(&response) => {
                    place.was_open = true;
                    let events = EventStream::new(response.into_body(), &self.limits);
                    self.pass_stream(events, place).await
                }
                Ok(response) if !response.status().is_server_error() => {
                    let is_lost = matches!(response.status().as_u16(), 400 | 404);
                    if place.was_open && is_lost && live.id.is_some() {
                        // What went wrong is told to the next request that needs the session.
                        let _ = self.renew(live).await;
                    }
                    return;
                }
                _ => None,
            };
            // One that was open for a while is worth to be opened again soon.
            if started.elapsed() > pause * 2 {
                pause = PAUSE;
            }
            tokio::time::sleep(retry.unwrap_or_else(|| jittered(pause)).max(MIN_PAUSE)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Hands on what comes until the stream ends; then says when to come back, where it was told.
    async fn pass_stream(&self, mut events: EventStream, place: &mut Place) -> Option<Duration> {
        loop {
            let next = events.next().await;
            if let Some(id) = events.reader.last_event_id() {
                place.last_event_id = Some(id.to_owned());
            }
            match next {
                Ok(Some(json)) => self.pass(&json, None).await,
                _ => return events.reader.retry(),
            }
        }
    }

    /// The answer to a request of our own, whatever else comes before it.
    pub(super) async fn first_answer(&self, response: Response<Incoming>) -> Option<String> {
        if client::kind(response.headers()) != Kind::Events {
            return client::text(response.into_body(), self.limits.body_bytes).await.ok();
        }
        let mut events = EventStream::new(response.into_body(), &self.limits);
        loop {
            let json = events.next().await.ok()??;
            if from_server(&json)?.method.is_none() {
                return Some(json);
            }
        }
    }
}

/// Whether it is a stream of events.
pub(super) fn is_stream(response: &Response<Incoming>) -> bool {
    response.status() == StatusCode::OK && client::kind(response.headers()) == Kind::Events
}
