//! State that all servers with the same registry share: keys, sessions, and messages of clients about calls on other
//! servers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use callgate::mcp::Mcp;

use super::sessions::change;
use crate::auth::signing_keys::{SESSION_KEYS, in_order, signing_key};
use crate::auth::tracked_store::{Read, TrackedStore};
use crate::hex::from_hex;
use crate::rows::{ChangeCounters, KeyRow};
use crate::store::Result;

/// Number of session changes that are read again after the registry was unavailable.
const READ_AGAIN: i64 = 10_000;

/// Reads changes of the shared state that other servers made.
#[derive(Debug)]
pub(super) struct Replicas {
    store: Arc<TrackedStore>,
    mcp: Arc<Mcp>,
    keys: SeenKeys,
    sessions: SeenSessions,
    /// Number of the last message that was read.
    message: i64,
}

#[derive(Debug, Default)]
struct SeenKeys {
    change_counter: Option<i64>,
    keys: Vec<KeyRow>,
    signing: Option<i64>,
}

#[derive(Debug, Default)]
struct SeenSessions {
    seen: i64,
    /// Highest number up to which all changes were read.
    reached: i64,
    is_stale: bool,
}

impl Replicas {
    pub(super) fn new(store: &Arc<TrackedStore>, mcp: &Arc<Mcp>) -> Self {
        Self {
            store: Arc::clone(store),
            mcp: Arc::clone(mcp),
            keys: SeenKeys::default(),
            sessions: SeenSessions::default(),
            message: 0,
        }
    }

    /// Skips messages about calls before this server started. Must be called once, before serving.
    pub(super) fn begin(&mut self, now: &ChangeCounters) {
        self.message = now.messages;
    }

    /// Makes the next [`Replicas::follow`] read the keys and the last session changes again. After a failover, new
    /// changes may have the same numbers as changes that were read before.
    pub(super) fn invalidate(&mut self) {
        self.keys.change_counter = None;
        self.sessions.is_stale = true;
    }

    /// Reads changes. If the counters have not changed, runs no query.
    pub(super) async fn follow(&mut self, now: &ChangeCounters) -> Result<()> {
        self.follow_keys(now.keys, unix_time()).await?;
        self.follow_sessions(now.sessions).await?;
        self.follow_messages(now.messages).await
    }

    /// Reads the session keys if they have changed, and selects the key that signs.
    async fn follow_keys(&mut self, change_counter: i64, now: i64) -> Result<()> {
        let is_new = self.keys.change_counter != Some(change_counter);
        if is_new {
            self.store.count(Read::Keys);
            self.keys.keys = self.store.inner.keys(SESSION_KEYS).await?;
            self.keys.change_counter = Some(change_counter);
        }
        let signing = signing_key(&self.keys.keys, now).map(|key| key.id);
        if is_new || signing != self.keys.signing {
            self.mcp.sessions().set_keys(in_order(&self.keys.keys, now));
            self.keys.signing = signing;
        }
        Ok(())
    }

    /// Reads session changes up to at least this number.
    async fn follow_sessions(&mut self, newest: i64) -> Result<()> {
        let sessions = &mut self.sessions;
        if newest < sessions.seen {
            // The number is lower than before: a backup of the database was restored.
            (sessions.seen, sessions.reached) = (0, 0);
        }
        if std::mem::take(&mut sessions.is_stale) {
            // Based on `reached`, so that repeated failures do not go back further each time.
            sessions.seen = sessions.seen.min(sessions.reached.saturating_sub(READ_AGAIN).max(0));
        }
        while sessions.seen < newest {
            self.store.count(Read::Sessions);
            let rows = self.store.inner.sessions_after(sessions.seen).await?;
            rows.iter().filter_map(change).for_each(|change| self.mcp.apply_change(change));
            // Deleted rows are skipped.
            sessions.seen = rows.last().map_or(newest, |last| last.number);
        }
        sessions.reached = sessions.seen;
        Ok(())
    }

    /// Delivers messages up to at least this number. Messages that this server itself stored match none of its calls.
    /// No message is read twice, because a repeated cancellation could cancel a later call.
    async fn follow_messages(&mut self, newest: i64) -> Result<()> {
        // The number is lower if a backup of the database was restored.
        self.message = self.message.min(newest);
        while self.message < newest {
            self.store.count(Read::Messages);
            let rows = self.store.inner.messages_after(self.message).await?;
            for row in &rows {
                if let Some(session) = from_hex(&row.session) {
                    self.mcp.deliver(session, &row.message);
                }
            }
            // Deleted rows are skipped.
            self.message = rows.last().map_or(newest, |last| last.number);
        }
        Ok(())
    }
}

pub(super) fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
