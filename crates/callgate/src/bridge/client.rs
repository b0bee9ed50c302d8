//! The HTTP client: pooled connections that are known to live, TLS, and what went wrong in words.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::sync::watch;

use super::clock::Clock;
use super::connector::Connector;
use super::credential::Credential;
use super::endpoint::Endpoint;
use super::options::Options;
use super::send_error::{SendError, words};

/// Node's servers close idle connections after five seconds; a request must not meet that.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_secs(1);

const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

type Pool = Client<Connector, Full<Bytes>>;

/// The client of one server.
#[derive(Debug)]
pub(super) struct Http {
    endpoint: Endpoint,
    headers: HeaderMap,
    credential: Option<Credential>,
    tls: ClientConfig,
    connect: Duration,
    pool: Mutex<Pool>,
    clock: Clock,
    /// Counts how often time has jumped: what is open may be dead then.
    jumps: watch::Sender<u64>,
}

/// TLS cannot be set up.
#[derive(Debug, Error)]
#[error("cannot set up TLS")]
pub struct NoTls;

impl Http {
    pub(super) fn new(options: &Options) -> Result<Self, NoTls> {
        let tls = tls(options)?;
        Ok(Self {
            endpoint: options.endpoint.clone(),
            headers: options.headers.clone(),
            credential: options.credential,
            pool: Mutex::new(pool(&tls, options.limits.connect)),
            tls,
            connect: options.limits.connect,
            clock: Clock::new(),
            jumps: watch::channel(0).0,
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The token that is sent.
    pub(super) fn credential(&self) -> Option<Credential> {
        self.credential
    }

    /// Sends a message.
    pub(super) async fn post(
        &self,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, SendError> {
        let mut request = self.request(Method::POST, headers, body);
        request.headers_mut().insert(ACCEPT, ACCEPT_BOTH);
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        self.send(request).await
    }

    /// Opens a stream.
    pub(super) async fn get(&self, headers: &HeaderMap) -> Result<Response<Incoming>, SendError> {
        let mut request = self.request(Method::GET, headers, Bytes::new());
        request.headers_mut().insert(ACCEPT, ACCEPT_EVENTS);
        self.send(request).await
    }

    /// Ends a session.
    pub(super) async fn delete(
        &self,
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, SendError> {
        self.send(self.request(Method::DELETE, headers, Bytes::new())).await
    }

    fn request(&self, method: Method, headers: &HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.endpoint.uri().clone();
        let all = request.headers_mut();
        all.clone_from(&self.headers);
        all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        request
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, SendError> {
        self.look();
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pool.request(request).await.map_err(|error| SendError::of(&error))
    }

    /// Tells when time has jumped.
    pub(super) fn jumps(&self) -> watch::Receiver<u64> {
        self.jumps.subscribe()
    }

    /// After a sleep, connections that were idle may be dead and not know it.
    fn look(&self) {
        if self.clock.has_jumped() {
            *self.pool.lock().unwrap_or_else(PoisonError::into_inner) =
                pool(&self.tls, self.connect);
            self.jumps.send_modify(|jumps| *jumps += 1);
            tracing::info!("time has passed unnoticed; connections are made anew");
        }
    }

    /// Looks at the clock, for ever.
    pub(super) async fn keep_looking(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look();
        }
    }
}

fn tls(options: &Options) -> Result<ClientConfig, NoTls> {
    let mut roots = RootCertStore::empty();
    if options.endpoint.is_https() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(options.extra_roots.iter().cloned());
        if roots.is_empty() {
            tracing::warn!("this system has no certificates to trust; name some with --ca-file");
        }
    }
    let provider = rustls::crypto::ring::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|_| NoTls)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn pool(tls: &ClientConfig, connect: Duration) -> Pool {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(8)
        .build(Connector::new(tls, connect))
}

/// Why a body could not be read.
#[derive(Debug, Error)]
pub(super) enum BodyError {
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("the connection broke within the answer: {0}")]
    Broken(String),
    #[error("the answer is not UTF-8")]
    NotText,
}

/// A whole body.
pub(super) async fn text(mut body: Incoming, limit: usize) -> Result<String, BodyError> {
    let mut all = BytesMut::new();
    while let Some(chunk) = next_chunk(&mut body).await? {
        if all.len() + chunk.len() > limit {
            return Err(BodyError::TooLong(limit));
        }
        all.extend_from_slice(&chunk);
    }
    String::from_utf8(all.into()).map_err(|_| BodyError::NotText)
}

/// The next bytes of a body.
pub(super) async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(words(&error)))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// What kind of body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Events,
    Other,
    /// There is none.
    Empty,
}

/// Tells from the headers.
pub(super) fn kind(headers: &HeaderMap) -> Kind {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("text/event-stream") {
        Kind::Events
    } else if media.eq_ignore_ascii_case("application/json") {
        Kind::Json
    } else if headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0") {
        Kind::Empty
    } else if media.is_empty() {
        // Some say nothing.
        Kind::Json
    } else {
        Kind::Other
    }
}
