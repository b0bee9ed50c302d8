//! Shares the state of MCP sessions and the messages of clients between servers, and keeps the state across restarts.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use callgate::mcp::{Nonce, Relay, SessionChange, SessionEdit, SessionState, SessionStore};
use callgate::upstream::BoxFuture;
use thiserror::Error as ThisError;

use crate::auth::tracked_store::TrackedStore;
use crate::hex::{from_hex, to_hex};
use crate::rows::SessionRow;
use crate::store::Result;

/// Time limit of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes session changes and messages while the registry is available. Fails if the registry is unavailable.
/// [`Sessions`](callgate::mcp::Sessions) limits the number of concurrent writes.
#[derive(Debug)]
pub(super) struct SessionWriter {
    pub(super) store: Arc<TrackedStore>,
}

#[derive(Debug, ThisError)]
#[error("the registry is unavailable")]
struct Unavailable;

type Stored<T> = Result<T, Box<dyn Error + Send + Sync>>;

impl SessionWriter {
    async fn write<T>(&self, write: impl Future<Output = Result<T>>) -> Stored<T> {
        // Before the first poll, it is unknown whether the registry is available.
        if self.store.age().is_some() && self.store.is_unavailable() {
            return Err(Unavailable.into());
        }
        Ok(self.store.write(WRITE_TIMEOUT, write).await?)
    }
}

impl SessionStore for SessionWriter {
    fn update(
        &self,
        session: Nonce,
        edit: SessionEdit,
        ends_at: u64,
    ) -> BoxFuture<'_, Stored<SessionState>> {
        let ends_at = i64::try_from(ends_at).unwrap_or(i64::MAX);
        let change = move |row: &mut SessionRow| {
            let mut state = state(row);
            edit.apply(&mut state);
            write(&state, row);
        };
        Box::pin(self.write(async move {
            Ok(state(&self.store.inner.update_session(&to_hex(&session), ends_at, &change).await?))
        }))
    }
}

impl Relay for SessionWriter {
    fn post(&self, session: Nonce, message: String) -> BoxFuture<'_, Stored<()>> {
        let session = to_hex(&session);
        Box::pin(self.write(async move { self.store.inner.post_message(&session, &message).await }))
    }
}

/// Returns the change that a row stores.
pub(super) fn session_change(row: &SessionRow) -> Option<SessionChange> {
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
    let subscriptions =
        Some(&*state.subscriptions).filter(|subscriptions| !subscriptions.is_empty());
    row.subscriptions =
        subscriptions.and_then(|subscriptions| serde_json::to_string(subscriptions).ok());
}
