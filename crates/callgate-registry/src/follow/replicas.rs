//! State that all servers with the same registry share: keys, sessions, and messages of clients about calls on other
//! servers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use callgate::mcp::Mcp;

use super::sessions::session_change;
use crate::auth::signing_keys::{SESSION_KEYS, signing_key, signing_key_first};
use crate::auth::tracked_store::{ReadKind, TrackedStore};
use crate::hex::from_hex;
use crate::rows::{ChangeCounters, KeyRow};
use crate::store::Result;

/// Number of session changes that are read again after the registry was unavailable.
const REREAD_CHANGES: i64 = 10_000;

/// Reads changes of the shared state that other servers made.
#[derive(Debug)]
pub(super) struct Replicas {
    store: Arc<TrackedStore>,
    mcp: Arc<Mcp>,
    keys: KeyState,
    sessions: SessionProgress,
    /// Number of the last message that was read.
    last_message: i64,
}

#[derive(Debug, Default)]
struct KeyState {
    change_counter: Option<i64>,
    keys: Vec<KeyRow>,
    signing: Option<i64>,
}

#[derive(Debug, Default)]
struct SessionProgress {
    last_read: i64,
    /// Highest number up to which all changes were read.
    last_complete: i64,
    is_stale: bool,
}

impl Replicas {
    pub(super) fn new(store: &Arc<TrackedStore>, mcp: &Arc<Mcp>) -> Self {
        Self {
            store: Arc::clone(store),
            mcp: Arc::clone(mcp),
            keys: KeyState::default(),
            sessions: SessionProgress::default(),
            last_message: 0,
        }
    }

    /// Skips all messages that are already stored, because none of them is about a call on this server. Must be
    /// called once, before serving.
    pub(super) fn begin(&mut self, counters: &ChangeCounters) {
        self.last_message = counters.messages;
    }

    /// Makes the next [`Replicas::follow`] read the keys and the last session changes again. After a failover, new
    /// changes may have the same numbers as changes that were read before.
    pub(super) fn invalidate(&mut self) {
        self.keys.change_counter = None;
        self.sessions.is_stale = true;
    }

    /// Reads changes. If the counters have not changed, runs no query.
    pub(super) async fn follow(&mut self, counters: &ChangeCounters) -> Result<()> {
        self.follow_keys(counters.keys, unix_time()).await?;
        self.follow_sessions(counters.sessions).await?;
        self.follow_messages(counters.messages).await
    }

    /// Reads the session keys if they have changed, and selects the key that signs.
    async fn follow_keys(&mut self, change_counter: i64, now: i64) -> Result<()> {
        let is_new = self.keys.change_counter != Some(change_counter);
        if is_new {
            self.store.count_read(ReadKind::Keys);
            self.keys.keys = self.store.inner.keys(SESSION_KEYS).await?;
            self.keys.change_counter = Some(change_counter);
        }
        let signing = signing_key(&self.keys.keys, now).map(|key| key.id);
        if is_new || signing != self.keys.signing {
            self.mcp.sessions().set_keys(signing_key_first(&self.keys.keys, now));
            self.keys.signing = signing;
        }
        Ok(())
    }

    /// Reads session changes up to at least this number.
    async fn follow_sessions(&mut self, newest: i64) -> Result<()> {
        let sessions = &mut self.sessions;
        if newest < sessions.last_read {
            // The number is lower than before: a backup of the database was restored.
            (sessions.last_read, sessions.last_complete) = (0, 0);
        }
        if std::mem::take(&mut sessions.is_stale) {
            // Based on `last_complete`, so that repeated failures do not go back further each time.
            sessions.last_read = sessions
                .last_read
                .min(sessions.last_complete.saturating_sub(REREAD_CHANGES).max(0));
        }
        while sessions.last_read < newest {
            self.store.count_read(ReadKind::Sessions);
            let rows = self.store.inner.sessions_after(sessions.last_read).await?;
            rows.iter().filter_map(session_change).for_each(|change| self.mcp.apply_change(change));
            // Deleted rows are skipped.
            sessions.last_read = rows.last().map_or(newest, |last| last.number);
        }
        sessions.last_complete = sessions.last_read;
        Ok(())
    }

    /// Delivers messages up to at least this number. Messages that this server itself stored match none of its calls.
    /// No message is read twice, because a repeated cancellation could cancel a later call.
    async fn follow_messages(&mut self, newest: i64) -> Result<()> {
        // The number is lower if a backup of the database was restored.
        self.last_message = self.last_message.min(newest);
        while self.last_message < newest {
            self.store.count_read(ReadKind::Messages);
            let rows = self.store.inner.messages_after(self.last_message).await?;
            for row in &rows {
                if let Some(session) = from_hex(&row.session) {
                    self.mcp.deliver(session, &row.message);
                }
            }
            // Deleted rows are skipped.
            self.last_message = rows.last().map_or(newest, |last| last.number);
        }
        Ok(())
    }
}

pub(super) fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
