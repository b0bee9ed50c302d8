//! A response's body, read within a limit.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use thiserror::Error;

use super::send_error::words;

/// Why a body could not be read.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("the connection broke within the answer: {0}")]
    Broken(String),
    #[error("the answer is not UTF-8")]
    NotText,
}

/// A whole body.
#[cfg(feature = "bridge")]
pub(crate) async fn text(body: Incoming, limit: usize) -> Result<String, BodyError> {
    text_counted(body, limit, |_| Ok(())).await
}

/// A whole body, whose bytes are counted as they come.
pub(crate) async fn text_counted<E: From<BodyError>>(
    mut body: Incoming,
    limit: usize,
    count: impl Fn(usize) -> Result<(), E>,
) -> Result<String, E> {
    let mut all = BytesMut::new();
    while let Some(chunk) = next_chunk(&mut body).await? {
        if all.len() + chunk.len() > limit {
            return Err(BodyError::TooLong(limit).into());
        }
        count(chunk.len())?;
        all.extend_from_slice(&chunk);
    }
    String::from_utf8(all.into()).map_err(|_| BodyError::NotText.into())
}

/// The next bytes of a body.
pub(crate) async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(words(&error)))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
