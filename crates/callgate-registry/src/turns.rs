//! A database whose writers take turns: so many at once that some connections stay free for those who only
//! look. A gateway must see what is new also while its writers wait for somebody's lock.
//!
//! Of two that wait for each other the database ends one, and nothing of it was done. A statement by itself and
//! the begin of a transaction are tried again here, whole transactions where they call [`again`]: those that
//! meet others' locks on the same rows. The rest are told that another was in the way.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connect::DatabaseOptions;
use crate::sql::{Database, Dialect, Purpose, Row, Transaction, Value};
use crate::store::{DatabaseErrorKind, Result, StoreError};

/// So many connections are not for writers.
const KEPT_FREE: u32 = 2;
/// So often is tried what had to give way.
const MAX_TRIES: usize = 4;

/// A database, and the turns of those who write.
#[derive(Debug)]
pub(crate) struct Turns {
    database: Box<dyn Database>,
    writers: Arc<Semaphore>,
    patience: Duration,
}

impl Turns {
    pub(crate) fn new(database: Box<dyn Database>, options: &DatabaseOptions) -> Self {
        let writers = options.max_connections.saturating_sub(KEPT_FREE).max(1);
        let writers = Arc::new(Semaphore::new(usize::try_from(writers).unwrap_or(1)));
        let patience = options.connect_timeout + options.statement_timeout;
        Self { database, writers, patience }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.writers).acquire_owned();
        if let Ok(Ok(turn)) = tokio::time::timeout(self.patience, turn).await {
            return Ok(turn);
        }
        let message = format!(
            "too many write to the database at once: it was nobody's turn within {} s",
            self.patience.as_secs_f64()
        );
        Err(StoreError::database(DatabaseErrorKind::Busy, message))
    }
}

/// Tries again what had to give way to another.
pub(crate) async fn again<T, F>(attempt: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for _ in 1..MAX_TRIES {
        match attempt().await {
            Err(error) if error.gave_way() => {}
            done => return done,
        }
    }
    attempt().await
}

#[async_trait]
impl Database for Turns {
    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        again(|| self.database.rows(sql, values)).await
    }

    async fn begin(&self, purpose: Purpose) -> Result<Box<dyn Transaction>> {
        if purpose == Purpose::Read {
            return again(|| self.database.begin(purpose)).await;
        }
        let turn = self.turn().await?;
        let transaction = again(|| self.database.begin(purpose)).await?;
        Ok(Box::new(Writing { transaction, _turn: turn }))
    }

    async fn changed(&self) {
        self.database.changed().await;
    }

    async fn prepare(&self) -> Result<()> {
        self.database.prepare().await
    }

    async fn settle(&self) -> Result<()> {
        self.database.settle().await
    }

    fn statements(&self) -> u64 {
        self.database.statements()
    }

    fn check(&self) -> Result<()> {
        self.database.check()
    }
}

/// A transaction that writes, for as long as it is somebody's turn.
struct Writing {
    transaction: Box<dyn Transaction>,
    _turn: OwnedSemaphorePermit,
}

#[async_trait]
impl Transaction for Writing {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.transaction.rows(sql, values).await
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.transaction.script(sql).await
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.transaction.commit().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
                Some(kind) => Err(StoreError::database(kind, "no")),
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

    fn turns(max_connections: u32, refusals: &[DatabaseErrorKind]) -> (Turns, Arc<Double>) {
        let double =
            Arc::new(Double { refusals: Mutex::new(refusals.to_vec()), ..Double::default() });
        let options = DatabaseOptions { max_connections, ..DatabaseOptions::default() };
        (Turns::new(Box::new(Arc::clone(&double)), &options), double)
    }

    #[tokio::test(start_paused = true)]
    async fn writers_leave_connections_to_those_who_look() {
        for (connections, writers) in [(1, 1), (2, 1), (3, 1), (8, 6)] {
            let (database, _) = turns(connections, &[]);
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
        use DatabaseErrorKind::{Busy, GaveWay};
        for purpose in [Purpose::Read, Purpose::Write] {
            let (database, double) = turns(8, &[GaveWay; 3]);
            assert!(database.begin(purpose).await.is_ok());
            assert_eq!(double.asked.load(Ordering::SeqCst), 4);
        }
        let (database, double) = turns(8, &[GaveWay; 9]);
        assert!(database.rows("", &[]).await.unwrap_err().gave_way());
        assert_eq!(double.asked.load(Ordering::SeqCst), 4, "not for ever");
        let (database, double) = turns(8, &[Busy]);
        let error = database.begin(Purpose::Write).await.err().unwrap();
        assert!(error.is_busy() && !error.gave_way());
        assert_eq!(double.asked.load(Ordering::SeqCst), 1, "it has waited long enough");
    }
}
