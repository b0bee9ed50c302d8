//! Keeps the keys of a server up to date, and replaces them in the registry.

use std::time::Duration;

use super::replicas::ReplicaContext;
use crate::auth::health::Read;
use crate::auth::signing_keys::{SESSION_KEYS, in_order, seconds, signing_key, superseding};
use crate::rows::KeyRow;
use crate::store::Result;
use crate::store::{NewKey, Store};

/// Follows the session keys.
#[derive(Debug, Default)]
pub(crate) struct KeyFollower {
    seen: Option<i64>,
    keys: Vec<KeyRow>,
    signing: Option<i64>,
}

impl KeyFollower {
    /// Reads the keys again next time, whatever the counter.
    pub(crate) fn invalidate(&mut self) {
        self.seen = None;
    }

    /// Reads the keys if they changed, and selects the one that signs.
    pub(crate) async fn follow(
        &mut self,
        shared: &ReplicaContext<'_>,
        change_counter: i64,
        now: i64,
    ) -> Result<()> {
        let is_new = self.seen != Some(change_counter);
        if is_new {
            shared.tracker.count(Read::Keys);
            self.keys = shared.store.keys(SESSION_KEYS).await?;
            self.seen = Some(change_counter);
        }
        let signing = signing_key(&self.keys, now).map(|key| key.id);
        if is_new || signing != self.signing {
            shared.mcp.sessions().set_keys(in_order(&self.keys, now));
            self.signing = signing;
        }
        Ok(())
    }
}

/// Adds a new key if the newest one is too old, and deletes keys that nothing needs.
pub(crate) async fn delete_expired(
    store: &dyn Store,
    max_age: Option<Duration>,
    now: i64,
) -> Result<()> {
    let keys = store.keys(SESSION_KEYS).await?;
    let newest = keys.iter().map(|key| key.created_at).max();
    if let Some(max_age) = max_age
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
