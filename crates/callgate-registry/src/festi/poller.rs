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
use crate::festi::database::{Festi, FestiRows, Read};
use crate::festi::error::Result;
use crate::festi::layout::Table;
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
    pub(crate) watch: PollState,
    /// Lock that is held during a poll, so that polls do not overlap.
    polling: Mutex<()>,
}

impl Poller {
    pub(super) fn new(festi: Festi, watch: PollState) -> Self {
        Self { festi, watch, polling: Mutex::default() }
    }

    /// Polls at intervals.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let began = Instant::now();
            let polled = with_timeout(POLL_TIMEOUT, self.poll(&self.watch.due(began))).await;
            let took = began.elapsed();
            let next = match &polled {
                // Waits at least as long as the poll took.
                Ok(()) => {
                    let [access, methods] = self.watch.next_polls();
                    access.min(methods).max(Instant::now() + took.max(MIN_INTERVAL))
                }
                Err(_) => Instant::now() + random_between(MAX_BACKOFF / 2, MAX_BACKOFF),
            };
            self.watch.set_failure(polled.err());
            sleep_until(next).await;
        }
    }

    pub(crate) async fn poll(&self, due: &[Table]) -> Result<()> {
        let _one = self.polling.lock().await;
        let began = Instant::now();
        // The layout is read at the same interval as methods.
        let layout = if due.contains(&Table::Methods) {
            let layout = self.festi.layout().await?;
            layout.check(self.festi.tables())?;
            layout
        } else {
            self.watch.layout()
        };
        let mut fingerprints = self.festi.fingerprints(due, &layout).await?;
        if self.watch.has_other_tokens(&fingerprints) {
            let read = self.festi.read(&[Table::Tokens]).await?;
            self.take(began, read);
            fingerprints.remove(&Table::Tokens);
        }
        self.watch.note(began, layout, &fingerprints);
        Ok(())
    }

    /// Reads tables and records their fingerprints.
    pub(super) async fn read(&self, tables: &[Table]) -> Result<(FestiRows, ChangeCounters)> {
        let began = Instant::now();
        let read = self.festi.read(tables).await?;
        read.layout.check(self.festi.tables())?;
        Ok(self.take(began, read))
    }

    /// Reads tables without recording fingerprints.
    pub(super) async fn rows(&self, tables: &[Table]) -> Result<FestiRows> {
        Ok(self.festi.read(tables).await?.rows)
    }

    /// Records the rows that were read. Tokens come first, because followers look them up when the counter changes.
    fn take(&self, began: Instant, read: Read) -> (FestiRows, ChangeCounters) {
        if self.watch.has_other_tokens(&read.fingerprints)
            && let Some(shared) = self.watch.set_tokens(read.tokens)
        {
            tracing::warn!(
                tokens = shared,
                "several Festi users share an `access_token`, which is therefore refused"
            );
        }
        let numbers = self.watch.note(began, read.layout, &read.fingerprints);
        (read.rows, numbers)
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
    struct Slow {
        /// Duration of a statement outside a transaction, in milliseconds.
        takes: AtomicU64,
        /// Value that is returned for the fingerprints of all tables.
        content: AtomicU64,
        is_down: AtomicBool,
        /// Number of statements outside a transaction: in total, running now, and the maximum that ran at once.
        begun: AtomicUsize,
        at_once: AtomicUsize,
        most_at_once: AtomicUsize,
    }

    #[derive(Debug, Clone, Default)]
    struct Shared(Arc<Slow>);

    fn text(text: &impl ToString) -> Cell {
        Cell::Text(text.to_string())
    }

    impl Shared {
        fn answer(&self, sql: &str) -> Vec<Row> {
            if sql.contains("pg_class") {
                let rows = |(table, columns): &(&str, &[&str])| -> Vec<Row> {
                    columns.iter().map(|it| Row::new(vec![text(table), text(it)])).collect()
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
    impl Database for Shared {
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
        database: Shared,
        is_in_transaction: bool,
    }

    #[async_trait]
    impl Connection for SlowConnection {
        async fn rows(&mut self, sql: &str, _: &[Value<'_>]) -> Result<Vec<Row>> {
            let Shared(slow) = &self.database;
            if self.is_in_transaction {
                return Ok(self.database.answer(sql));
            }
            let at_once = slow.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            slow.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            slow.begun.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(slow.takes.load(Ordering::SeqCst))).await;
            slow.at_once.fetch_sub(1, Ordering::SeqCst);
            if slow.is_down.load(Ordering::SeqCst) {
                return Err(DatabaseError::new(
                    DatabaseErrorKind::Unavailable,
                    "connection refused",
                ));
            }
            Ok(self.database.answer(sql))
        }

        async fn script(&mut self, _: &str) -> Result<()> {
            self.is_in_transaction = true;
            Ok(())
        }

        fn close(self: Box<Self>) {}
    }

    fn site() -> (Shared, Arc<Poller>) {
        let database = Shared::default();
        let tables = TableNames::with_prefix("festi_").unwrap();
        let festi =
            Festi::new(Pool::new(Box::new(database.clone()), &DatabaseOptions::default()), &tables);
        (database, Arc::new(Poller::new(festi, PollState::new(PollIntervals::default()))))
    }

    async fn until(what: &str, is_so: impl Fn() -> bool) {
        let waiting = async {
            while !is_so() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_mins(5), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_takes_long_is_no_failure_and_finds_what_changed() {
        let (database, site) = site();
        database.0.takes.store(7_000, Ordering::SeqCst);
        let task = tokio::spawn(Arc::clone(&site).run());
        until("the first poll", || site.watch.numbers().is_ok() && site.watch.knows_tokens()).await;
        for number in 1..4 {
            database.0.content.store(number, Ordering::SeqCst);
            let access = i64::try_from(number).unwrap();
            until("the change is seen", || {
                // If a poll failed in between, the server would report that the registry is unavailable.
                site.watch.numbers().unwrap().access == access
            })
            .await;
        }
        assert_eq!(database.0.most_at_once.load(Ordering::SeqCst), 1);
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_fails_is_told_until_one_goes_well() {
        let (database, site) = site();
        let task = tokio::spawn(Arc::clone(&site).run());
        until("the first poll", || site.watch.knows_tokens()).await;
        sleep(Duration::from_secs(5)).await;
        assert!(site.watch.age() < Duration::from_millis(100), "{:?}", site.watch.age());
        database.0.is_down.store(true, Ordering::SeqCst);
        until("the failure is told", || site.watch.numbers().is_err()).await;
        sleep(Duration::from_secs(20)).await;
        assert!(site.watch.numbers().is_err());
        let age = site.watch.age();
        assert!(age > Duration::from_secs(19) && age < Duration::from_secs(22), "{age:?}");
        database.0.is_down.store(false, Ordering::SeqCst);
        until("it is back", || site.watch.numbers().is_ok()).await;
        assert!(site.watch.age() < Duration::from_secs(1));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_may_take_long_and_is_cut_off_after_a_minute() {
        let (database, site) = site();
        let task = tokio::spawn(Arc::clone(&site).run());
        until("the first poll", || site.watch.knows_tokens()).await;
        let before = database.0.begun.load(Ordering::SeqCst);
        database.0.takes.store(20_000, Ordering::SeqCst);
        for _ in 0..120 {
            sleep(Duration::from_secs(1)).await;
            assert!(site.watch.numbers().is_ok(), "a slow poll is no failure");
        }
        let begun = database.0.begun.load(Ordering::SeqCst) - before;
        assert!(begun < 40, "too many polls: {begun}");
        database.0.takes.store(100_000, Ordering::SeqCst);
        until("one is cut off", || site.watch.numbers().is_err()).await;
        database.0.takes.store(0, Ordering::SeqCst);
        until("one is not", || site.watch.numbers().is_ok()).await;
        task.abort();
    }
}
