//! The pooled connections to one service.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::failure::Failure;
use super::options::{ForwardLimits, ForwardOptions, Http2};
use super::reply::Whole;
use super::send_failure::SendFailure;
use crate::budget::Hold;
use crate::http_client::body::text_counted;
use crate::http_client::connector::Connector;
use crate::http_client::tls::{NoTls, client_config};

/// Node's servers close idle connections after five seconds; a request should not meet that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response whose body is not read yet.
pub(super) type Head = Response<Incoming>;

#[derive(Debug)]
pub(super) struct Client {
    uri: Uri,
    pool: Pool<Connector, Full<Bytes>>,
}

impl Client {
    pub(super) fn new(options: &ForwardOptions) -> Result<Self, NoTls> {
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(options.limits.concurrent)
            .http2_only(options.http2 == Http2::Always)
            .build(connector(options)?);
        Ok(Self { uri: options.target.uri().clone(), pool })
    }

    /// The URL of the service.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Posts a request to the service's URL, and reads its answer within a limit of its own and that
    /// of all.
    pub(super) async fn ask(
        &self,
        headers: HeaderMap,
        body: Bytes,
        limit: usize,
        hold: &Hold,
    ) -> Result<Whole, SendFailure> {
        self.ask_at(self.uri.clone(), headers, body, limit, hold).await
    }

    /// The same for another URL of the service.
    pub(super) async fn ask_at(
        &self,
        uri: Uri,
        mut headers: HeaderMap,
        body: Bytes,
        limit: usize,
        hold: &Hold,
    ) -> Result<Whole, SendFailure> {
        headers.insert(ACCEPT, JSON);
        headers.insert(CONTENT_TYPE, JSON);
        let response = self.send_to(uri, Method::POST, headers, body).await?;
        Ok(whole(response, limit, hold).await?)
    }

    /// Reads what is at a URL of the service, within a limit.
    pub(super) async fn get_at(
        &self,
        uri: Uri,
        mut headers: HeaderMap,
        limit: usize,
    ) -> Result<Whole, SendFailure> {
        headers.insert(ACCEPT, JSON);
        let response = self.send_to(uri, Method::GET, headers, Bytes::new()).await?;
        Ok(whole(response, limit, &Hold::default()).await?)
    }

    /// Sends a request to the service's URL.
    #[cfg(feature = "websocket")]
    pub(super) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Head, SendFailure> {
        self.send_to(self.uri.clone(), method, headers, body).await
    }

    async fn send_to(
        &self,
        uri: Uri,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Head, SendFailure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        self.pool.request(request).await.map_err(|error| SendFailure::of(&error))
    }
}

/// How long a connection may take: so that a call which finds none is told so, and not that it may
/// have run.
pub(super) fn connect_limit(limits: ForwardLimits) -> Duration {
    limits.connect.min(limits.timeout / 2)
}

fn connector(options: &ForwardOptions) -> Result<Connector, NoTls> {
    let (target, time_limit) = (&options.target, connect_limit(options.limits));
    #[cfg(unix)]
    if let Some(socket) = target.socket() {
        return Ok(Connector::unix(socket, time_limit));
    }
    let tls = client_config(target.endpoint(), &options.roots, "`ca_file`")?;
    // A WebSocket begins with HTTP/1.1.
    if target.is_websocket() {
        return Ok(Connector::new(&tls, time_limit));
    }
    Ok(Connector::with_http2(&tls, time_limit))
}

/// Reads a response to its end, within a limit of its own and that of all.
async fn whole(response: Head, limit: usize, hold: &Hold) -> Result<Whole, Failure> {
    let (head, body) = response.into_parts();
    if head.status.is_redirection() {
        return Err(redirected(head.status, &head.headers));
    }
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > limit)
    {
        return Err(Failure::TooLarge(limit));
    }
    let count = |bytes| hold.add(bytes).map_err(Failure::from);
    let body = text_counted(body, limit, count).await?;
    Ok(Whole { status: head.status, headers: head.headers, body })
}

/// A redirect, which is not followed.
pub(super) fn redirected(status: http::StatusCode, headers: &HeaderMap) -> Failure {
    let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
    Failure::Redirected { status, to: to.and_then(|to| to.parse().ok()) }
}
