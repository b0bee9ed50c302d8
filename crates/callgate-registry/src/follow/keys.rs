//! Keeps the keys of a gateway up to date, and replaces them in the registry.

use std::time::Duration;

use super::replicas::Shared;
use crate::auth::health::Read;
use crate::auth::keys::{SESSION_KEYS, in_order, seconds, signing_key, superseding};
use crate::rows::KeyRow;
use crate::store::Result;
use crate::store::{NewKey, Store};

/// Keeps the keys of a gateway in step.
#[derive(Debug, Default)]
pub(crate) struct KeyFollower {
    seen: Option<i64>,
    keys: Vec<KeyRow>,
    signing: Option<i64>,
}

impl KeyFollower {
    /// They are read the next time, whatever their counter says.
    pub(crate) fn doubt(&mut self) {
        self.seen = None;
    }

    /// Reads the keys if they are others, and has the one sign whose time has come.
    pub(crate) async fn follow(
        &mut self,
        shared: &Shared<'_>,
        revision: i64,
        now: i64,
    ) -> Result<()> {
        let is_new = self.seen != Some(revision);
        if is_new {
            shared.contact.count(Read::Keys);
            self.keys = shared.store.keys(SESSION_KEYS).await?;
            self.seen = Some(revision);
        }
        let signing = signing_key(&self.keys, now).map(|key| key.id);
        if is_new || signing != self.signing {
            shared.mcp.sessions().set_keys(in_order(&self.keys, now));
            self.signing = signing;
        }
        Ok(())
    }
}

/// Announces a new key if the newest is older than it may become, and removes those that nothing needs
/// any more.
pub(crate) async fn tidy(store: &dyn Store, max_age: Option<Duration>, now: i64) -> Result<()> {
    let keys = store.keys(SESSION_KEYS).await?;
    let newest = keys.iter().map(|key| key.created_at).max();
    if let Some(max_age) = max_age
        && newest.is_none_or(|newest| newest.saturating_add(seconds(max_age)) <= now)
        && let Ok(key) = NewKey::announced(max_age)
        && store.add_key(&key).await?
    {
        tracing::info!("a new key for sessions is announced");
    }
    match superseding(&keys, now) {
        Some(key) => store.remove_keys_before(SESSION_KEYS, key.id).await,
        None => Ok(()),
    }
}
