//! Keys that sign session ids and request states. All servers with the same registry share them.
//!
//! A new key is stored some seconds before it signs, so that every server has read it by then. An old key is kept as
//! long as anything that it signed can still be valid.

use std::time::Duration;

use callgate::mcp::{SessionKey, Sessions};

use crate::hex::{from_hex, to_hex};
use crate::rows::KeyRow;
use crate::store::Result;
use crate::store::{NewKey, Store};

/// Purpose of the session keys.
pub const SESSION_KEYS: &str = "session";
/// Number of seconds between storing a key and signing with it.
const ACTIVATION_DELAY: i64 = 10;
/// Maximum difference between the clocks of servers, in seconds.
const SLACK: i64 = 60 * 60;

impl NewKey {
    /// Creates the first session key. It is stored only if there is no key yet.
    pub fn first() -> Result<Self, getrandom::Error> {
        Self::for_sessions(0, None)
    }

    /// Creates a session key that begins to sign some seconds later. The key is stored only if the newest key is at
    /// least `min_age` old.
    pub fn announced(min_age: Duration) -> Result<Self, getrandom::Error> {
        Self::for_sessions(ACTIVATION_DELAY, Some(seconds(min_age)))
    }

    /// Creates a session key that signs immediately. The age of the newest key does not matter.
    pub fn immediate() -> Result<Self, getrandom::Error> {
        Self::for_sessions(0, Some(i64::MIN))
    }

    fn for_sessions(active_in: i64, min_age: Option<i64>) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let secret = to_hex(&secret);
        Ok(Self { purpose: SESSION_KEYS.to_owned(), secret, active_in, min_age })
    }
}

/// Returns the session keys, the signing key first. Creates a key if there is none.
pub(crate) async fn session_keys(store: &dyn Store, now: i64) -> Result<Vec<SessionKey>> {
    let mut keys = store.keys(SESSION_KEYS).await?;
    if keys.is_empty() {
        if let Ok(key) = NewKey::first() {
            // Another server may have stored a key first, so the keys are read again.
            store.add_key(&key).await?;
        }
        keys = store.keys(SESSION_KEYS).await?;
    }
    Ok(signing_key_first(&keys, now))
}

/// Returns the key that signs at this Unix time: the newest active key, or the oldest key if none is active.
pub fn signing_key(keys: &[KeyRow], now: i64) -> Option<&KeyRow> {
    let by_age = |key: &&KeyRow| key.id;
    let active = keys.iter().filter(|key| key.active_from <= now).max_by_key(by_age);
    active.or_else(|| keys.iter().min_by_key(by_age))
}

pub(crate) fn signing_key_first(keys: &[KeyRow], now: i64) -> Vec<SessionKey> {
    let signing = signing_key(keys, now);
    let others = keys.iter().filter(|key| signing.is_none_or(|signing| signing.id != key.id));
    let keys = signing.into_iter().chain(others);
    keys.filter_map(|key| from_hex(&key.secret)).map(|secret| SessionKey::new(&secret)).collect()
}

/// Returns the newest key whose predecessors can be deleted, because everything that they signed has expired.
pub(crate) fn superseding(keys: &[KeyRow], now: i64) -> Option<&KeyRow> {
    let active_since = |key: &KeyRow| key.active_from.max(key.created_at);
    let lifetime = seconds(Sessions::LIFETIME) + SLACK;
    let newest =
        keys.iter().filter(|key| active_since(key) + lifetime <= now).max_by_key(|key| key.id)?;
    keys.iter().any(|key| key.id < newest.id).then_some(newest)
}

pub(crate) fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60;

    fn key(id: i64, created_at: i64, active_from: i64) -> KeyRow {
        KeyRow { id, secret: to_hex(&[7; 32]), created_at, active_from }
    }

    #[test]
    fn a_key_signs_from_its_activation_time() {
        let keys = [key(3, 100, 110), key(2, 50, 60), key(1, 0, 0)];
        let signing = |now| signing_key(&keys, now).map(|key| key.id);
        assert_eq!(
            [signing(59), signing(60), signing(109), signing(110)].map(Option::unwrap),
            [1, 2, 2, 3]
        );
        assert_eq!(signing_key(&keys[..2], 0).map(|key| key.id), Some(2), "a slow clock");
        assert!(signing_key(&[], 0).is_none());
    }

    #[test]
    fn old_keys_are_superseded_when_everything_that_they_signed_has_expired() {
        let keys = [key(3, 40 * DAY, 40 * DAY + 10), key(2, 10 * DAY, 10 * DAY + 10), key(1, 0, 0)];
        let superseding_id = |now| superseding(&keys, now).map(|key| key.id);
        assert_eq!(superseding_id(40 * DAY), None);
        assert_eq!(superseding_id(40 * DAY + 10), None, "clocks may differ");
        assert_eq!(superseding_id(40 * DAY + 10 + SLACK), Some(2));
        assert_eq!(superseding_id(70 * DAY + 10 + SLACK), Some(3));
        assert_eq!(superseding(&keys[2..], 100 * DAY).map(|key| key.id), None, "the only key");
    }
}
