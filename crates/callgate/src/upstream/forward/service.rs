//! A service, and the HTTP client that calls it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode, Uri};
use hyper::body::Incoming;

use crate::http_client::body::bytes_counted;
use crate::http_client::connector::Connector;
use crate::http_client::http1::{Http1Client, PlainConnector, ResponseHeaders, request_head};
use crate::http_client::tls::{TlsSetupError, client_config};
use crate::http_client::{Pool, pool_builder, send};
use crate::upstream::forward::{
    Failure, ForwardLimits, ForwardOptions, ForwardStats, ServiceResponse,
};
use crate::upstream::memory_budget::BudgetReservation;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Buffer for the longest result of [`length_line`].
type LengthLine = [u8; MAX_DIGITS + 4];
const LENGTH_LINE: LengthLine = *b"00000000000000000000\r\n\r\n";

/// Maximum number of digits of a length.
const MAX_DIGITS: usize = 20;

/// A request with a JSON body.
pub(crate) struct Post<'a> {
    /// URL of the request. `None` for the URL of the configured target.
    pub(crate) uri: Option<&'a Uri>,
    /// Headers of the request. `None` for the configured headers.
    pub(crate) headers: Option<HeaderMap>,
    pub(crate) body: &'a Bytes,
    /// Maximum size of the response, in bytes.
    pub(crate) limit: usize,
    /// Counts the bytes of the response.
    pub(crate) reservation: &'a BudgetReservation,
}

/// A service: its options, the HTTP client that calls it, and the statistics of its calls.
#[derive(Debug)]
pub(crate) struct Service {
    /// Name of the upstream, for the log.
    pub(crate) name: String,
    pub(crate) options: ForwardOptions,
    pub(crate) stats: ForwardStats,
    transport: ServiceTransport,
}

#[derive(Debug)]
enum ServiceTransport {
    /// HTTP/1.1 without TLS. The bytes are the result of `post_head` for a request that has only the configured
    /// headers.
    Http1(Http1Client, Box<[u8]>),
    /// TLS, HTTP/2 or WebSocket.
    Hyper(Box<Pool>),
}

impl Service {
    pub(crate) fn new(name: String, options: ForwardOptions) -> Result<Arc<Self>, TlsSetupError> {
        let max_idle = options.limits.concurrent;
        let transport = match plain_connector(&options) {
            Some(connector) => {
                let head = post_head(options.target.uri(), options.headers.clone());
                ServiceTransport::Http1(Http1Client::new(connector, max_idle), head.into())
            }
            None => {
                let mut builder = pool_builder(max_idle);
                let pool = builder.http2_only(options.http2).build(connector(&options)?);
                ServiceTransport::Hyper(Box::new(pool))
            }
        };
        Ok(Arc::new(Self { name, options, stats: ForwardStats::default(), transport }))
    }

    /// Posts a request and reads the response.
    pub(crate) async fn post(&self, post: Post<'_>) -> Result<ServiceResponse, Failure> {
        let Post { uri, headers, body, limit, reservation } = post;
        let count = |bytes| reservation.add(bytes).map_err(Failure::from);
        let is_default = uri.is_none() && headers.is_none();
        let uri = uri.unwrap_or(self.options.target.uri());
        match &self.transport {
            ServiceTransport::Http1(client, prepared) => {
                let custom = (!is_default).then(|| post_head(uri, self.or_configured(headers)));
                let head = custom.as_deref().unwrap_or(prepared);
                let mut line = LENGTH_LINE;
                let request = [head, length_line(body.len(), &mut line), body];
                send_http1(client, request, limit, count).await
            }
            ServiceTransport::Hyper(pool) => {
                let (uri, headers) = (uri.clone(), post_headers(self.or_configured(headers)));
                // This future is boxed, because it is larger than the rest of a call.
                Box::pin(async {
                    let response = send(pool, Method::POST, uri, headers, body.clone()).await;
                    read_incoming(response?, limit, count).await
                })
                .await
            }
        }
    }

    pub(crate) async fn get(
        &self,
        uri: &Uri,
        headers: Option<HeaderMap>,
        limit: usize,
    ) -> Result<ServiceResponse, Failure> {
        let mut headers = self.or_configured(headers);
        headers.insert(ACCEPT, JSON);
        match &self.transport {
            ServiceTransport::Http1(client, _) => {
                let head = request_head(&Method::GET, uri, &headers);
                send_http1(client, [&head, b"\r\n", b""], limit, |_| Ok(())).await
            }
            ServiceTransport::Hyper(pool) => {
                let response = send(pool, Method::GET, uri.clone(), headers, Bytes::new()).await;
                read_incoming(response?, limit, |_| Ok(())).await
            }
        }
    }

    fn or_configured(&self, headers: Option<HeaderMap>) -> HeaderMap {
        headers.unwrap_or_else(|| self.options.headers.clone())
    }

    /// Sends the opening handshake of a WebSocket.
    #[cfg(feature = "websocket")]
    pub(crate) async fn upgrade(&self, headers: HeaderMap) -> Result<Response<Incoming>, Failure> {
        let ServiceTransport::Hyper(pool) = &self.transport else {
            return Err(Failure::never_sent("not a WebSocket"));
        };
        Ok(send(pool, Method::GET, self.options.target.uri().clone(), headers, Bytes::new())
            .await?)
    }
}

/// Adds the headers about the body.
fn post_headers(mut headers: HeaderMap) -> HeaderMap {
    headers.insert(ACCEPT, JSON);
    headers.insert(CONTENT_TYPE, JSON);
    headers
}

/// Returns the head of a request without its end, which `length_line` returns.
fn post_head(uri: &Uri, headers: HeaderMap) -> Vec<u8> {
    let mut head = request_head(&Method::POST, uri, &post_headers(headers));
    head.extend_from_slice(b"content-length: ");
    head
}

/// Returns the end of the head: the length of the body, and the empty line. `format!` would take four times as long as
/// this function.
fn length_line(length: usize, line: &mut LengthLine) -> &[u8] {
    let (mut rest, mut start) = (length, MAX_DIGITS);
    while let Some(digit) = line.get_mut(..start).and_then(<[u8]>::last_mut) {
        *digit = b"0123456789".get(rest % 10).copied().unwrap_or_default();
        (rest, start) = (rest / 10, start - 1);
        if rest == 0 {
            break;
        }
    }
    line.get(start..).unwrap_or_default()
}

async fn send_http1(
    client: &Http1Client,
    request: [&[u8]; 3],
    limit: usize,
    count: impl Fn(usize) -> Result<(), Failure>,
) -> Result<ServiceResponse, Failure> {
    let (head, exchange) = client.send(request).await?;
    check_head(head.status, &head.headers, head.length(), limit)?;
    let body = exchange.body(&head, limit, count).await?;
    ServiceResponse::new(head.status, head.headers, body)
}

/// Returns the time limit for connecting. It is shorter than the time limit of a call, so that a call without a
/// connection is not reported as one that may have run.
pub(crate) fn connect_limit(limits: ForwardLimits) -> Duration {
    limits.connect.min(limits.timeout / 2)
}

/// Returns `None` for TLS, HTTP/2 and WebSocket.
fn plain_connector(options: &ForwardOptions) -> Option<PlainConnector> {
    let (target, time_limit) = (&options.target, connect_limit(options.limits));
    if options.http2 || target.is_websocket() {
        return None;
    }
    #[cfg(unix)]
    if let Some(socket) = target.socket() {
        return Some(PlainConnector::unix(socket, time_limit));
    }
    let is_plain = target.endpoint().is_some_and(|endpoint| !endpoint.is_https());
    is_plain.then(|| PlainConnector::tcp(target.uri().clone(), time_limit))
}

fn connector(options: &ForwardOptions) -> Result<Connector, TlsSetupError> {
    let (target, time_limit) = (&options.target, connect_limit(options.limits));
    #[cfg(unix)]
    if let Some(socket) = target.socket() {
        return Ok(Connector::unix(socket, time_limit));
    }
    let tls = client_config(target.endpoint(), &options.roots, "`ca_file`")?;
    // The opening handshake of a WebSocket uses HTTP/1.1.
    if target.is_websocket() {
        return Ok(Connector::new(&tls, time_limit));
    }
    Ok(Connector::with_http2(&tls, time_limit))
}

async fn read_incoming(
    response: Response<Incoming>,
    limit: usize,
    count: impl Fn(usize) -> Result<(), Failure>,
) -> Result<ServiceResponse, Failure> {
    let (head, body) = response.into_parts();
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse().ok());
    let headers = ResponseHeaders::Map(Box::new(head.headers));
    check_head(head.status, &headers, length, limit)?;
    let body = bytes_counted(body, limit, count).await?;
    ServiceResponse::new(head.status, headers, body)
}

/// Checks the head of a response before the body is read.
fn check_head(
    status: StatusCode,
    headers: &ResponseHeaders,
    length: Option<u64>,
    limit: usize,
) -> Result<(), Failure> {
    if status.is_redirection() {
        return Err(Failure::redirected(status, &headers.map()));
    }
    if length.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > limit)) {
        return Err(Failure::TooLarge(limit));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_the_length_of_the_body() {
        for length in [0, 7, 10, 98_765, usize::MAX] {
            let expected = format!("{length}\r\n\r\n");
            assert_eq!(length_line(length, &mut { LENGTH_LINE }), expected.as_bytes());
        }
    }
}
