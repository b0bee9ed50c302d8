//! MCP sessions across restarts and servers: the key that their ids are signed with, and what became
//! of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use callgate::BoxFuture;
use callgate::mcp::{KeepSessions, Nonce, SessionChange, SessionKey, SessionState, Sessions};

use crate::hex::{from_hex, to_hex};
use crate::rows::SessionRow;
use crate::store::{Result, Store};

/// The purpose of the keys.
const PURPOSE: &str = "session";
/// More sessions than this are not kept; the oldest go first.
const MOST: i64 = 100_000;

/// The registry's keys for sessions, newest first; the first one is made if there is none.
pub async fn session_keys(store: &dyn Store) -> Result<Vec<SessionKey>> {
    let mut keys = store.keys(PURPOSE).await?;
    if keys.is_empty() {
        let mut secret = [0; 32];
        if getrandom::fill(&mut secret).is_ok() {
            // Another server may be faster, so look again.
            store.add_first_key(PURPOSE, &to_hex(&secret)).await?;
        }
        keys = store.keys(PURPOSE).await?;
    }
    Ok(keys
        .iter()
        .filter_map(|key| from_hex(&key.secret))
        .map(|secret| SessionKey::new(&secret))
        .collect())
}

/// Keeps what sessions become in the registry.
#[derive(Debug)]
pub struct StoredSessions(pub Arc<dyn Store>);

impl KeepSessions for StoredSessions {
    fn keep(
        &self,
        change: SessionChange,
    ) -> BoxFuture<'_, std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        let row = SessionRow {
            nonce: to_hex(&change.nonce),
            number: 0,
            ended: change.state.ended,
            log_level: change.state.log_level.map(|level| level.to_string()),
            subscriptions: written(&change.state.subscriptions),
            ends_at: i64::try_from(change.ends_at).unwrap_or(i64::MAX),
        };
        Box::pin(async move { Ok(self.0.keep_session(&row).await?) })
    }
}

/// Learns what became of sessions elsewhere.
#[derive(Debug, Default)]
pub struct SessionFollower {
    seen: i64,
}

impl SessionFollower {
    /// Reads what is new; `newest` is the number of the last change. Where that is lower than what was
    /// seen, an older state was restored, and all of it is read.
    pub async fn follow(
        &mut self,
        store: &dyn Store,
        sessions: &Sessions,
        newest: i64,
    ) -> Result<()> {
        if newest < self.seen {
            self.seen = 0;
        }
        loop {
            let rows = store.sessions_after(self.seen).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            self.seen = last.number;
            rows.iter().filter_map(change).for_each(|change| sessions.learn(change));
        }
    }

    /// Forgets what is over.
    pub async fn tidy(&self, store: &dyn Store) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        store.forget_sessions(i64::try_from(now).unwrap_or(i64::MAX), MOST).await
    }
}

fn change(row: &SessionRow) -> Option<SessionChange> {
    let nonce: Nonce = from_hex(&row.nonce)?;
    let log_level = row.log_level.as_deref().and_then(|level| level.parse().ok());
    let subscriptions = row.subscriptions.as_deref().map(serde_json::from_str::<BTreeSet<String>>);
    let subscriptions =
        Arc::new(subscriptions.and_then(std::result::Result::ok).unwrap_or_default());
    let state = SessionState { ended: row.ended, log_level, subscriptions };
    Some(SessionChange { nonce, state, ends_at: u64::try_from(row.ends_at).unwrap_or(0) })
}

/// Most clients want to hear of none.
fn written(subscriptions: &BTreeSet<String>) -> Option<String> {
    if subscriptions.is_empty() {
        return None;
    }
    serde_json::to_string(subscriptions).ok()
}
