//! An in-memory store that fails, hangs or works, as the test configures it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use callgate::Secret;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::db::error::{DatabaseError, DatabaseErrorKind};
use crate::rows::{
    AccessRows, CatalogRows, ChangeCounters, KeyRow, MessageRow, SessionRow, TokenRow,
};
use crate::store::{NewKey, Store, UpdateSession};
use crate::store::{Result, StoreError};

/// Duration of a slow login.
const LOGIN_DELAY: Duration = Duration::from_secs(3);
/// Duration of a slow write of tool names.
pub(super) const NAMES_DELAY: Duration = Duration::from_secs(10);

/// Behaviour of the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Available,
    /// Refuses connections.
    Down,
    /// Does not respond at all.
    Silent,
    /// Responds only to reads of the counters.
    OnlyCounters,
    /// Responds to all reads except those of the catalog.
    NoCatalog,
    /// Responds to reads, but not to writes.
    NoWrites,
    /// Writes tool names slowly.
    SlowNames,
    /// Responds after a caller has waited [`LOGIN_DELAY`] for a connection.
    SlowLogin,
}

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Counters,
    Catalog,
    Names,
    Write,
    Other,
}

/// Contents of the store.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) mode: Mode,
    pub(super) change_counters: ChangeCounters,
    pub(super) access: AccessRows,
    pub(super) catalog: CatalogRows,
    pub(super) tokens: Vec<TokenRow>,
    /// Number of servers with a lease.
    pub(super) servers: u32,
    /// Delay of the reply to a lookup of tokens.
    pub(super) token_delay: Duration,
    /// Token uses that were written.
    pub(super) token_uses: Vec<(i64, i64)>,
    /// Numbers after which session changes were requested.
    pub(super) session_reads: Vec<i64>,
    /// Time of the counters, if they are older than the request.
    pub(super) counters_read_at: Option<Instant>,
}

#[derive(Debug, Default)]
pub(in crate::follow) struct FakeStore {
    rows: Mutex<Rows>,
    is_connected: AtomicBool,
    /// Notifies of a change.
    pub(super) changes: Notify,
    /// Number of operations, and the largest number of digests in one operation.
    pub(super) operations: AtomicUsize,
    pub(super) max_digests: AtomicUsize,
}

impl FakeStore {
    /// Changes the contents or the behaviour.
    pub(super) fn with_rows<T>(&self, change: impl FnOnce(&mut Rows) -> T) -> T {
        change(&mut self.rows.lock().unwrap())
    }

    async fn respond<T>(&self, kind: RequestKind, read: impl FnOnce(&Rows) -> T) -> Result<T> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        let mode = self.with_rows(|rows| rows.mode);
        match (mode, kind) {
            (Mode::Silent, _)
            | (Mode::NoCatalog, RequestKind::Catalog)
            | (Mode::NoWrites, RequestKind::Write | RequestKind::Names) => {
                std::future::pending::<()>().await;
            }
            (Mode::SlowNames, RequestKind::Names) => sleep(NAMES_DELAY).await,
            (Mode::SlowLogin, _) => {
                if !self.is_connected.load(Ordering::SeqCst) {
                    sleep(LOGIN_DELAY).await;
                    self.is_connected.store(true, Ordering::SeqCst);
                }
            }
            (Mode::Available | Mode::NoCatalog | Mode::NoWrites | Mode::SlowNames, _)
            | (Mode::OnlyCounters, RequestKind::Counters) => {}
            (Mode::Down | Mode::OnlyCounters, _) => {
                return Err(DatabaseError::new(
                    DatabaseErrorKind::Unavailable,
                    "connection refused",
                )
                .into());
            }
        }
        Ok(self.with_rows(|rows| read(rows)))
    }
}

#[async_trait]
impl Store for FakeStore {
    async fn change_counters(&self) -> Result<ChangeCounters> {
        self.respond(RequestKind::Counters, |rows| rows.change_counters).await
    }
    async fn catalog_rows(&self) -> Result<CatalogRows> {
        let read = |rows: &Rows| CatalogRows {
            change_counter: rows.change_counters.catalog,
            ..rows.catalog.clone()
        };
        self.respond(RequestKind::Catalog, read).await
    }
    async fn access_rows(&self) -> Result<AccessRows> {
        let read = |rows: &Rows| AccessRows {
            change_counter: rows.change_counters.access,
            ..rows.access.clone()
        };
        self.respond(RequestKind::Other, read).await
    }
    async fn tokens_by_digest(&self, digests: &[String]) -> Result<Vec<TokenRow>> {
        self.max_digests.fetch_max(digests.len(), Ordering::SeqCst);
        let is_requested = |row: &&TokenRow| digests.contains(&row.digest);
        let read = |rows: &Rows| rows.tokens.iter().filter(is_requested).cloned().collect();
        let found = self.respond(RequestKind::Other, read).await;
        sleep(self.with_rows(|rows| rows.token_delay)).await;
        found
    }
    fn statements(&self) -> u64 {
        0
    }
    fn age(&self) -> Duration {
        self.with_rows(|rows| {
            rows.counters_read_at.map(|read_at| read_at.elapsed()).unwrap_or_default()
        })
    }
    async fn sessions_after(&self, number: i64) -> Result<Vec<SessionRow>> {
        self.with_rows(|rows| rows.session_reads.push(number));
        self.respond(RequestKind::Other, |_| Vec::new()).await
    }
    async fn changed(&self) {
        self.changes.notified().await;
    }
    async fn keys(&self, _: &str) -> Result<Vec<KeyRow>> {
        let secret = "00".repeat(32);
        self.respond(RequestKind::Other, |_| {
            vec![KeyRow { id: 1, secret, created_at: 0, active_from: 0 }]
        })
        .await
    }
    async fn record_token_uses(&self, uses: &[(i64, i64)]) -> Result<()> {
        self.respond(RequestKind::Write, |_| ()).await?;
        self.with_rows(|rows| rows.token_uses.extend(uses));
        Ok(())
    }
    async fn update_session(
        &self,
        _: &str,
        _: i64,
        change: &UpdateSession<'_>,
    ) -> Result<SessionRow> {
        let mut row = SessionRow::default();
        change(&mut row);
        self.respond(RequestKind::Write, |_| row).await
    }
    async fn delete_messages(&self, _: i64) -> Result<()> {
        self.respond(RequestKind::Write, |_| ()).await
    }
    async fn add_key(&self, _: &NewKey) -> Result<bool> {
        self.respond(RequestKind::Write, |_| false).await
    }
    async fn post_message(&self, _: &str, _: &str) -> Result<()> {
        self.respond(RequestKind::Write, |_| ()).await
    }
    async fn renew_lease(&self, _: &str, _: i64) -> Result<u32> {
        self.respond(RequestKind::Write, |rows| rows.servers).await
    }
    async fn delete_leases(&self) -> Result<()> {
        self.respond(RequestKind::Write, |_| ()).await
    }
    async fn delete_sessions(&self, _: i64, _: i64) -> Result<()> {
        self.respond(RequestKind::Write, |_| ()).await
    }
    async fn store_tool_names(&self, _: &[(i64, String)]) -> Result<Option<(i64, i64)>> {
        self.respond(RequestKind::Names, |_| None).await
    }

    // The tests do not use the other operations.
    async fn messages_after(&self, _: i64) -> Result<Vec<MessageRow>> {
        Err(StoreError::Conflict)
    }
    async fn ensure_sections(&self, _: &[String]) -> Result<()> {
        Err(StoreError::Conflict)
    }
    async fn replace_credential(&self, _: i64, _: &str, _: &Secret, _: &Secret) -> Result<bool> {
        Err(StoreError::Conflict)
    }
    async fn remove_keys_before(&self, _: &str, _: i64) -> Result<()> {
        Err(StoreError::Conflict)
    }
}
