//! Responses with server-sent events. They must not be buffered by proxies, and keep-alive comments prevent proxies
//! from closing them.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};

use crate::mcp::{EncodedMessage, Event, EventReader, NotificationStream, RunningCall};

const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";
/// Maximum length of a message that is copied into one frame. Larger messages are sent as their slices, which are
/// shared with other responses or counted against the memory budget until they are sent.
const MAX_COPIED: usize = 16 << 10;
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Returns a stream of events that are already available.
pub(super) fn of_events<const N: usize>(events: [Event; N]) -> Response {
    response(stream::iter(events).map(|event| frames(None, event)))
}

pub(super) fn of_call(call: RunningCall) -> Response {
    let next = async |mut call: RunningCall| Some((frames(None, call.next().await?), call));
    response(stream::unfold(call, next))
}

pub(super) fn of_notifications(notifications: Box<NotificationStream>) -> Response {
    let next = async |mut notifications: Box<NotificationStream>| {
        Some((frames(None, notifications.next().await?), notifications))
    };
    // Sent immediately, so that the client knows that the stream is open.
    let opened = stream::iter([frames(None, Event::KeepAlive)]);
    response(opened.chain(stream::unfold(notifications, next)))
}

/// Returns a stream of stored events, with ids from which the client can resume.
pub(super) fn of_stored(reader: EventReader) -> Response {
    let next = async |mut reader: EventReader| {
        let (id, event) = reader.next().await?;
        Some((frames(id.as_deref(), event), reader))
    };
    response(stream::unfold(reader, next))
}

fn response<F>(events: impl Stream<Item = F> + Send + 'static) -> Response
where
    F: Iterator<Item = Bytes> + Send + 'static,
{
    let frames = events.flat_map(stream::iter).map(Ok::<_, Infallible>);
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    let buffering = (X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    ([content_type, buffering], Body::from_stream(frames)).into_response()
}

/// Returns the frames of an event. Each frame is created when the client is ready to read it.
fn frames(id: Option<&str>, event: Event) -> impl Iterator<Item = Bytes> + use<> {
    let id = id.map(|id| format!("id: {id}\n"));
    let control = match (&event, &id) {
        (Event::KeepAlive, _) => Some(Bytes::from_static(KEEP_ALIVE)),
        // Without event ids, a client cannot resume, so it must stay connected.
        (Event::Retry(retry), Some(id)) => {
            let retry = retry.map(|retry| format!("retry: {}\n", retry.as_millis()));
            Some(format!("{id}{}data: \n\n", retry.unwrap_or_default()).into())
        }
        _ => None,
    };
    let start = format!("event: message\n{}data: ", id.unwrap_or_default());
    let messages = event.into_messages().into_iter();
    control.into_iter().chain(messages.flat_map(move |message| message_frames(&start, message)))
}

fn message_frames(start: &str, message: EncodedMessage) -> Vec<Bytes> {
    let slices = message.into_slices();
    let mut frames = Vec::with_capacity(slices.len() + 2);
    frames.push(Bytes::copy_from_slice(start.as_bytes()));
    frames.extend(slices);
    frames.push(Bytes::from_static(b"\n\n"));
    if frames.iter().map(Bytes::len).sum::<usize>() <= MAX_COPIED {
        return vec![frames.concat().into()];
    }
    frames
}
