//! Common parts of the HTTP clients: connection pool, TLS, bodies and errors.

pub(crate) mod connector;
pub(crate) mod endpoint;
#[cfg(feature = "forward")]
pub(crate) mod http1;
pub(crate) mod send_error;
pub(crate) mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;

use connector::Connector;
use send_error::{SendError, describe};

pub(crate) type Pool = Client<Connector, Full<Bytes>>;

/// Idle timeout of connections. It must be shorter than 5 s, after which Node's servers close idle connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

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

pub(crate) fn is_transport_header(name: &HeaderName) -> bool {
    TRANSPORT_HEADERS.contains(name)
}

/// Returns a header value that `Debug` does not show.
pub(crate) fn sensitive(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

pub(crate) fn pool_builder(idle: usize) -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(idle);
    builder
}

/// Sends a request and reads the head of its response.
pub(crate) async fn send(
    pool: &Pool,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Incoming>, SendError> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    pool.request(request).await.map_err(|error| SendError::of(&error))
}

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

/// Reads the whole body: at most `limit` bytes. Passes the size of each chunk to `count`.
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
struct CountedBytes<C> {
    bytes: Vec<u8>,
    limit: usize,
    count: C,
}

impl<E: From<BodyError>, C: Fn(usize) -> Result<(), E>> CountedBytes<C> {
    fn add(&mut self, chunk: &[u8]) -> Result<(), E> {
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
