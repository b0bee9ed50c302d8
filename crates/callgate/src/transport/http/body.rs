//! Reads or discards request bodies within limits, and writes response bodies from slices.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::future::poll_immediate;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::HttpOptions;
use super::error::HttpError;
use crate::access::Share;
use crate::wire::jsonrpc::EnvelopeError;

/// Maximum number of bodies of refused requests that are read or discarded at the same time.
pub(super) const MAX_REFUSED_BODIES: usize = 64;
/// Maximum number of bytes of a body that are discarded.
const MAX_DISCARDED_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of bytes that are read from the body of a refused request to find its id.
const MAX_REFUSED_BYTES: usize = 64 * 1024;
/// Maximum time to read the body of a refused request to find its id.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of a response body that is written to the connection in one step.
const MAX_SENT_AT_ONCE: u64 = 16 * 1024;
/// Maximum time to discard a body.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct RequestBody {
    body: Body,
    /// Whether the client sends the body only after `100 Continue`. hyper sends `100 Continue` when the body is first
    /// read.
    awaits_continue: bool,
}

impl RequestBody {
    pub(super) fn new(body: Body, headers: &HeaderMap) -> Self {
        Self { body, awaits_continue: headers.contains_key(EXPECT) }
    }

    /// Reads the body if it is small enough and arrives in time.
    pub(super) async fn read(
        &mut self,
        headers: &HeaderMap,
        options: &HttpOptions,
    ) -> Result<Bytes, HttpError> {
        let limit = options.max_body_bytes;
        let content_length =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if content_length.is_some_and(|length: u64| length > limit as u64) {
            return Err(HttpError::BodyTooLarge { limit });
        }
        self.awaits_continue = false;
        let read = {
            let mut read = pin!(collect(&mut self.body, limit));
            // Most bodies have already arrived, so no timer is needed.
            match poll_immediate(read.as_mut()).await {
                Some(read) => read,
                None => Box::pin(tokio::time::timeout(options.body_timeout, read))
                    .await
                    .unwrap_or(Err(HttpError::BodyTooSlow)),
            }
        };
        if read.is_ok() {
            self.body = Body::empty();
        }
        read
    }

    /// Reads a body of up to [`MAX_REFUSED_BYTES`] that arrives within [`REFUSED_TIMEOUT`], to find the id of a request
    /// that is refused.
    pub(super) async fn read_refused(&mut self) -> Option<Bytes> {
        if self.awaits_continue {
            return None;
        }
        let read = collect(&mut self.body, MAX_REFUSED_BYTES);
        let body = tokio::time::timeout(REFUSED_TIMEOUT, read).await.ok()?.ok()?;
        self.body = Body::empty();
        Some(body)
    }

    /// Returns `true` if the client may still be sending a part of the body that was not read.
    pub(super) fn is_unread(&self) -> bool {
        !self.awaits_continue && !self.body.is_end_stream()
    }

    /// Discards the rest of the body in the background, up to [`MAX_DISCARDED_BYTES`] and [`DISCARD_TIMEOUT`].
    ///
    /// If a body is dropped, hyper closes the connection. A client that is still sending would then get a connection
    /// reset instead of the reply.
    pub(super) fn discard(mut self, share: Share) {
        tokio::spawn(async move {
            let mut remaining = MAX_DISCARDED_BYTES;
            let discard = async {
                while let Some(Ok(frame)) = self.body.frame().await {
                    let length = frame.data_ref().map_or(0, Bytes::len);
                    let Some(rest) = remaining.checked_sub(length) else { break };
                    remaining = rest;
                }
            };
            let _ = tokio::time::timeout(DISCARD_TIMEOUT, discard).await;
            drop(share);
        });
    }
}

/// Reads a body of at most `limit` bytes. Joins the frames of a body as they arrive, because each frame has a fixed
/// cost, even if it contains a single byte.
async fn collect(body: &mut Body, limit: usize) -> Result<Bytes, HttpError> {
    let (mut first, mut joined) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| HttpError::BodyBroken)?.into_data() else { continue };
        if first.len() + joined.len() + data.len() > limit {
            return Err(HttpError::BodyTooLarge { limit });
        }
        if first.is_empty() && joined.is_empty() {
            first = data;
        } else {
            joined.extend_from_slice(&std::mem::take(&mut first));
            joined.extend_from_slice(&data);
        }
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}

/// Returns the body of a JSON-RPC request as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, EnvelopeError> {
    std::str::from_utf8(bytes).map_err(|_| EnvelopeError::NotUtf8)
}

/// Keeps a value until the body of a response has been sent completely. If the body is short, drops the value now,
/// because the body is sent in one step.
pub(super) fn keep_until_sent(response: Response, guard: impl Send + 'static) -> Response {
    keep_if_longer(MAX_SENT_AT_ONCE, response, guard)
}

/// If the response is an event stream, keeps a value until the stream ends. Otherwise drops the value.
pub(super) fn keep_while_streaming(response: Response, guard: impl Send + 'static) -> Response {
    keep_if_longer(u64::MAX, response, guard)
}

/// Keeps a value if the body is longer than `max` bytes or has no known length. Only event streams have no known
/// length.
fn keep_if_longer(max: u64, response: Response, guard: impl Send + 'static) -> Response {
    if response.body().size_hint().exact().is_some_and(|length| length <= max) {
        return response;
    }
    // The closure owns the value, so that it is dropped together with the body.
    response.map(|body| {
        Body::new(body.map_err(move |error| {
            let _ = &guard;
            error
        }))
    })
}

/// A body that consists of slices. It has an exact length, and the slices are not copied.
#[derive(Debug)]
pub(super) struct Slices {
    remaining: VecDeque<Bytes>,
    length: u64,
}

impl Slices {
    pub(super) fn new(slices: impl IntoIterator<Item = Bytes>) -> Self {
        let remaining: VecDeque<Bytes> = slices.into_iter().collect::<Vec<_>>().into();
        let length = remaining.iter().map(|slice| slice.len() as u64).sum();
        Self { remaining, length }
    }
}

impl http_body::Body for Slices {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.remaining.pop_front();
        self.length -= next.as_ref().map_or(0, |slice| slice.len() as u64);
        Poll::Ready(next.map(|slice| Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn body(frames: usize, frame: &'static [u8]) -> Body {
        let frames = std::iter::repeat_n(Bytes::from_static(frame), frames);
        Body::from_stream(stream::iter(frames.map(Ok::<_, Infallible>)))
    }

    #[tokio::test]
    async fn frames_are_joined_up_to_the_limit() {
        assert_eq!(collect(&mut body(0, b""), 4).await.unwrap(), "");
        assert_eq!(collect(&mut body(4, b"a"), 4).await.unwrap(), "aaaa");
        assert_eq!(collect(&mut body(2, b""), 0).await.unwrap(), "");
        let refused = collect(&mut body(5, b"a"), 4).await;
        assert!(matches!(refused, Err(HttpError::BodyTooLarge { limit: 4 })));
    }

    #[tokio::test]
    async fn a_single_frame_is_not_copied() {
        let frame: &'static [u8] = b"{\"jsonrpc\":\"2.0\"}";
        let read = collect(&mut body(1, frame), 100).await.unwrap();
        assert_eq!(read.as_ptr(), frame.as_ptr());
    }
}
