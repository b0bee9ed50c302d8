//! Common parts of the HTTP clients: connection pool, TLS, bodies and errors.

pub(crate) mod body;
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
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use connector::Connector;
use send_error::SendError;

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
