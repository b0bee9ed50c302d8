//! The pooled connections to one service.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use http::{Extensions, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::Connected;
use hyper_util::client::legacy::{self, Client as Pool};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::failure::Failure;
use super::options::{ForwardOptions, Http2};
use super::reply::Answer;
use super::request::RequestId;
use crate::http_client::body::text;
use crate::http_client::connector::Connector;
use crate::http_client::send_error::SendError;
use crate::http_client::stream::Heard;
use crate::http_client::tls::{NoTls, client_config};
use crate::method::Safety;

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

    /// Sends a request.
    pub(super) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Head, SendFailure> {
        let mut request = self.request(Method::POST, headers, body);
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        self.pool.request(request).await.map_err(|error| SendFailure::of(&error))
    }

    /// Asks for what is at the URL.
    pub(super) async fn get(&self, headers: HeaderMap) -> Result<Head, SendFailure> {
        let request = self.request(Method::GET, headers, Bytes::new());
        self.pool.request(request).await.map_err(|error| SendFailure::of(&error))
    }

    fn request(&self, method: Method, headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request.headers_mut().insert(ACCEPT, JSON);
        request
    }
}

fn connector(options: &ForwardOptions) -> Result<Connector, NoTls> {
    let limits = options.limits;
    // So that a call which finds no connection is told so, and not that it may have run.
    let time_limit = limits.connect.min(limits.timeout / 2);
    #[cfg(unix)]
    if let Some(socket) = options.target.socket() {
        return Ok(Connector::unix(socket, time_limit));
    }
    let tls = client_config(options.target.endpoint(), &options.roots, "`ca_file`")?;
    Ok(Connector::with_http2(&tls, time_limit))
}

/// Why a request has no response, and whether any byte of one was there.
#[derive(Debug)]
pub(super) struct SendFailure {
    error: SendError,
    was_heard: bool,
}

impl SendFailure {
    fn of(error: &legacy::Error) -> Self {
        let was_heard = error.connect_info().is_none_or(was_heard);
        Self { error: SendError::of(error), was_heard }
    }

    /// By D31: what never left; what only reads, if nothing came back; nothing after a time-out.
    pub(super) fn may_be_sent_again(&self, safety: Safety) -> bool {
        match self.error {
            SendError::NotSent(_) | SendError::HungUp(_) => true,
            SendError::Broken(_) => safety == Safety::ReadOnly && !self.was_heard,
            SendError::Silent(_)
            | SendError::Untrusted(_)
            | SendError::NoTls
            | SendError::NoHttp => false,
        }
    }

    /// Whether the service was not there to be asked.
    pub(super) fn found_no_connection(&self) -> bool {
        self.error.never_left() || matches!(self.error, SendError::Untrusted(_) | SendError::NoTls)
    }

    pub(super) fn into_failure(self) -> Failure {
        self.error.into()
    }
}

/// Whether bytes came since the request was written. Over HTTP/2 there are always some, of other
/// requests or of none, and a response without its head is no response.
fn was_heard(connected: &Connected) -> bool {
    let mut extras = Extensions::new();
    connected.get_extras(&mut extras);
    !connected.is_negotiated_h2() && extras.get::<Heard>().is_none_or(Heard::any)
}

/// A response with its body.
#[derive(Debug)]
pub(super) struct Whole {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

/// Reads a response to its end, within a limit.
pub(super) async fn whole(response: Head, limit: usize) -> Result<Whole, Failure> {
    let (head, body) = response.into_parts();
    if head.status.is_redirection() {
        let to = head.headers.get(LOCATION).and_then(|to| to.to_str().ok());
        let to = to.and_then(|to| to.parse().ok());
        return Err(Failure::Redirected { status: head.status, to });
    }
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > limit)
    {
        return Err(Failure::TooLarge(limit));
    }
    Ok(Whole { status: head.status, headers: head.headers, body: text(body, limit).await? })
}

impl Whole {
    pub(super) fn read(&self, id: &RequestId<'_>) -> Result<super::Replied, Failure> {
        self.answer().read(id)
    }

    /// The body, where the status is good.
    pub(super) fn into_text(self) -> Result<String, Failure> {
        match self.answer().refused() {
            Some(failure) => Err(failure),
            None => Ok(self.body),
        }
    }

    fn answer(&self) -> Answer<'_> {
        Answer { status: self.status, headers: &self.headers, body: &self.body }
    }
}
