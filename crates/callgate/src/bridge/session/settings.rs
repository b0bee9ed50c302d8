//! Log level and subscriptions of a session. They are restored in a new session.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::bridge::Bridge;
use crate::bridge::receive::message::ClientMessage;
use crate::bridge::send::client;
use crate::bridge::send::retry::SendPolicy;

const SET_LEVEL: &str = "logging/setLevel";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Maximum number of subscriptions that are restored.
const MAX_SUBSCRIPTIONS: usize = 1024;

/// Parameters of the successful requests that changed the session's settings.
#[derive(Debug, Default)]
pub(crate) struct SessionSettings(Mutex<RecordedSettings>);

#[derive(Debug, Default)]
struct RecordedSettings {
    level: Option<Box<RawValue>>,
    subscriptions: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
struct SubscriptionParams<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
}

impl SessionSettings {
    fn lock(&self) -> MutexGuard<'_, RecordedSettings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, request: &ClientMessage) {
        if !matches!(&*request.method, SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE) {
            return;
        }
        let Some(params) = request.params::<&RawValue>() else { return };
        let mut settings = self.lock();
        if &*request.method == SET_LEVEL {
            settings.level = Some(params.to_owned());
            return;
        }
        let Ok(SubscriptionParams { uri }) = serde_json::from_str(params.get()) else { return };
        if &*request.method == UNSUBSCRIBE {
            settings.subscriptions.remove(&*uri);
        } else if settings.subscriptions.len() < MAX_SUBSCRIPTIONS {
            settings.subscriptions.insert(uri.into_owned(), params.to_owned());
        }
    }

    fn requests(&self) -> Vec<Bytes> {
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

    pub(crate) fn clear(&self) {
        *self.lock() = RecordedSettings::default();
    }
}

impl Bridge {
    /// Repeats the requests that changed the session's settings, in a new session.
    pub(crate) async fn restore_settings(&self, headers: &HeaderMap) {
        let restoring = async {
            for body in self.settings.requests() {
                let result = self.post_with_retries(&SendPolicy::default(), headers, body).await;
                let Some(response) = result.ok().filter(|response| response.status().is_success())
                else {
                    tracing::warn!(
                        "failed to restore a log level or subscription in the new session"
                    );
                    continue;
                };
                client::drain(response).await;
            }
        };
        if tokio::time::timeout(self.limits.send_timeout, restoring).await.is_err() {
            tracing::warn!(
                "timed out while restoring log level and subscriptions in the new session"
            );
        }
    }
}
