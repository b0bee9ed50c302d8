//! The legacy session, which is reopened if the server loses it.

pub(crate) mod settings;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;
use tokio::sync::{Mutex, watch};

use crate::bridge::receive::message::{INITIALIZED, ProtocolVersion, parse_server_message};
use crate::bridge::send::ErrorResponse;
use crate::bridge::send::retry::SendPolicy;
use crate::bridge::{Bridge, BridgeFailure};
use crate::mcp::parse::headers::{PROTOCOL_VERSION, SESSION_ID};

#[derive(Debug, Clone)]
pub(crate) struct OpenSession {
    pub(crate) generation: u64,
    /// Session id; `None` for a stateless server.
    pub(crate) id: Option<HeaderValue>,
    version: Box<str>,
    initialize: Bytes,
    /// Whether the server has accepted `notifications/initialized`.
    pub(crate) is_ready: bool,
}

impl OpenSession {
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        if let Some(id) = &self.id {
            headers.insert(HeaderName::from_static(SESSION_ID), id.clone());
        }
        if let Ok(version) = HeaderValue::from_str(&self.version) {
            headers.insert(HeaderName::from_static(PROTOCOL_VERSION), version);
        }
        headers
    }
}

#[derive(Debug, Default)]
pub(crate) struct CurrentSession {
    current: watch::Sender<Option<Arc<OpenSession>>>,
    reopen_lock: Mutex<()>,
}

impl CurrentSession {
    pub(crate) fn current(&self) -> Option<Arc<OpenSession>> {
        self.current.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<OpenSession>>> {
        self.current.subscribe()
    }

    pub(crate) fn open(&self, initialize: &Bytes, id: Option<HeaderValue>, result: &RawValue) {
        let Some(version) = version_of(result) else { return };
        let generation = self.current().map_or(1, |session| session.generation + 1);
        let session = OpenSession {
            generation,
            id,
            version,
            initialize: initialize.clone(),
            is_ready: false,
        };
        self.current.send_replace(Some(Arc::new(session)));
    }

    /// Records that the server accepted `notifications/initialized`.
    pub(crate) fn set_ready(&self, generation: u64) {
        self.current.send_if_modified(|session| match session {
            Some(session) if session.generation == generation && !session.is_ready => {
                *session = Arc::new(OpenSession { is_ready: true, ..OpenSession::clone(session) });
                true
            }
            _ => false,
        });
    }
}

fn version_of(result: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(result.get()).ok().map(|ProtocolVersion { version }| version)
}

impl Bridge {
    /// Opens a new session. Requests that lost the same session share the new session.
    pub(crate) async fn reopen_session(&self, lost: &OpenSession) -> Result<(), BridgeFailure> {
        let _guard = self.session.reopen_lock.lock().await;
        if self.session.current().is_none_or(|session| session.generation != lost.generation) {
            return Ok(());
        }
        let (id, version) = self.initialize(lost).await?;
        if version != lost.version {
            let endpoint = self.http.endpoint();
            return Err(BridgeFailure::of_new_revision(endpoint, &lost.version, &version));
        }
        let session =
            OpenSession { generation: lost.generation + 1, id, is_ready: true, ..lost.clone() };
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{INITIALIZED}"}}"#);
        let (policy, headers) = (SendPolicy::default(), session.headers());
        let sending = self.post_with_retries(&policy, &headers, body.into());
        let result = tokio::time::timeout(self.limits.send_timeout, sending).await;
        result.map_err(|_| {
            BridgeFailure::new("the server did not accept `notifications/initialized`")
        })??;
        self.restore_settings(&headers).await;
        self.session.current.send_replace(Some(Arc::new(session)));
        tracing::info!("opened a new session, because the server lost the old one");
        Ok(())
    }

    /// Sends `initialize` again. Returns the id and the version of the new session.
    async fn initialize(
        &self,
        lost: &OpenSession,
    ) -> Result<(Option<HeaderValue>, Box<str>), BridgeFailure> {
        let policy = SendPolicy { is_repeatable: true, ..SendPolicy::default() };
        let response =
            self.post_with_retries(&policy, &HeaderMap::new(), lost.initialize.clone()).await?;
        if !response.status().is_success() {
            let refusal = ErrorResponse::read(response, &self.http).await;
            return Err(BridgeFailure::new(format!(
                "the session at {} is lost, and the server did not open a new session: {}",
                self.http.endpoint(),
                refusal.message(&self.http)
            )));
        }
        let id = response.headers().get(SESSION_ID).cloned();
        let message = self.read_internal_response(response).await;
        let version =
            message.as_deref().and_then(|json| version_of(parse_server_message(json)?.result?));
        let version = version.ok_or_else(|| {
            BridgeFailure::new(
                "the session is lost, and the response to a new `initialize` is invalid",
            )
        })?;
        Ok((id, version))
    }
}
