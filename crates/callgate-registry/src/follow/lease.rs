//! The lease of a running server. Servers with a lease divide the rate limits among them.

use std::sync::Arc;
use std::time::Duration;

use callgate::gateway::Gateway;
use tokio::time::sleep;

use crate::auth::health::HealthTracker;
use crate::db::pool::with_timeout;
use crate::hex::to_hex;
use crate::store::Store;

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
    store: Arc<dyn Store>,
    gateway: Arc<Gateway>,
    tracker: Arc<HealthTracker>,
    server: String,
    /// Whether the server is one of those that divide the rate limits.
    is_shared: bool,
}

impl Lease {
    /// Takes a lease. If this fails, the next renewal tries again.
    pub(super) async fn take(
        store: &Arc<dyn Store>,
        gateway: &Arc<Gateway>,
        tracker: &Arc<HealthTracker>,
        is_shared: bool,
    ) -> Self {
        let mut id = [0_u8; 16];
        if getrandom::fill(&mut id).is_err() {
            id = u128::from(std::process::id()).to_be_bytes();
        }
        let (store, gateway) = (Arc::clone(store), Arc::clone(gateway));
        let tracker = Arc::clone(tracker);
        let lease = Self { store, gateway, tracker, server: to_hex(&id), is_shared };
        if is_shared {
            lease.renew(LEASE_SECONDS).await;
        }
        lease
    }

    pub(super) async fn run(self) {
        loop {
            let has_failed = self.tracker.write_failure().is_some();
            sleep(if has_failed { RETRY_INTERVAL } else { RENEW_INTERVAL }).await;
            if self.is_shared {
                self.renew(LEASE_SECONDS).await;
            } else if has_failed {
                self.renew(0).await;
            }
        }
    }

    /// Ends the lease. The other servers take over its share with their next renewal.
    pub(super) async fn end(&self) {
        if self.is_shared {
            self.renew(0).await;
        }
    }

    async fn renew(&self, seconds: i64) {
        let renewed =
            with_timeout(RENEW_TIMEOUT, self.store.renew_lease(&self.server, seconds)).await;
        self.tracker.note_write(&renewed);
        if let (true, Ok(servers)) = (self.is_shared, renewed) {
            self.gateway.share_rate_limits(servers);
        }
    }
}
