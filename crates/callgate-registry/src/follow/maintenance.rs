//! Maintenance of the registry, once a minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::log::error_chain;
use super::registry::flush_uses;
use super::replicas::unix_time;
use crate::auth::authenticator::TokenAuthenticator;
use crate::auth::signing_keys::{SESSION_KEYS, seconds, superseding};
use crate::db::pool::with_timeout;
use crate::store::{NewKey, Result};

const INTERVAL: Duration = Duration::from_mins(1);
/// Time limit of each operation.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of stored sessions. The oldest are deleted.
const MAX_SESSIONS: i64 = 100_000;
/// Number of seconds that messages are kept, so that all servers have time to read them.
const MESSAGE_SECONDS: i64 = 60;

/// Records uses of tokens, deletes expired rows, and replaces old keys.
#[derive(Debug)]
pub(super) struct Maintenance {
    pub(super) authenticator: Arc<TokenAuthenticator>,
    pub(super) max_key_age: Option<Duration>,
}

impl Maintenance {
    pub(super) async fn run(self) {
        loop {
            sleep(INTERVAL).await;
            if !self.authenticator.store().is_unavailable() {
                flush_uses(&self.authenticator).await;
                let store = &self.authenticator.store().inner;
                let now = unix_time();
                self.run_with_limit(store.delete_sessions(now, MAX_SESSIONS)).await;
                self.run_with_limit(store.delete_messages(MESSAGE_SECONDS)).await;
                self.run_with_limit(store.delete_leases()).await;
                self.run_with_limit(self.replace_keys(now)).await;
            }
        }
    }

    /// Adds a new key if the newest one is too old, and deletes keys that nothing needs.
    async fn replace_keys(&self, now: i64) -> Result<()> {
        let store = &self.authenticator.store().inner;
        let keys = store.keys(SESSION_KEYS).await?;
        let newest = keys.iter().map(|key| key.created_at).max();
        if let Some(max_age) = self.max_key_age
            && newest.is_none_or(|newest| newest.saturating_add(seconds(max_age)) <= now)
            && let Ok(key) = NewKey::announced(max_age)
            && store.add_key(&key).await?
        {
            tracing::info!("created a new key for sessions");
        }
        match superseding(&keys, now) {
            Some(key) => store.remove_keys_before(SESSION_KEYS, key.id).await,
            None => Ok(()),
        }
    }

    async fn run_with_limit(&self, operation: impl Future<Output = Result<()>>) {
        let result = with_timeout(TIMEOUT, operation).await;
        self.authenticator.store().record_write_failure(&result);
        if let Err(error) = result {
            tracing::warn!(
                error = error_chain(error),
                "failed to delete expired rows of the registry, or to replace a session key"
            );
        }
    }
}
