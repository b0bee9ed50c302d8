//! What is done once a minute beside the loop: a slow database holds up no look.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::log::described;
use super::registry::flush_uses;
use super::{keys, messages, sessions};
use crate::auth::authenticator::TokenAuthenticator;
use crate::db::pool::within;
use crate::follow::replicas::unix_time;
use crate::store::Result;
use crate::store::Store;

const EVERY: Duration = Duration::from_mins(1);
/// How long each of them may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Writes when tokens were last used, forgets what nobody needs, and sees to the age of keys.
#[derive(Debug)]
pub(super) struct Chores {
    pub(super) store: Arc<dyn Store>,
    pub(super) authenticator: Arc<TokenAuthenticator>,
    pub(super) max_key_age: Option<Duration>,
}

impl Chores {
    /// Until the task is dropped.
    pub(super) async fn run(self) {
        loop {
            sleep(EVERY).await;
            if !self.authenticator.contact().is_away() {
                flush_uses(&*self.store, &self.authenticator).await;
                self.tidy().await;
            }
        }
    }

    async fn tidy(&self) {
        let (store, now) = (&*self.store, unix_time());
        limited(sessions::tidy(store, now)).await;
        limited(messages::tidy(store, now)).await;
        limited(keys::tidy(store, self.max_key_age, now)).await;
    }
}

async fn limited(chore: impl Future<Output = Result<()>>) {
    if let Err(error) = within(LIMIT, chore).await {
        tracing::warn!(error = described(error), "cannot tidy up in the registry");
    }
}
