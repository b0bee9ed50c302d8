//! Shares the state of MCP sessions between servers and restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

use callgate::mcp::{Nonce, SessionChange, SessionEdit, SessionState};

use crate::auth::health::Read;
use crate::follow::replicas::ReplicaContext;
use crate::hex::{from_hex, to_hex};
use crate::rows::SessionRow;
use crate::store::Result;
use crate::store::Store;

/// Maximum number of stored sessions. The oldest are deleted.
const MOST: i64 = 100_000;
/// Number of changes that are read again after an outage.
const READ_AGAIN: i64 = 10_000;

/// Stores a session change. Returns the resulting state.
pub(crate) async fn store(
    store: &dyn Store,
    session: Nonce,
    edit: SessionEdit,
    ends_at: u64,
) -> Result<SessionState> {
    let ends_at = i64::try_from(ends_at).unwrap_or(i64::MAX);
    let change = move |row: &mut SessionRow| {
        let mut state = state(row);
        edit.apply(&mut state);
        write(&state, row);
    };
    Ok(state(&store.update_session(&to_hex(&session), ends_at, &change).await?))
}

/// Follows changes of sessions by other servers.
#[derive(Debug, Default)]
pub(crate) struct SessionFollower {
    seen: i64,
    /// Highest number up to which all changes were read.
    reached: i64,
    is_stale: bool,
}

impl SessionFollower {
    /// Reads the last changes again next time, since numbers may be reused after a failover.
    pub(crate) fn invalidate(&mut self) {
        self.is_stale = true;
    }

    /// Reads changes at least up to this number.
    pub(crate) async fn follow(&mut self, shared: &ReplicaContext<'_>, newest: i64) -> Result<()> {
        if newest < self.seen {
            // A backup of the database was restored.
            (self.seen, self.reached) = (0, 0);
        }
        if std::mem::take(&mut self.is_stale) {
            // Repeated outages do not go further back.
            self.seen = self.seen.min(self.reached.saturating_sub(READ_AGAIN).max(0));
        }
        while self.seen < newest {
            shared.tracker.count(Read::Sessions);
            let rows = shared.store.sessions_after(self.seen).await?;
            rows.iter().filter_map(change).for_each(|change| shared.mcp.apply_change(change));
            // Deleted rows are skipped.
            self.seen = rows.last().map_or(newest, |last| last.number);
        }
        self.reached = self.seen;
        Ok(())
    }
}

/// Deletes expired sessions.
pub(crate) async fn delete_expired(store: &dyn Store, now: i64) -> Result<()> {
    store.delete_sessions(now, MOST).await
}

fn change(row: &SessionRow) -> Option<SessionChange> {
    let nonce: Nonce = from_hex(&row.nonce)?;
    Some(SessionChange {
        nonce,
        state: state(row),
        ends_at: u64::try_from(row.ends_at).unwrap_or(0),
    })
}

fn state(row: &SessionRow) -> SessionState {
    let log_level = row.log_level.as_deref().and_then(|level| level.parse().ok());
    let subscriptions = row.subscriptions.as_deref().map(serde_json::from_str::<BTreeSet<String>>);
    let subscriptions =
        Arc::new(subscriptions.and_then(std::result::Result::ok).unwrap_or_default());
    SessionState { ended: row.ended, log_level, subscriptions }
}

fn write(state: &SessionState, row: &mut SessionRow) {
    row.ended = state.ended;
    row.log_level = state.log_level.map(|level| level.to_string());
    // Most clients have no subscriptions.
    let subscriptions = Some(&*state.subscriptions).filter(|some| !some.is_empty());
    row.subscriptions = subscriptions.and_then(|some| serde_json::to_string(some).ok());
}
