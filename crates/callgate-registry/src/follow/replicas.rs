//! What the gateways of one registry tell each other through it: what became of sessions, what clients
//! sent about each other's calls, and the keys that they sign with.

use std::time::{SystemTime, UNIX_EPOCH};

use callgate::mcp::Mcp;

use crate::auth::health::Contact;
use crate::follow::keys::KeyFollower;
use crate::follow::messages::MessageFollower;
use crate::follow::sessions::SessionFollower;
use crate::rows::Revisions;
use crate::store::Result;
use crate::store::Store;

/// Where it is told, and whom.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) mcp: &'a Mcp,
    pub(crate) contact: &'a Contact,
}

/// The other gateways, as far as this one has heard of them.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    sessions: SessionFollower,
    messages: MessageFollower,
    keys: KeyFollower,
}

impl Replicas {
    /// Called once, before anything is served: messages of before are about calls that are not here.
    pub(crate) fn begin(&mut self, now: &Revisions) {
        self.messages.begin(now.messages);
    }

    /// What comes back may be another state, under the same numbers.
    pub(crate) fn doubt(&mut self) {
        self.keys.doubt();
        self.sessions.doubt();
    }

    /// Reads what is new. Where nothing is, that costs no query.
    pub(crate) async fn follow(&mut self, shared: &Shared<'_>, now: &Revisions) -> Result<()> {
        self.keys.follow(shared, now.keys, unix_time()).await?;
        self.sessions.follow(shared, now.sessions).await?;
        self.messages.follow(shared, now.messages).await
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
