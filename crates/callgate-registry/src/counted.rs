//! A database that counts what it is asked, so that it can be seen what a call costs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use crate::sql::{Database, Dialect, Purpose, Row, Transaction, Value};
use crate::store::Result;

/// A database, and how many statements it was sent. The begin and the end of a transaction are some too.
#[derive(Debug)]
pub(crate) struct Counted {
    database: Box<dyn Database>,
    statements: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new(database: Box<dyn Database>) -> Self {
        Self { database, statements: Arc::default() }
    }
}

#[async_trait]
impl Database for Counted {
    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.database.rows(sql, values).await
    }

    async fn begin(&self, purpose: Purpose) -> Result<Box<dyn Transaction>> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let transaction = self.database.begin(purpose).await?;
        let statements = Arc::clone(&self.statements);
        Ok(Box::new(CountedTransaction { transaction, statements }))
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
        self.statements.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<()> {
        self.database.check()
    }
}

struct CountedTransaction {
    transaction: Box<dyn Transaction>,
    statements: Arc<AtomicU64>,
}

#[async_trait]
impl Transaction for CountedTransaction {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.transaction.rows(sql, values).await
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.transaction.script(sql).await
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        self.transaction.commit().await
    }
}
