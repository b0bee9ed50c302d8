//! Connections to a database: a driver, a limit on writers, retries, and a count of statements.
//!
//! Writers leave some connections free for readers: a gateway must see what is new also while its writers wait
//! for somebody's lock. Of two transactions that wait for each other the database ends one, and nothing of it was
//! done. A single statement and the begin of a transaction are tried again here, whole transactions where they
//! call [`again`]: those that meet others' locks on the same rows. The rest fail as busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::db::connect::DatabaseOptions;
use crate::db::database::{Database, Dialect, Purpose, Row, Transaction, Value};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result, Retry};

/// Number of connections that writers do not use.
const KEPT_FREE: u32 = 2;
/// Maximum number of attempts of what had to give way.
const MAX_TRIES: usize = 4;

/// A database that limits its writers and counts its statements.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) driver: Box<dyn Database>,
    writers: Arc<Semaphore>,
    /// Maximum time to wait for a write connection.
    patience: Duration,
    statements: Arc<AtomicU64>,
}

impl Pool {
    pub(crate) fn new(driver: Box<dyn Database>, options: &DatabaseOptions) -> Self {
        let writers = options.max_connections.saturating_sub(KEPT_FREE).max(1);
        let writers = Arc::new(Semaphore::new(usize::try_from(writers).unwrap_or(1)));
        let patience = options.connect_timeout + options.statement_timeout;
        Self { driver, writers, patience, statements: Arc::default() }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.driver.dialect()
    }

    /// Returns the number of statements so far; the begin and the end of a transaction count too.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Runs one statement by itself and returns its rows.
    pub(crate) async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        again(|| self.driver.rows(sql, values)).await
    }

    /// Begins a transaction. Unless it is committed, nothing of it stays.
    pub(crate) async fn begin(&self, purpose: Purpose) -> Result<PoolTransaction> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let permit = if purpose == Purpose::Read { None } else { Some(self.permit().await?) };
        let transaction = again(|| self.driver.begin(purpose)).await?;
        Ok(PoolTransaction {
            transaction,
            statements: Arc::clone(&self.statements),
            _permit: permit,
        })
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.writers).acquire_owned();
        if let Ok(Ok(permit)) = tokio::time::timeout(self.patience, permit).await {
            return Ok(permit);
        }
        let message = format!(
            "too many write to the database at once: it was nobody's turn within {} s",
            self.patience.as_secs_f64()
        );
        Err(DatabaseError::new(DatabaseErrorKind::Busy, message))
    }
}

/// Tries again what had to give way to another.
pub(crate) async fn again<T, E: Retry, F>(attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    for _ in 1..MAX_TRIES {
        match attempt().await {
            Err(error) if error.is_deadlock() => {}
            done => return done,
        }
    }
    attempt().await
}

/// What comes of an operation within a time limit: a database that is cut off does not even say no.
pub(crate) async fn within<T, E: From<DatabaseError>>(
    limit: Duration,
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(limit, operation).await {
        Ok(outcome) => outcome,
        Err(_) => Err(DatabaseError::new(
            DatabaseErrorKind::Unavailable,
            format!("the database did not answer within {limit:?}"),
        )
        .into()),
    }
}

/// A transaction. Dropped, it is rolled back.
pub(crate) struct PoolTransaction {
    transaction: Box<dyn Transaction>,
    statements: Arc<AtomicU64>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl PoolTransaction {
    /// Runs one statement and returns its rows.
    pub(crate) async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.transaction.rows(sql, values).await
    }

    /// Runs many statements without values, as a migration is.
    pub(crate) async fn script(&mut self, sql: &str) -> Result<()> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.transaction.script(sql).await
    }

    pub(crate) async fn commit(self) -> Result<()> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.transaction.commit().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use async_trait::async_trait;

    use super::*;

    /// A database that says no as often as it was told to.
    #[derive(Debug, Default)]
    struct Double {
        refusals: Mutex<Vec<DatabaseErrorKind>>,
        asked: AtomicUsize,
    }

    impl Double {
        fn answer(&self) -> Result<()> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            match self.refusals.lock().unwrap().pop() {
                Some(kind) => Err(DatabaseError::new(kind, "no")),
                None => Ok(()),
            }
        }
    }

    struct Nothing;

    #[async_trait]
    impl Transaction for Nothing {
        async fn rows(&mut self, _: &str, _: &[Value<'_>]) -> Result<Vec<Row>> {
            Ok(Vec::new())
        }
        async fn script(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
        async fn commit(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    #[async_trait]
    impl Database for Arc<Double> {
        fn dialect(&self) -> Dialect {
            Dialect::Sqlite
        }
        async fn rows(&self, _: &str, _: &[Value<'_>]) -> Result<Vec<Row>> {
            self.answer().map(|()| Vec::new())
        }
        async fn begin(&self, _: Purpose) -> Result<Box<dyn Transaction>> {
            self.answer().map(|()| -> Box<dyn Transaction> { Box::new(Nothing) })
        }
    }

    fn pool(max_connections: u32, refusals: &[DatabaseErrorKind]) -> (Pool, Arc<Double>) {
        let double =
            Arc::new(Double { refusals: Mutex::new(refusals.to_vec()), ..Double::default() });
        let options = DatabaseOptions { max_connections, ..DatabaseOptions::default() };
        (Pool::new(Box::new(Arc::clone(&double)), &options), double)
    }

    #[tokio::test(start_paused = true)]
    async fn writers_leave_connections_to_those_who_look() {
        for (connections, writers) in [(1, 1), (2, 1), (3, 1), (8, 6)] {
            let (database, _) = pool(connections, &[]);
            let mut held = Vec::new();
            let error = loop {
                match database.begin(Purpose::Note).await {
                    Ok(transaction) => held.push(transaction),
                    Err(error) => break error,
                }
            };
            assert_eq!(held.len(), writers);
            assert!(error.is_busy() && error.to_string().contains("15 s"), "{error}");
            database.rows("", &[]).await.unwrap();
            database.begin(Purpose::Read).await.unwrap();
            held.pop().unwrap().commit().await.unwrap();
            database.begin(Purpose::Tokens).await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_had_to_give_way_is_tried_again_and_who_waited_in_vain_is_told() {
        use DatabaseErrorKind::{Busy, Deadlock};
        for purpose in [Purpose::Read, Purpose::Write] {
            let (database, double) = pool(8, &[Deadlock; 3]);
            assert!(database.begin(purpose).await.is_ok());
            assert_eq!(double.asked.load(Ordering::SeqCst), 4);
        }
        let (database, double) = pool(8, &[Deadlock; 9]);
        assert!(database.rows("", &[]).await.unwrap_err().is_deadlock());
        assert_eq!(double.asked.load(Ordering::SeqCst), 4, "not for ever");
        let (database, double) = pool(8, &[Busy]);
        let error = database.begin(Purpose::Write).await.err().unwrap();
        assert!(error.is_busy() && !error.is_deadlock());
        assert_eq!(double.asked.load(Ordering::SeqCst), 1, "it has waited long enough");
    }
}
