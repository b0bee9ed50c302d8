//! Bodies of responses, up to a maximum size.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use thiserror::Error;

use super::send_error::describe;

#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum BodyError {
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    #[error("the connection closed in the middle of the response: {0}")]
    Broken(String),
    #[error("the response is not UTF-8")]
    NotText,
}

pub(crate) async fn text(body: Incoming, limit: usize) -> Result<String, BodyError> {
    let bytes = bytes_counted(body, limit, |_| Ok::<_, BodyError>(())).await?;
    String::from_utf8(bytes).map_err(|_| BodyError::NotText)
}

/// Reads the whole body. Fails if it has more than `limit` bytes. Passes the size of each chunk to `count`.
pub(crate) async fn bytes_counted<E: From<BodyError>>(
    mut body: Incoming,
    limit: usize,
    count: impl Fn(usize) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut all = CountedBytes { bytes: Vec::new(), limit, count };
    while let Some(chunk) = next_chunk(&mut body).await? {
        all.add(&chunk)?;
    }
    Ok(all.bytes)
}

/// The part of a body that has been read: at most `limit` bytes. Passes the size of each chunk to `count`.
pub(super) struct CountedBytes<C> {
    pub(super) bytes: Vec<u8>,
    pub(super) limit: usize,
    pub(super) count: C,
}

impl<E: From<BodyError>, C: Fn(usize) -> Result<(), E>> CountedBytes<C> {
    pub(super) fn add(&mut self, chunk: &[u8]) -> Result<(), E> {
        if self.bytes.len() + chunk.len() > self.limit {
            return Err(BodyError::TooLong(self.limit).into());
        }
        (self.count)(chunk.len())?;
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }
}

pub(crate) async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(describe(&error)))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
