//! Responses with server-sent events. They are not buffered, and keep-alive comments prevent proxies from closing
//! them.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};

use crate::access::Share;
use crate::mcp::{Event, EventReader, NotificationStream, RunningCall};

const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";
const TYPE: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Returns a stream of events that are ready.
pub(super) fn of_events<const N: usize>(events: [Event; N]) -> Response {
    respond(stream::iter(events).map(|event| frame(None, event)))
}

/// Returns the events of a call.
pub(super) fn of_call(call: RunningCall) -> Response {
    let next = async |mut call: RunningCall| Some((frame(None, call.next().await?), call));
    respond(stream::unfold(call, next))
}

/// Returns a stream of notifications.
pub(super) fn of_notifications(notifications: Box<NotificationStream>, share: Share) -> Response {
    let next = async |(mut stream, share): (Box<NotificationStream>, Share)| {
        Some((frame(None, stream.next().await?), (stream, share)))
    };
    // Sent immediately, so that the client knows that the stream is open.
    let opened = stream::iter([Bytes::from_static(KEEP_ALIVE)]);
    respond(opened.chain(stream::unfold((notifications, share), next)))
}

/// Returns stored events, with ids to resume from.
pub(super) fn of_stored(reader: EventReader, share: Option<Share>) -> Response {
    let next = async |(mut reader, share): (EventReader, Option<Share>)| {
        let (id, event) = reader.next().await?;
        Some((frame(id.as_deref(), event), (reader, share)))
    };
    respond(stream::unfold((reader, share), next))
}

/// Keeps `guard` until the stream ends if the response is an event stream. Otherwise drops it.
pub(super) fn keep_while_streaming<T: Send + 'static>(response: Response, guard: T) -> Response {
    if response.headers().get(CONTENT_TYPE) != Some(&TYPE) {
        return response;
    }
    response.map(|body| {
        let frames = body.into_data_stream().inspect(move |_| {
            let _ = &guard;
        });
        Body::from_stream(frames)
    })
}

fn respond(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let frames = frames.map(Ok::<_, Infallible>);
    let buffering = ("x-accel-buffering", HeaderValue::from_static("no"));
    let mut response = (StatusCode::OK, [buffering], Body::from_stream(frames)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, TYPE);
    response
}

fn frame(id: Option<&str>, event: Event) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n"));
    let retry = match event {
        Event::KeepAlive => return Bytes::from_static(KEEP_ALIVE),
        Event::Retry(retry) => retry,
        event => {
            let mut frame = Vec::new();
            for message in event.into_messages() {
                frame.extend_from_slice(b"event: message\n");
                frame.extend_from_slice(id.as_deref().unwrap_or_default().as_bytes());
                frame.extend_from_slice(b"data: ");
                for slice in message.into_slices() {
                    frame.extend_from_slice(&slice);
                }
                frame.extend_from_slice(b"\n\n");
            }
            return frame.into();
        }
    };
    // A client without event ids cannot resume, so it must stay connected.
    let Some(id) = id else { return Bytes::new() };
    let retry = retry.map(|retry| format!("retry: {}\n", retry.as_millis())).unwrap_or_default();
    format!("{id}{retry}data: \n\n").into()
}
