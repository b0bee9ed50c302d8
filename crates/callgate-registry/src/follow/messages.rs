//! Relays messages of clients about calls on other servers through the registry.

use crate::auth::health::Read;
use crate::follow::replicas::ReplicaContext;
use crate::hex::from_hex;
use crate::store::Result;
use crate::store::Store;

/// Number of seconds that messages are kept.
const KEPT: i64 = 60;

/// Delivers messages. Messages that this server stored match none of its calls. No message is read twice,
/// since a cancellation could cancel a later call.
#[derive(Debug, Default)]
pub(crate) struct MessageFollower {
    seen: i64,
}

impl MessageFollower {
    /// Skips messages up to this number, which are about earlier calls.
    pub(crate) fn begin(&mut self, newest: i64) {
        self.seen = newest;
    }

    /// Reads messages at least up to this number.
    pub(crate) async fn follow(&mut self, shared: &ReplicaContext<'_>, newest: i64) -> Result<()> {
        if newest < self.seen {
            // A backup of the database was restored.
            self.begin(newest);
        }
        while self.seen < newest {
            shared.tracker.count(Read::Messages);
            let rows = shared.store.messages_after(self.seen).await?;
            for row in &rows {
                if let Some(session) = from_hex(&row.session) {
                    shared.mcp.deliver(session, &row.message);
                }
            }
            // Deleted rows are skipped.
            self.seen = rows.last().map_or(newest, |last| last.number);
        }
        Ok(())
    }
}

/// Deletes messages that all servers had time to read.
pub(crate) async fn delete_expired(store: &dyn Store) -> Result<()> {
    store.delete_messages(KEPT).await
}
