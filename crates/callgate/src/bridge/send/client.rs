//! The HTTP client of the bridge. Opens new connections after the system was suspended.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response};
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::sync::watch;

use crate::bridge::Options;
use crate::bridge::options::token_origin::TokenOrigin;
use crate::bridge::send::suspend_detector::SuspendDetector;
use crate::http_client::connector::Connector;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::SendError;
use crate::http_client::tls::{TlsSetupError, client_config};
use crate::http_client::{self, Pool, pool_builder};

pub(crate) use crate::http_client::body::{BodyError, next_chunk, text};

/// Maximum size of a response body that is read without being used.
const MAX_IGNORED_BODY: usize = 1 << 16;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Debug)]
pub(crate) struct ServerClient {
    endpoint: Endpoint,
    headers: HeaderMap,
    credential: Option<TokenOrigin>,
    tls: ClientConfig,
    pool: Mutex<LimitedPool>,
    suspend: SuspendDetector,
    /// Number of times that the system was suspended. After each suspend, connections may be dead.
    suspends: watch::Sender<u64>,
}

/// A connection pool with the time limit of its new connections.
#[derive(Debug)]
struct LimitedPool {
    connections: Pool,
    connect_limit: Duration,
}

impl LimitedPool {
    fn new(tls: &ClientConfig, connect_limit: Duration) -> Self {
        Self {
            connections: pool_builder(8).build(Connector::new(tls, connect_limit)),
            connect_limit,
        }
    }
}

impl ServerClient {
    pub(crate) fn new(options: &Options) -> Result<Self, TlsSetupError> {
        let limits = &options.limits;
        let tls = client_config(Some(&options.endpoint), &options.extra_roots, "--ca-file")?;
        Ok(Self {
            endpoint: options.endpoint.clone(),
            headers: options.headers.clone(),
            credential: options.credential,
            pool: Mutex::new(LimitedPool::new(&tls, limits.connect.min(limits.first_request_wait))),
            tls,
            suspend: SuspendDetector::new(),
            suspends: watch::channel(0).0,
        })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn credential(&self) -> Option<TokenOrigin> {
        self.credential
    }

    pub(crate) async fn post(
        &self,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, SendError> {
        self.send(Method::POST, &[(ACCEPT, ACCEPT_BOTH), (CONTENT_TYPE, JSON)], headers, body).await
    }

    pub(crate) async fn get(&self, headers: &HeaderMap) -> Result<Response<Incoming>, SendError> {
        self.send(Method::GET, &[(ACCEPT, ACCEPT_EVENTS)], headers, Bytes::new()).await
    }

    pub(crate) async fn delete(&self, headers: &HeaderMap) {
        let _ = self.send(Method::DELETE, &[], headers, Bytes::new()).await;
    }

    async fn send(
        &self,
        method: Method,
        required_headers: &[(HeaderName, HeaderValue)],
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, SendError> {
        let mut merged = self.headers.clone();
        merged.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        merged.extend(required_headers.iter().cloned());
        self.reconnect_after_suspend();
        let pool = self.pool().connections.clone();
        http_client::send(&pool, method, self.endpoint.uri().clone(), merged, body).await
    }

    /// Sets the time limit of new connections. If the limit changes, replaces the connection pool.
    pub(crate) fn set_connect_limit(&self, connect_limit: Duration) {
        let mut pool = self.pool();
        if pool.connect_limit != connect_limit {
            *pool = LimitedPool::new(&self.tls, connect_limit);
        }
    }

    fn pool(&self) -> MutexGuard<'_, LimitedPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn suspends(&self) -> watch::Receiver<u64> {
        self.suspends.subscribe()
    }

    /// Replaces the connection pool after the system was suspended, because idle connections may be dead.
    fn reconnect_after_suspend(&self) {
        if self.suspend.was_suspended() {
            let mut pool = self.pool();
            *pool = LimitedPool::new(&self.tls, pool.connect_limit);
            self.suspends.send_modify(|suspends| *suspends += 1);
            tracing::info!("the system was suspended; opening new connections");
        }
    }

    pub(crate) async fn watch_for_suspend(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.reconnect_after_suspend();
        }
    }
}

/// Reads a body to its end, so that the connection can be reused.
pub(crate) async fn drain(response: Response<Incoming>) {
    let _ = text(response.into_body(), MAX_IGNORED_BODY).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    Events,
    Other,
    Empty,
}

pub(crate) fn body_kind(headers: &HeaderMap) -> BodyKind {
    let media_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("text/event-stream") {
        BodyKind::Events
    } else if media_type.eq_ignore_ascii_case("application/json") {
        BodyKind::Json
    } else if headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0") {
        BodyKind::Empty
    } else if media_type.is_empty() {
        // Some servers omit the content type.
        BodyKind::Json
    } else {
        BodyKind::Other
    }
}
