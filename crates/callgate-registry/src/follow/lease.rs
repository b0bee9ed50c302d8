//! The lease of a running server. Servers with a lease divide the rate limits among them.

use std::sync::Arc;
use std::time::Duration;

use callgate::gateway::Gateway;
use tokio::time::sleep;

use crate::auth::tracked_store::TrackedStore;
use crate::hex::to_hex;

/// Interval between renewals.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between renewals while writes fail.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Number of seconds that a lease lasts.
const LEASE_SECONDS: i64 = 30;
/// Time limit of a renewal.
const RENEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Renews the row of this server. While the registry is unavailable, the last known number of servers is used. After a
/// failed write, the next renewal shows whether writes succeed again.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    store: Arc<TrackedStore>,
    gateway: Arc<Gateway>,
    server: String,
    /// Whether the server is one of those that divide the rate limits.
    shares_rate_limits: bool,
}

impl Lease {
    /// Takes a lease. If this fails, the next renewal tries again.
    pub(super) async fn acquire(
        store: &Arc<TrackedStore>,
        gateway: &Arc<Gateway>,
        shares_rate_limits: bool,
    ) -> Self {
        let mut id = [0_u8; 16];
        if getrandom::fill(&mut id).is_err() {
            id = u128::from(std::process::id()).to_be_bytes();
        }
        let (store, gateway) = (Arc::clone(store), Arc::clone(gateway));
        let lease = Self { store, gateway, server: to_hex(&id), shares_rate_limits };
        if shares_rate_limits {
            lease.renew(LEASE_SECONDS).await;
        }
        lease
    }

    pub(super) async fn run(self) {
        loop {
            let has_failed = self.store.write_failure().is_some();
            sleep(if has_failed { RETRY_INTERVAL } else { RENEW_INTERVAL }).await;
            if self.shares_rate_limits {
                self.renew(LEASE_SECONDS).await;
            } else if has_failed {
                self.renew(0).await;
            }
        }
    }

    /// Ends the lease. The other servers take over the server's share of the rate limits with their next renewal.
    pub(super) async fn end(&self) {
        if self.shares_rate_limits {
            self.renew(0).await;
        }
    }

    async fn renew(&self, seconds: i64) {
        let renewal = self.store.inner.renew_lease(&self.server, seconds);
        let renewed = self.store.write(RENEW_TIMEOUT, renewal).await;
        if let (true, Ok(servers)) = (self.shares_rate_limits, renewed) {
            self.gateway.share_rate_limits(servers);
        }
    }
}
