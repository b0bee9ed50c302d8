//! The HTTP client: pooled connections that are known to live, TLS, and what went wrong in words.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::sync::watch;

use super::clock::Clock;
use super::credential::Credential;
use super::options::Options;
use crate::http_client::connector::Connector;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::SendError;
use crate::http_client::tls::{NoTls, client_config};
use crate::http_client::{Pool, pool_builder};

pub(super) use crate::http_client::{BodyError, next_chunk, text};

const LOOK: Duration = Duration::from_secs(1);

const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

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

impl Http {
    pub(super) fn new(options: &Options) -> Result<Self, NoTls> {
        let tls = client_config(Some(&options.endpoint), &options.extra_roots, "--ca-file")?;
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
        self.send(Method::POST, &[(ACCEPT, ACCEPT_BOTH), (CONTENT_TYPE, JSON)], headers, body).await
    }

    /// Opens a stream.
    pub(super) async fn get(&self, headers: &HeaderMap) -> Result<Response<Incoming>, SendError> {
        self.send(Method::GET, &[(ACCEPT, ACCEPT_EVENTS)], headers, Bytes::new()).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, headers: &HeaderMap) {
        let _ = self.send(Method::DELETE, &[], headers, Bytes::new()).await;
    }

    async fn send(
        &self,
        method: Method,
        own: &[(HeaderName, HeaderValue)],
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.endpoint.uri().clone();
        let all = request.headers_mut();
        all.clone_from(&self.headers);
        all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        all.extend(own.iter().cloned());
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

fn pool(tls: &ClientConfig, connect: Duration) -> Pool {
    pool_builder(8).build(Connector::new(tls, connect))
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
