//! Streams of server-sent events: never buffered, and with a comment now and then so that nothing
//! between takes them for dead.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::OwnedSemaphorePermit;

use crate::mcp::{Event, KeptReader, Listener, OutMessage, Read, RunningCall};

const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";
const TYPE: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Messages that are all there.
pub(super) fn of_messages(messages: Vec<OutMessage>) -> Response {
    respond(stream::iter(messages.into_iter().map(Event::Message)))
}

/// What a call brings.
pub(super) fn of_call(call: RunningCall) -> Response {
    respond(stream::unfold(call, async |mut call| Some((call.next().await?, call))))
}

/// What a listening client is told.
pub(super) fn of_listener(listener: Box<Listener>, place: OwnedSemaphorePermit) -> Response {
    let events = async |(mut listener, place): (Box<Listener>, OwnedSemaphorePermit)| {
        Some((listener.next().await?, (listener, place)))
    };
    // At once, so that the client knows that it is heard.
    let opened = stream::iter([Event::KeepAlive]);
    respond(opened.chain(stream::unfold((listener, place), events)))
}

/// What is kept of a stream, with ids to come back with.
pub(super) fn of_kept(reader: KeptReader, place: Option<OwnedSemaphorePermit>) -> Response {
    let events = async |(mut reader, place): (KeptReader, Option<OwnedSemaphorePermit>)| {
        Some((kept_frame(reader.next().await?), (reader, place)))
    };
    respond_frames(stream::unfold((reader, place), events))
}

fn kept_frame(read: Read) -> Bytes {
    match read {
        Read::KeepAlive => Bytes::from_static(KEEP_ALIVE),
        Read::Id(id) => format!("id: {id}\ndata: \n\n").into(),
        Read::ComeBack(id, retry) => {
            format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()).into()
        }
        Read::Message(id, message) => {
            let start = format!("event: message\nid: {id}\ndata: ");
            [start.as_bytes(), &message, b"\n\n"].concat().into()
        }
    }
}

fn respond(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    respond_frames(events.map(frame))
}

fn respond_frames(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let frames = frames.map(Ok::<_, Infallible>);
    let buffering = ("x-accel-buffering", HeaderValue::from_static("no"));
    let mut response = (StatusCode::OK, [buffering], Body::from_stream(frames)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, TYPE);
    response
}

fn frame(event: Event) -> Bytes {
    let message = match event {
        Event::Message(message) => message,
        Event::KeepAlive => return Bytes::from_static(KEEP_ALIVE),
        // Nothing is kept for a client that leaves, so it had better stay.
        Event::ComeBack(_) => return Bytes::new(),
    };
    let start = Bytes::from_static(b"event: message\ndata: ");
    let slices = [start].into_iter().chain(message.into_slices());
    let slices: Vec<Bytes> = slices.chain([Bytes::from_static(b"\n\n")]).collect();
    slices.concat().into()
}
