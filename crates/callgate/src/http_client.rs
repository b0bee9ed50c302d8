//! The parts that all HTTP clients share: connection pool, TLS, bodies, and errors.

pub(crate) mod connector;
pub(crate) mod endpoint;
pub(crate) mod send_error;
pub(crate) mod tls;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderName};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;

use connector::Connector;
use send_error::words;

/// Connections to one server.
pub(crate) type Pool = Client<Connector, Full<Bytes>>;

/// Node's servers close idle connections after five seconds; a request should not meet that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Headers that belong to the transport, and cannot be configured.
const TRANSPORT_HEADERS: [HeaderName; 9] = [
    header::ACCEPT,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Returns `true` if the transport sets this header.
pub(crate) fn is_transport_header(name: &HeaderName) -> bool {
    TRANSPORT_HEADERS.contains(name)
}

/// Returns a builder of pools that keep at most `idle` unused connections for a short time.
pub(crate) fn pool_builder(idle: usize) -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(idle);
    builder
}

/// Why a response's body could not be read.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("the connection broke within the answer: {0}")]
    Broken(String),
    #[error("the answer is not UTF-8")]
    NotText,
}

/// Reads a whole body of at most `limit` bytes.
pub(crate) async fn text(body: Incoming, limit: usize) -> Result<String, BodyError> {
    text_counted(body, limit, |_| Ok(())).await
}

/// Reads a whole body of at most `limit` bytes, and reports the size of each chunk to `count`.
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

/// Returns the next bytes of a body, or `None` at its end.
pub(crate) async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(words(&error)))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
