//! Polls a Festi database.
//!
//! A poll computes fingerprints of whole tables, which is slow for large tables. It runs in a task, and followers read
//! the result of the last poll.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::poll_state::PollState;
use crate::db::pool::with_timeout;
use crate::festi::database::{Festi, FestiRows, FestiSnapshot};
use crate::festi::error::Result;
use crate::festi::layout::FestiTable;
use crate::rows::ChangeCounters;
use callgate::internal::random_between;

/// Maximum delay after a failed poll.
const MAX_BACKOFF: Duration = Duration::from_millis(750);
/// Time limit of a poll.
const POLL_TIMEOUT: Duration = Duration::from_mins(1);
/// Minimum interval between polls.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Poller {
    pub(crate) festi: Festi,
    pub(crate) state: PollState,
    /// Lock that is held during a poll, so that polls do not overlap.
    poll_lock: Mutex<()>,
}

impl Poller {
    pub(super) fn new(festi: Festi, state: PollState) -> Self {
        Self { festi, state, poll_lock: Mutex::default() }
    }

    /// Polls at intervals.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let started = Instant::now();
            let result = with_timeout(POLL_TIMEOUT, self.poll(&self.state.due(started))).await;
            let elapsed = started.elapsed();
            let next = match &result {
                // Waits at least as long as the poll took.
                Ok(()) => {
                    let [access, methods] = self.state.next_polls();
                    access.min(methods).max(Instant::now() + elapsed.max(MIN_INTERVAL))
                }
                Err(_) => Instant::now() + random_between(MAX_BACKOFF / 2, MAX_BACKOFF),
            };
            self.state.set_failure(result.err());
            sleep_until(next).await;
        }
    }

    pub(crate) async fn poll(&self, due: &[FestiTable]) -> Result<()> {
        let _guard = self.poll_lock.lock().await;
        let started = Instant::now();
        // The layout is read at the same interval as methods.
        let layout = if due.contains(&FestiTable::Methods) {
            let layout = self.festi.layout().await?;
            layout.check(self.festi.tables())?;
            layout
        } else {
            self.state.layout()
        };
        let mut fingerprints = self.festi.fingerprints(due, &layout).await?;
        if self.state.tokens_changed(&fingerprints) {
            let snapshot = self.festi.read(&[FestiTable::Tokens]).await?;
            self.record(started, snapshot);
            fingerprints.remove(&FestiTable::Tokens);
        }
        self.state.record(started, layout, &fingerprints);
        Ok(())
    }

    /// Reads tables and records their fingerprints.
    pub(super) async fn read(&self, tables: &[FestiTable]) -> Result<(FestiRows, ChangeCounters)> {
        let started = Instant::now();
        let snapshot = self.festi.read(tables).await?;
        snapshot.layout.check(self.festi.tables())?;
        Ok(self.record(started, snapshot))
    }

    /// Reads tables without recording fingerprints.
    pub(super) async fn rows(&self, tables: &[FestiTable]) -> Result<FestiRows> {
        Ok(self.festi.read(tables).await?.rows)
    }

    /// Records the rows that were read. Tokens come first, because followers look them up when the counter changes.
    fn record(&self, started: Instant, snapshot: FestiSnapshot) -> (FestiRows, ChangeCounters) {
        if self.state.tokens_changed(&snapshot.fingerprints)
            && let Some(shared_tokens) = self.state.set_tokens(snapshot.tokens)
        {
            tracing::warn!(
                tokens = shared_tokens,
                "several Festi users share an `access_token`, which is therefore refused"
            );
        }
        let counters = self.state.record(started, snapshot.layout, &snapshot.fingerprints);
        (snapshot.rows, counters)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    use async_trait::async_trait;
    use tokio::time::{sleep, timeout};

    use super::super::poll_state::PollIntervals;
    use super::*;
    use crate::db::connect::DatabaseOptions;
    use crate::db::database::{Cell, Connection, Database, Purpose, Row, TransactionEnd, Value};
    use crate::db::dialect::Dialect;
    use crate::db::error::Result;
    use crate::db::error::{DatabaseError, DatabaseErrorKind};
    use crate::db::pool::Pool;
    use crate::db::table_names::TableNames;

    const TABLES: [(&str, &[&str]); 6] = [
        ("rpc_methods", &["id", "rpc_method"]),
        ("users", &["id", "login", "access_token"]),
        ("festi_sections", &["id", "caption", "ident"]),
        ("festi_section_actions", &["id_section", "plugin", "method", "mask"]),
        ("festi_sections_user_permission", &["id_section", "id_user", "value"]),
        ("festi_sections_user_types_permission", &["id_section", "id_user_type", "value"]),
    ];

    /// An in-memory database with slow statements.
    #[derive(Debug, Default)]
    struct SlowState {
        /// Duration of a statement outside a transaction, in milliseconds.
        statement_ms: AtomicU64,
        /// Value that is returned for the fingerprints of all tables.
        content: AtomicU64,
        is_down: AtomicBool,
        /// Number of statements outside a transaction: in total, running now, and the maximum that ran at once.
        started: AtomicUsize,
        running: AtomicUsize,
        max_running: AtomicUsize,
    }

    #[derive(Debug, Clone, Default)]
    struct SlowDatabase(Arc<SlowState>);

    fn text(text: &impl ToString) -> Cell {
        Cell::Text(text.to_string())
    }

    impl SlowDatabase {
        fn respond(&self, sql: &str) -> Vec<Row> {
            if sql.contains("pg_class") {
                let rows = |(table, columns): &(&str, &[&str])| -> Vec<Row> {
                    columns.iter().map(|column| Row::new(vec![text(table), text(column)])).collect()
                };
                return TABLES.iter().flat_map(rows).collect();
            }
            let content = self.0.content.load(Ordering::SeqCst);
            let tables = 0..if sql.contains("hashtextextended") { 8 } else { 0 };
            let cells = |index| vec![Cell::Int(index), text(&content), text(&content)];
            tables.map(|index| Row::new(cells(index))).collect()
        }
    }

    #[async_trait]
    impl Database for SlowDatabase {
        fn dialect(&self) -> Dialect {
            Dialect::Postgres
        }

        async fn acquire(&self, _: Duration) -> Result<Box<dyn Connection>> {
            Ok(Box::new(SlowConnection { database: self.clone(), is_in_transaction: false }))
        }

        async fn begin(
            &self,
            connection: &mut dyn Connection,
            _: Purpose,
        ) -> Result<TransactionEnd> {
            connection.script("BEGIN").await?;
            Ok(TransactionEnd::default())
        }
    }

    /// A connection whose statements are slow outside a transaction.
    struct SlowConnection {
        database: SlowDatabase,
        is_in_transaction: bool,
    }

    #[async_trait]
    impl Connection for SlowConnection {
        async fn rows(&mut self, sql: &str, _: &[Value<'_>]) -> Result<Vec<Row>> {
            let SlowDatabase(state) = &self.database;
            if self.is_in_transaction {
                return Ok(self.database.respond(sql));
            }
            let running = state.running.fetch_add(1, Ordering::SeqCst) + 1;
            state.max_running.fetch_max(running, Ordering::SeqCst);
            state.started.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(state.statement_ms.load(Ordering::SeqCst))).await;
            state.running.fetch_sub(1, Ordering::SeqCst);
            if state.is_down.load(Ordering::SeqCst) {
                return Err(DatabaseError::new(
                    DatabaseErrorKind::Unavailable,
                    "connection refused",
                ));
            }
            Ok(self.database.respond(sql))
        }

        async fn script(&mut self, _: &str) -> Result<()> {
            self.is_in_transaction = true;
            Ok(())
        }

        fn close(self: Box<Self>) {}
    }

    fn poller() -> (SlowDatabase, Arc<Poller>) {
        let database = SlowDatabase::default();
        let tables = TableNames::with_prefix("festi_").unwrap();
        let festi =
            Festi::new(Pool::new(Box::new(database.clone()), &DatabaseOptions::default()), &tables);
        (database, Arc::new(Poller::new(festi, PollState::new(PollIntervals::default()))))
    }

    async fn wait_until(name: &str, condition: impl Fn() -> bool) {
        let waiting = async {
            while !condition() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_mins(5), waiting).await.unwrap_or_else(|_| panic!("never: {name}"));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_polls_detect_changes_without_failures_and_do_not_overlap() {
        let (database, poller) = poller();
        database.0.statement_ms.store(7_000, Ordering::SeqCst);
        let task = tokio::spawn(Arc::clone(&poller).run());
        wait_until("the first poll", || {
            poller.state.counters().is_ok() && poller.state.has_read_tokens()
        })
        .await;
        for number in 1..4 {
            database.0.content.store(number, Ordering::SeqCst);
            let access = i64::try_from(number).unwrap();
            wait_until("the change is seen", || {
                // If a poll failed in between, the server would report that the registry is unavailable.
                poller.state.counters().unwrap().access == access
            })
            .await;
        }
        assert_eq!(database.0.max_running.load(Ordering::SeqCst), 1);
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn failed_polls_are_reported_until_one_succeeds() {
        let (database, poller) = poller();
        let task = tokio::spawn(Arc::clone(&poller).run());
        wait_until("the first poll", || poller.state.has_read_tokens()).await;
        sleep(Duration::from_secs(5)).await;
        assert!(poller.state.age() < Duration::from_millis(100), "{:?}", poller.state.age());
        database.0.is_down.store(true, Ordering::SeqCst);
        wait_until("the failure is told", || poller.state.counters().is_err()).await;
        sleep(Duration::from_secs(20)).await;
        assert!(poller.state.counters().is_err());
        let age = poller.state.age();
        assert!(age > Duration::from_secs(19) && age < Duration::from_secs(22), "{age:?}");
        database.0.is_down.store(false, Ordering::SeqCst);
        wait_until("it is back", || poller.state.counters().is_ok()).await;
        assert!(poller.state.age() < Duration::from_secs(1));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn slow_polls_are_less_frequent_and_are_aborted_after_a_minute() {
        let (database, poller) = poller();
        let task = tokio::spawn(Arc::clone(&poller).run());
        wait_until("the first poll", || poller.state.has_read_tokens()).await;
        let before = database.0.started.load(Ordering::SeqCst);
        database.0.statement_ms.store(20_000, Ordering::SeqCst);
        for _ in 0..120 {
            sleep(Duration::from_secs(1)).await;
            assert!(poller.state.counters().is_ok(), "a slow poll is no failure");
        }
        let started = database.0.started.load(Ordering::SeqCst) - before;
        assert!(started < 40, "too many polls: {started}");
        database.0.statement_ms.store(100_000, Ordering::SeqCst);
        wait_until("one is cut off", || poller.state.counters().is_err()).await;
        database.0.statement_ms.store(0, Ordering::SeqCst);
        wait_until("one is not", || poller.state.counters().is_ok()).await;
        task.abort();
    }
}
