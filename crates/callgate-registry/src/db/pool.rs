//! A database that limits writers, retries deadlocked statements, and counts statements.
//!
//! Some connections are reserved for readers, so that a server notices changes while its writers wait for locks. A
//! single statement that was rolled back to end a deadlock is retried here. Transactions that lock the same rows as
//! other transactions use [`retry_deadlocks`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::db::connect::DatabaseOptions;
use crate::db::database::{Database, Purpose, Row, Value};
use crate::db::dialect::Dialect;
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};
use crate::db::table_names::TableNames;
use crate::db::transaction::Transaction;

/// Number of connections reserved for readers.
const RESERVED_FOR_READERS: u32 = 2;
/// Maximum number of attempts of an operation that ends in deadlocks, including the first attempt.
const MAX_ATTEMPTS: usize = 4;

/// A connection pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) driver: Box<dyn Database>,
    /// Names of the tables in templates.
    pub(crate) tables: TableNames,
    options: DatabaseOptions,
    writers: Semaphore,
    statements: AtomicU64,
}

impl Pool {
    pub(crate) fn new(driver: Box<dyn Database>, options: &DatabaseOptions) -> Self {
        let writers = options.max_connections.saturating_sub(RESERVED_FOR_READERS).max(1);
        Self {
            driver,
            tables: TableNames::default(),
            options: options.clone(),
            writers: Semaphore::new(usize::try_from(writers).unwrap_or(1)),
            statements: AtomicU64::new(0),
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.driver.dialect()
    }

    /// Expands a template.
    pub(super) fn sql(&self, template: &str) -> String {
        self.tables.expand(&self.dialect().expand(template))
    }

    /// Returns the number of statements so far, including begins and commits.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    pub(super) fn count_statement(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs one statement outside a transaction.
    pub(crate) async fn rows(&self, template: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.count_statement();
        let sql = &self.sql(template);
        retry_deadlocks(|| async move {
            let mut connection = self.driver.acquire(self.options.statement_timeout).await?;
            connection.rows(sql, values).await
        })
        .await
    }

    /// Begins a transaction. It is rolled back unless it is committed.
    pub(crate) async fn begin(&self, purpose: Purpose) -> Result<Transaction<'_>> {
        self.count_statement();
        let permit = if purpose == Purpose::Read { None } else { Some(self.permit().await?) };
        let limit = purpose.limit(&self.options);
        let mut transaction = retry_deadlocks(|| async move {
            let connection = self.driver.acquire(limit).await?;
            Transaction::begin(self, connection, purpose).await
        })
        .await?;
        transaction.permit = permit;
        Ok(transaction)
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>> {
        let limit = self.options.connect_timeout + self.options.statement_timeout;
        if let Ok(Ok(permit)) = tokio::time::timeout(limit, self.writers.acquire()).await {
            return Ok(permit);
        }
        let message = format!("no connection for writes was free within {} s", limit.as_secs_f64());
        Err(DatabaseError::new(DatabaseErrorKind::Busy, message))
    }
}

/// Repeats an operation that was rolled back to end a deadlock.
pub(crate) async fn retry_deadlocks<T, F>(attempt: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    retry(MAX_ATTEMPTS, DatabaseError::is_deadlock, attempt).await
}

/// Repeats an operation while its error is temporary, up to a total number of attempts.
pub(crate) async fn retry<T, E, F>(
    attempts: usize,
    is_temporary: impl Fn(&E) -> bool,
    attempt: impl Fn() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    for _ in 1..attempts {
        match attempt().await {
            Err(error) if is_temporary(&error) => {}
            result => return result,
        }
    }
    attempt().await
}

/// Runs an operation with a time limit. A database that is disconnected does not respond at all.
pub(crate) async fn with_timeout<T, E: From<DatabaseError>>(
    limit: Duration,
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(limit, operation).await {
        Ok(outcome) => outcome,
        Err(_) => Err(DatabaseError::new(
            DatabaseErrorKind::Unavailable,
            format!("the database did not respond within {limit:?}"),
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;

    use super::*;
    use crate::db::database::{Connection, TransactionEnd};

    /// A database whose first operations fail with these errors.
    #[derive(Debug, Default)]
    struct FakeDatabase {
        errors: Mutex<Vec<DatabaseErrorKind>>,
        operations: AtomicUsize,
    }

    impl FakeDatabase {
        fn next_result(&self) -> Result<()> {
            self.operations.fetch_add(1, Ordering::SeqCst);
            match self.errors.lock().unwrap().pop() {
                Some(kind) => Err(DatabaseError::new(kind, "no")),
                None => Ok(()),
            }
        }
    }

    #[async_trait]
    impl Connection for Arc<FakeDatabase> {
        async fn rows(&mut self, _: &str, _: &[Value<'_>]) -> Result<Vec<Row>> {
            self.next_result().map(|()| Vec::new())
        }
        async fn script(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
        fn close(self: Box<Self>) {}
    }

    #[async_trait]
    impl Database for Arc<FakeDatabase> {
        fn dialect(&self) -> Dialect {
            Dialect::Sqlite
        }
        async fn acquire(&self, _: Duration) -> Result<Box<dyn Connection>> {
            Ok(Box::new(Arc::clone(self)))
        }
        async fn begin(&self, _: &mut dyn Connection, _: Purpose) -> Result<TransactionEnd> {
            self.next_result().map(|()| TransactionEnd::default())
        }
    }

    fn pool(max_connections: u32, errors: &[DatabaseErrorKind]) -> (Pool, Arc<FakeDatabase>) {
        let fake = Arc::new(FakeDatabase {
            errors: Mutex::new(errors.to_vec()),
            ..FakeDatabase::default()
        });
        let options = DatabaseOptions { max_connections, ..DatabaseOptions::default() };
        (Pool::new(Box::new(Arc::clone(&fake)), &options), fake)
    }

    #[tokio::test(start_paused = true)]
    async fn writers_are_limited_so_that_readers_get_a_connection() {
        for (connections, writers) in [(1, 1), (2, 1), (3, 1), (8, 6)] {
            let (database, _) = pool(connections, &[]);
            let mut transactions = Vec::new();
            let error = loop {
                match database.begin(Purpose::WriteUnlocked).await {
                    Ok(transaction) => transactions.push(transaction),
                    Err(error) => break error,
                }
            };
            assert_eq!(transactions.len(), writers);
            assert!(error.is_busy() && error.to_string().contains("15 s"), "{error}");
            database.rows("", &[]).await.unwrap();
            database.begin(Purpose::Read).await.unwrap();
            transactions.pop().unwrap().commit().await.unwrap();
            database.begin(Purpose::Tokens).await.unwrap();
        }
    }

    #[tokio::test]
    async fn deadlocks_are_retried_up_to_a_limit_and_busy_errors_are_not_retried() {
        use DatabaseErrorKind::{Busy, Deadlock};
        for purpose in [Purpose::Read, Purpose::Write] {
            let (database, fake) = pool(8, &[Deadlock; 3]);
            assert!(database.begin(purpose).await.is_ok());
            assert_eq!(fake.operations.load(Ordering::SeqCst), 4);
        }
        let (database, fake) = pool(8, &[Deadlock; 9]);
        assert!(database.rows("", &[]).await.unwrap_err().is_deadlock());
        assert_eq!(fake.operations.load(Ordering::SeqCst), 4, "attempts are limited");
        let (database, fake) = pool(8, &[Busy]);
        let error = database.begin(Purpose::Write).await.err().unwrap();
        assert!(error.is_busy() && !error.is_deadlock());
        assert_eq!(fake.operations.load(Ordering::SeqCst), 1, "not repeated if busy");
    }
}
