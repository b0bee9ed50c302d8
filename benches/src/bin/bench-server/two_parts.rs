//! A response body of two parts, sent without copying them into one buffer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The parts that are not yet sent.
#[derive(Debug)]
pub(crate) struct TwoParts {
    first: Bytes,
    second: Bytes,
}

impl TwoParts {
    /// Creates a body. Neither part may be empty.
    pub(crate) fn new(first: impl Into<Bytes>, second: Bytes) -> Self {
        Self { first: first.into(), second }
    }
}

impl Body for TwoParts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut part = std::mem::take(&mut self.first);
        if part.is_empty() {
            part = std::mem::take(&mut self.second);
        }
        Poll::Ready((!part.is_empty()).then(|| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.second.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.first.len() + self.second.len();
        SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
    }
}
