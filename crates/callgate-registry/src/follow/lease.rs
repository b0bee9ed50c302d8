//! The lease of a running server: servers with a lease divide the rate limits.

use std::sync::Arc;
use std::time::Duration;

use callgate::gateway::Gateway;
use tokio::time::sleep;

use super::log::error_chain;
use crate::db::pool::with_timeout;
use crate::hex::to_hex;
use crate::store::Result;
use crate::store::Store;

/// Interval of renewals.
const RENEW: Duration = Duration::from_secs(10);
/// Number of seconds that a lease lasts.
const LASTS: i64 = 30;
/// Time limit of a renewal.
const LIMIT: Duration = Duration::from_secs(5);

/// Renews the row of this server. While the registry is unavailable, the last known number of servers stays
/// in use.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    store: Arc<dyn Store>,
    gateway: Arc<Gateway>,
    server: String,
}

impl Lease {
    /// Takes a lease. If that fails, it is tried again with the next renewal.
    pub(super) async fn take(store: &Arc<dyn Store>, gateway: &Arc<Gateway>) -> Self {
        let mut id = [0_u8; 16];
        if getrandom::fill(&mut id).is_err() {
            id = u128::from(std::process::id()).to_be_bytes();
        }
        let (store, gateway) = (Arc::clone(store), Arc::clone(gateway));
        let lease = Self { store, gateway, server: to_hex(&id) };
        lease.log(lease.renew(LASTS).await);
        lease
    }

    pub(super) async fn run(self) {
        let mut has_failed = false;
        loop {
            sleep(RENEW).await;
            let renewed = self.renew(LASTS).await;
            // The follower logs that the registry is unavailable.
            let is_failure = renewed.is_err();
            if !has_failed {
                self.log(renewed);
            }
            has_failed = is_failure;
        }
    }

    /// Ends the lease, so that the other servers have its share with their next renewal.
    pub(super) async fn end(&self) {
        self.log(self.renew(0).await);
    }

    async fn renew(&self, seconds: i64) -> Result<()> {
        let servers = with_timeout(LIMIT, self.store.renew_lease(&self.server, seconds)).await?;
        self.gateway.share_rate_limits(servers);
        Ok(())
    }

    fn log(&self, renewed: Result<()>) {
        if let Err(error) = renewed {
            let error = error_chain(error);
            tracing::warn!(error, server = self.server, "failed to renew the lease of this server");
        }
    }
}
