//! The log level and the subscriptions of a session, so that they are requested again in a new one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Bridge;
use super::client;
use super::forward::Delivery;
use super::message::Request;

const SET_LEVEL: &str = "logging/setLevel";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Maximum number of subscriptions that are remembered.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// Maximum size of a response, which is not used.
const MAX_BODY: usize = 1 << 16;

/// The parameters of requests that stay in effect.
#[derive(Debug, Default)]
pub(super) struct SessionSettings(Mutex<Settings>);

#[derive(Debug, Default)]
struct Settings {
    level: Option<Box<RawValue>>,
    /// By their URI.
    subscriptions: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
}

impl SessionSettings {
    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a request that the server has granted.
    pub(super) fn note(&self, request: &Request) {
        if !matches!(&*request.method, SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE) {
            return;
        }
        let Some(params) = request.params::<&RawValue>() else { return };
        let mut settings = self.lock();
        if &*request.method == SET_LEVEL {
            settings.level = Some(params.to_owned());
            return;
        }
        let Ok(Named { uri }) = serde_json::from_str(params.get()) else { return };
        if &*request.method == UNSUBSCRIBE {
            settings.subscriptions.remove(&*uri);
        } else if settings.subscriptions.len() < MAX_SUBSCRIPTIONS {
            settings.subscriptions.insert(uri.into_owned(), params.to_owned());
        }
    }

    /// Returns the same requests, with ids of our own.
    fn again(&self) -> Vec<Bytes> {
        let settings = self.lock();
        let level = settings.level.iter().map(|params| (SET_LEVEL, params));
        let subscriptions = settings.subscriptions.values().map(|params| (SUBSCRIBE, params));
        let all = level.chain(subscriptions).enumerate();
        all.map(|(number, (method, params))| {
            let id = format!("callgate-bridge-again-{number}");
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
                .to_string()
                .into()
        })
        .collect()
    }

    pub(super) fn forget(&self) {
        *self.lock() = Settings::default();
    }
}

impl Bridge {
    /// Requests from a new session what the old one had granted.
    pub(super) async fn restore_settings(&self, headers: &HeaderMap) {
        let asking = async {
            for body in self.settings.again() {
                let sent = self.deliver(&Delivery::default(), headers, body).await;
                let Some(response) = sent.ok().filter(|response| response.status().is_success())
                else {
                    tracing::warn!("the new session does not grant what the lost one did");
                    continue;
                };
                let _ = client::text(response.into_body(), MAX_BODY).await;
            }
        };
        if tokio::time::timeout(self.limits.delivery, asking).await.is_err() {
            tracing::warn!("the new session did not grant in time what the lost one did");
        }
    }
}
