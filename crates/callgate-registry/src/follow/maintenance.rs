//! Maintenance of the registry, once a minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::log::error_chain;
use super::registry::flush_uses;
use super::{messages, sessions, signing_keys};
use crate::auth::authenticator::TokenAuthenticator;
use crate::db::pool::with_timeout;
use crate::follow::replicas::unix_time;
use crate::store::Result;
use crate::store::Store;

const INTERVAL: Duration = Duration::from_mins(1);
/// Time limit of each operation.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Records uses of tokens, deletes expired rows, and replaces old keys.
#[derive(Debug)]
pub(super) struct Maintenance {
    pub(super) store: Arc<dyn Store>,
    pub(super) authenticator: Arc<TokenAuthenticator>,
    pub(super) max_key_age: Option<Duration>,
}

impl Maintenance {
    pub(super) async fn run(self) {
        loop {
            sleep(INTERVAL).await;
            if !self.authenticator.tracker().is_unavailable() {
                flush_uses(&*self.store, &self.authenticator).await;
                self.delete_expired().await;
            }
        }
    }

    async fn delete_expired(&self) {
        let (store, now) = (&*self.store, unix_time());
        self.limited(sessions::delete_expired(store, now)).await;
        self.limited(messages::delete_expired(store)).await;
        self.limited(store.delete_leases()).await;
        self.limited(signing_keys::delete_expired(store, self.max_key_age, now)).await;
    }

    async fn limited(&self, chore: impl Future<Output = Result<()>>) {
        let done = with_timeout(TIMEOUT, chore).await;
        self.authenticator.tracker().note_write_failure(&done);
        if let Err(error) = done {
            tracing::warn!(error = error_chain(error), "failed to delete expired rows");
        }
    }
}
