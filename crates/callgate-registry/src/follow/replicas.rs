//! State that the servers of a registry share: keys, sessions and messages.

use std::time::{SystemTime, UNIX_EPOCH};

use callgate::mcp::Mcp;

use crate::auth::health::HealthTracker;
use crate::follow::messages::MessageFollower;
use crate::follow::sessions::SessionFollower;
use crate::follow::signing_keys::KeyFollower;
use crate::rows::ChangeCounters;
use crate::store::Result;
use crate::store::Store;

/// Context of reading shared state.
#[derive(Debug)]
pub(crate) struct ReplicaContext<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) mcp: &'a Mcp,
    pub(crate) tracker: &'a HealthTracker,
}

/// Followers of shared state.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    sessions: SessionFollower,
    messages: MessageFollower,
    keys: KeyFollower,
}

impl Replicas {
    /// Must be called once before serving. Skips earlier messages.
    pub(crate) fn begin(&mut self, now: &ChangeCounters) {
        self.messages.begin(now.messages);
    }

    /// Marks keys and sessions as stale after an outage.
    pub(crate) fn invalidate(&mut self) {
        self.keys.invalidate();
        self.sessions.invalidate();
    }

    /// Reads changes. If there are none, runs no query.
    pub(crate) async fn follow(
        &mut self,
        shared: &ReplicaContext<'_>,
        now: &ChangeCounters,
    ) -> Result<()> {
        self.keys.follow(shared, now.keys, unix_time()).await?;
        self.sessions.follow(shared, now.sessions).await?;
        self.messages.follow(shared, now.messages).await
    }
}

/// Returns the Unix time.
pub(crate) fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
