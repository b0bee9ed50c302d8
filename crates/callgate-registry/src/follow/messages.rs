//! What clients send about calls that run on other gateways: left in the registry, and found there.

use crate::auth::health::Read;
use crate::follow::replicas::Shared;
use crate::hex::from_hex;
use crate::store::Result;
use crate::store::Store;

/// How many seconds a message stays. Who has not read it by then was away, and its calls wait for
/// another.
const KEPT: i64 = 60;

/// Finds what was left, by this gateway too: what that left concerns none of its own calls. Nothing is
/// read twice, also when the registry was away: a cancellation could meet another call.
#[derive(Debug, Default)]
pub(crate) struct MessageFollower {
    seen: i64,
}

impl MessageFollower {
    /// Begins behind the message with this number: older ones are about calls that are not here.
    pub(crate) fn begin(&mut self, newest: i64) {
        self.seen = newest;
    }

    /// Reads what is new, up to the message with this number at least.
    pub(crate) async fn follow(&mut self, shared: &Shared<'_>, newest: i64) -> Result<()> {
        if newest < self.seen {
            // An older state of the database was restored.
            self.begin(newest);
        }
        while self.seen < newest {
            shared.contact.count(Read::Messages);
            let rows = shared.store.messages_after(self.seen).await?;
            for row in &rows {
                if let Some(session) = from_hex(&row.session) {
                    shared.mcp.deliver(session, &row.message);
                }
            }
            // Where the last ones are forgotten, there is nothing to read of them.
            self.seen = rows.last().map_or(newest, |last| last.number);
        }
        Ok(())
    }
}

/// Forgets what everybody had the time to read.
pub(crate) async fn tidy(store: &dyn Store, now: i64) -> Result<()> {
    store.forget_messages(now - KEPT).await
}
