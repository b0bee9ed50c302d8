//! MCP sessions across restarts and gateways: what became of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use callgate::mcp::{Nonce, SessionChange, SessionEdit, SessionState};

use crate::auth::health::Read;
use crate::follow::replicas::Shared;
use crate::hex::{from_hex, to_hex};
use crate::rows::SessionRow;
use crate::store::Result;
use crate::store::Store;

/// More sessions than this are not kept; the oldest go first.
const MOST: i64 = 100_000;
/// So many of the last changes are read again when the registry was away.
const READ_AGAIN: i64 = 10_000;

/// Stores a change of a session. Returns its state then.
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
    Ok(state(&store.change_session(&to_hex(&session), ends_at, &change).await?))
}

/// Learns what became of sessions elsewhere.
#[derive(Debug, Default)]
pub(crate) struct SessionFollower {
    seen: i64,
    /// All changes up to here were read once.
    reached: i64,
    is_doubted: bool,
}

impl SessionFollower {
    /// The last changes are read again the next time: some may be gone, and others have their numbers.
    pub(crate) fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// Reads what is new, up to the change with this number at least.
    pub(crate) async fn follow(&mut self, shared: &Shared<'_>, newest: i64) -> Result<()> {
        if newest < self.seen {
            // An older state of the database was restored.
            (self.seen, self.reached) = (0, 0);
        }
        if std::mem::take(&mut self.is_doubted) {
            // However often it is cut off, it is not more that is read again.
            self.seen = self.seen.min(self.reached.saturating_sub(READ_AGAIN).max(0));
        }
        while self.seen < newest {
            shared.contact.count(Read::Sessions);
            let rows = shared.store.sessions_after(self.seen).await?;
            rows.iter().filter_map(change).for_each(|change| shared.mcp.apply_change(change));
            // Where the last ones are forgotten, there is nothing to read of them.
            self.seen = rows.last().map_or(newest, |last| last.number);
        }
        self.reached = self.seen;
        Ok(())
    }
}

/// Forgets what is over.
pub(crate) async fn tidy(store: &dyn Store, now: i64) -> Result<()> {
    store.forget_sessions(now, MOST).await
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
    // Most clients want to hear of none.
    let subscriptions = Some(&*state.subscriptions).filter(|some| !some.is_empty());
    row.subscriptions = subscriptions.and_then(|some| serde_json::to_string(some).ok());
}
