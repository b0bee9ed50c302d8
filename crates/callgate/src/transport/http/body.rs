//! Reads request bodies within limits, and writes response bodies from slices.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::LengthLimitError;

use super::HttpOptions;
use super::error::HttpError;
use crate::wire::jsonrpc::EnvelopeError;

/// Reads the body if it is small enough and arrives in time.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    options: &HttpOptions,
) -> Result<Bytes, HttpError> {
    let limit = options.max_body_bytes;
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > limit as u64) {
        return Err(HttpError::BodyTooLarge { limit });
    }
    let mut read = pin!(axum::body::to_bytes(body, limit));
    // Most bodies have arrived already and need no timer.
    let there = poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
    let read = match there {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => tokio::time::timeout(options.body_timeout, read).await,
    };
    match read {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(HttpError::BodyTooLarge { limit }),
        Ok(Err(_)) => Err(HttpError::BodyBroken),
        Err(_) => Err(HttpError::BodyTooSlow),
    }
}

/// Returns the body of a JSON-RPC request as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, EnvelopeError> {
    std::str::from_utf8(bytes).map_err(|_| EnvelopeError::NotUtf8)
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A body of slices, with an exact length and without copying.
#[derive(Debug)]
pub(super) struct Slices {
    waiting: VecDeque<Bytes>,
    length: u64,
}

impl Slices {
    pub(super) fn new(slices: impl IntoIterator<Item = Bytes>) -> Self {
        let waiting: VecDeque<Bytes> = slices.into_iter().collect::<Vec<_>>().into();
        let length = waiting.iter().map(|slice| slice.len() as u64).sum();
        Self { waiting, length }
    }
}

impl http_body::Body for Slices {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.waiting.pop_front();
        self.length -= next.as_ref().map_or(0, |slice| slice.len() as u64);
        Poll::Ready(next.map(|slice| Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}
