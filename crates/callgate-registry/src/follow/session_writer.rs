//! Stores session changes and messages in the registry, or fails.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use callgate::mcp::{Nonce, Relay, SessionEdit, SessionState, SessionStore};
use callgate::upstream::BoxFuture;
use thiserror::Error as ThisError;

use crate::auth::health::HealthTracker;
use crate::db::pool::with_timeout;
use crate::follow::sessions;
use crate::hex::to_hex;
use crate::store::Result;
use crate::store::Store;

/// Time limit of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes session changes or messages while the registry is available. The number of concurrent writes is limited by
/// [`Sessions`](callgate::mcp::Sessions).
#[derive(Debug)]
pub(crate) struct SessionWriter {
    store: Arc<dyn Store>,
    tracker: Arc<HealthTracker>,
}

#[derive(Debug, ThisError)]
#[error("the registry is unavailable")]
struct Unavailable;

type Stored<T> = Result<T, Box<dyn Error + Send + Sync>>;

impl SessionWriter {
    pub(crate) fn new(store: &Arc<dyn Store>, tracker: &Arc<HealthTracker>) -> Self {
        let (store, tracker) = (Arc::clone(store), Arc::clone(tracker));
        Self { store, tracker }
    }

    async fn write<T>(&self, write: impl Future<Output = Result<T>>) -> Stored<T> {
        // Before the first poll there is no failure.
        if self.tracker.age().is_some() && self.tracker.is_unavailable() {
            return Err(Unavailable.into());
        }
        let stored = with_timeout(WRITE_TIMEOUT, write).await;
        self.tracker.note_write(&stored);
        Ok(stored?)
    }
}

impl SessionStore for SessionWriter {
    fn update(
        &self,
        session: Nonce,
        edit: SessionEdit,
        ends_at: u64,
    ) -> BoxFuture<'_, Stored<SessionState>> {
        Box::pin(self.write(sessions::store(&*self.store, session, edit, ends_at)))
    }
}

impl Relay for SessionWriter {
    fn post(&self, session: Nonce, message: String) -> BoxFuture<'_, Stored<()>> {
        let session = to_hex(&session);
        Box::pin(self.write(async move { self.store.post_message(&session, &message).await }))
    }
}
