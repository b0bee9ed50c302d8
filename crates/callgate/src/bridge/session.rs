//! The legacy session: what was agreed on, so that it can be agreed on again.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;
use tokio::sync::{Mutex, watch};

use super::Bridge;
use super::failure::Failure;
use super::forward::{Delivery, Refusal};
use super::message::{INITIALIZED, Revision, from_server};
use crate::mcp::parse::headers::{PROTOCOL_VERSION, SESSION_ID};

/// A session that is open.
#[derive(Debug, Clone)]
pub(super) struct Live {
    /// Counts the handshakes.
    pub(super) generation: u64,
    /// Servers without state give none.
    pub(super) id: Option<HeaderValue>,
    version: Box<str>,
    /// The client's `initialize`, as it was sent.
    initialize: Bytes,
    /// Whether the server has taken `notifications/initialized`.
    pub(super) is_ready: bool,
}

impl Live {
    /// With which each message of the session goes out.
    pub(super) fn headers(&self) -> HeaderMap {
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

/// The session, if there is one.
#[derive(Debug)]
pub(super) struct Session {
    live: watch::Sender<Option<Arc<Live>>>,
    /// One renews, and the others that have lost it wait for that.
    renewing: Mutex<()>,
}

impl Default for Session {
    fn default() -> Self {
        Self { live: watch::channel(None).0, renewing: Mutex::default() }
    }
}

impl Session {
    pub(super) fn live(&self) -> Option<Arc<Live>> {
        self.live.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Arc<Live>>> {
        self.live.subscribe()
    }

    /// Begins with what the server answered to `initialize`.
    pub(super) fn open(&self, initialize: &Bytes, id: Option<HeaderValue>, result: &RawValue) {
        let Some(version) = version_of(result) else { return };
        let generation = self.live().map_or(1, |live| live.generation + 1);
        let live =
            Live { generation, id, version, initialize: initialize.clone(), is_ready: false };
        self.live.send_replace(Some(Arc::new(live)));
    }

    /// The server has taken `notifications/initialized`.
    pub(super) fn set_ready(&self, generation: u64) {
        self.live.send_if_modified(|live| match live {
            Some(live) if live.generation == generation && !live.is_ready => {
                *live = Arc::new(Live { is_ready: true, ..Live::clone(live) });
                true
            }
            _ => false,
        });
    }
}

fn version_of(result: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(result.get()).ok().map(|Revision { version }| version)
}

impl Bridge {
    /// Does the handshake again, for all that have lost the same session.
    pub(super) async fn renew(&self, lost: &Live) -> Result<(), Failure> {
        let _one = self.session.renewing.lock().await;
        if self.session.live().is_none_or(|live| live.generation != lost.generation) {
            return Ok(());
        }
        let (id, version) = self.shake_hands(lost).await?;
        if version != lost.version {
            return Err(Failure::new(format!(
                "the session at {} is lost, and a new one would speak {version} instead of {}. Restart \
                 the connection in your client",
                self.http.endpoint(),
                lost.version
            )));
        }
        let live = Live { generation: lost.generation + 1, id, is_ready: true, ..lost.clone() };
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{INITIALIZED}"}}"#);
        let (delivery, headers) = (Delivery::default(), live.headers());
        let told = self.deliver(&delivery, &headers, body.into());
        let told = tokio::time::timeout(self.limits.delivery, told).await;
        told.map_err(|_| Failure::new("the server did not take `notifications/initialized`"))??;
        self.restore_settings(&headers).await;
        self.session.live.send_replace(Some(Arc::new(live)));
        tracing::info!("the session was lost; there is a new one");
        Ok(())
    }

    /// The id and the version of a new session.
    async fn shake_hands(&self, lost: &Live) -> Result<(Option<HeaderValue>, Box<str>), Failure> {
        let delivery = Delivery { may_repeat: true, ..Delivery::default() };
        let response = self.deliver(&delivery, &HeaderMap::new(), lost.initialize.clone()).await?;
        if !response.status().is_success() {
            let refusal = Refusal::read(response, &self.http).await;
            return Err(Failure::new(format!(
                "the session at {} is lost, and the server refuses a new one: {}",
                self.http.endpoint(),
                refusal.words(&self.http)
            )));
        }
        let id = response.headers().get(SESSION_ID).cloned();
        let answer = self.first_answer(response).await;
        let version = answer.as_deref().and_then(|json| version_of(from_server(json)?.result?));
        let version = version.ok_or_else(|| {
            Failure::new(
                "the session is lost, and the server's answer to a new `initialize` is no answer",
            )
        })?;
        Ok((id, version))
    }
}
