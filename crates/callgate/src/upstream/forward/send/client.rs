//! The HTTP client of one service.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode, Uri};
use hyper::body::Incoming;

use crate::http_client::connector::Connector;
use crate::http_client::http1::{Http1Client, PlainConnector, ResponseHeaders, request_head};
use crate::http_client::send_error::SendError;
use crate::http_client::tls::{TlsSetupError, client_config};
use crate::http_client::{Pool, bytes_counted, pool_builder, request};
use crate::upstream::budget::BudgetReservation;
use crate::upstream::forward::{Failure, ForwardLimits, ForwardOptions, ServiceResponse};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Debug, Clone)]
pub(crate) struct ServiceClient {
    uri: Uri,
    /// Configured headers.
    headers: HeaderMap,
    transport: Transport,
}

#[derive(Debug, Clone)]
enum Transport {
    /// HTTP/1.1 without TLS. With the head of a request that has only the configured headers.
    Http1(Arc<Http1Client>, Arc<[u8]>),
    /// With TLS, HTTP/2 or WebSocket.
    Hyper(Box<Pool>),
}

impl ServiceClient {
    pub(crate) fn new(options: &ForwardOptions) -> Result<Self, TlsSetupError> {
        let (uri, headers) = (options.target.uri().clone(), options.headers.clone());
        let transport = match plain_connector(options) {
            Some(connector) => {
                let client = Http1Client::new(connector, options.limits.concurrent);
                let head = post_head(&uri, headers.clone());
                Transport::Http1(Arc::new(client), head.into())
            }
            None => {
                let mut builder = pool_builder(options.limits.concurrent);
                let pool = builder.http2_only(options.http2).build(connector(options)?);
                Transport::Hyper(Box::new(pool))
            }
        };
        Ok(Self { uri, headers, transport })
    }

    /// Posts a request to `uri`, or to the URL of the service, with `headers` or the configured ones. Reads the
    /// response: at most `limit` bytes, counted by `reservation`.
    pub(crate) async fn post(
        &self,
        uri: Option<Uri>,
        headers: Option<HeaderMap>,
        body: Bytes,
        limit: usize,
        reservation: &BudgetReservation,
    ) -> Result<ServiceResponse, Failure> {
        let count = |bytes| reservation.add(bytes).map_err(Failure::from);
        match &self.transport {
            Transport::Http1(client, prepared) => {
                let other = (uri.is_some() || headers.is_some()).then(|| {
                    let headers = headers.unwrap_or_else(|| self.headers.clone());
                    post_head(uri.as_ref().unwrap_or(&self.uri), headers)
                });
                let head = with_length(other.as_deref().unwrap_or(prepared), body.len());
                exchange(client, &head, &body, limit, count).await
            }
            Transport::Hyper(pool) => {
                let mut headers = headers.unwrap_or_else(|| self.headers.clone());
                headers.insert(ACCEPT, JSON);
                headers.insert(CONTENT_TYPE, JSON);
                let uri = uri.unwrap_or_else(|| self.uri.clone());
                // Boxed, since it is larger than the rest of a call.
                let response = Box::pin(send(pool, Method::POST, uri, headers, body)).await?;
                Box::pin(read(response, limit, count)).await
            }
        }
    }

    pub(crate) async fn get(
        &self,
        uri: Uri,
        headers: Option<HeaderMap>,
        limit: usize,
    ) -> Result<ServiceResponse, Failure> {
        let mut headers = headers.unwrap_or_else(|| self.headers.clone());
        headers.insert(ACCEPT, JSON);
        match &self.transport {
            Transport::Http1(client, _) => {
                let mut head = request_head(&Method::GET, &uri, &headers);
                head.extend_from_slice(b"\r\n");
                exchange(client, &head, &[], limit, |_| Ok(())).await
            }
            Transport::Hyper(pool) => {
                let response = send(pool, Method::GET, uri, headers, Bytes::new()).await?;
                read(response, limit, |_| Ok(())).await
            }
        }
    }

    /// Sends the opening handshake of a WebSocket.
    #[cfg(feature = "websocket")]
    pub(crate) async fn upgrade(&self, headers: HeaderMap) -> Result<Response<Incoming>, Failure> {
        let Transport::Hyper(pool) = &self.transport else {
            return Err(Failure::never_sent("not a WebSocket"));
        };
        send(pool, Method::GET, self.uri.clone(), headers, Bytes::new()).await
    }
}

fn post_head(uri: &Uri, mut headers: HeaderMap) -> Vec<u8> {
    headers.insert(ACCEPT, JSON);
    headers.insert(CONTENT_TYPE, JSON);
    request_head(&Method::POST, uri, &headers)
}

fn with_length(head: &[u8], length: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(head.len() + 40);
    all.extend_from_slice(head);
    let _ = write!(all, "content-length: {length}\r\n\r\n");
    all
}

async fn exchange(
    client: &Http1Client,
    head: &[u8],
    body: &[u8],
    limit: usize,
    count: impl Fn(usize) -> Result<(), Failure>,
) -> Result<ServiceResponse, Failure> {
    let mut exchange = client.send(head, body).await.map_err(Failure::Send)?;
    let length = exchange.head.length();
    let (status, headers) = (exchange.head.status, std::mem::take(&mut exchange.head.headers));
    check(status, &headers, length, limit)?;
    let body = exchange.body(limit, count).await?;
    ServiceResponse::new(status, headers, body)
}

async fn send(
    pool: &Pool,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Incoming>, Failure> {
    let sent = pool.request(request(method, uri, headers, body)).await;
    sent.map_err(|error| Failure::Send(SendError::of(&error)))
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

async fn read(
    response: Response<Incoming>,
    limit: usize,
    count: impl Fn(usize) -> Result<(), Failure>,
) -> Result<ServiceResponse, Failure> {
    let (head, body) = response.into_parts();
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse().ok());
    let headers = ResponseHeaders::Map(head.headers);
    check(head.status, &headers, length, limit)?;
    let body = bytes_counted(body, limit, count).await?;
    ServiceResponse::new(head.status, headers, body)
}

/// Checks the head of a response before the body is read.
fn check(
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
