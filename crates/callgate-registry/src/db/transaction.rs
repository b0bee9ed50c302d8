//! A transaction, with its statements as templates (`dialect.rs`).

use tokio::runtime::Handle;
use tokio::sync::SemaphorePermit;

use crate::db::database::{Connection, FromRow, Purpose, Row, TransactionEnd, Value};
use crate::db::dialect::{Dialect, Upsert};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};
use crate::db::pool::Pool;

/// A transaction. It is rolled back when it is dropped.
pub(crate) struct Transaction<'p> {
    pub(crate) pool: &'p Pool,
    /// The connection; `None` after the end of the transaction.
    connection: Option<Box<dyn Connection>>,
    end: TransactionEnd,
    pub(super) permit: Option<SemaphorePermit<'p>>,
}

impl<'p> Transaction<'p> {
    pub(super) async fn begin(
        pool: &'p Pool,
        connection: Box<dyn Connection>,
        purpose: Purpose,
    ) -> Result<Self> {
        // If this future is dropped before the transaction has begun, the connection is closed.
        let end = TransactionEnd::default();
        let mut transaction = Self { pool, connection: Some(connection), end, permit: None };
        transaction.end = pool.driver.begin(transaction.connection()?, purpose).await?;
        Ok(transaction)
    }

    fn connection(&mut self) -> Result<&mut dyn Connection> {
        match &mut self.connection {
            Some(connection) => Ok(&mut **connection),
            None => Err(DatabaseError::new(DatabaseErrorKind::Other, "the transaction has ended")),
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.pool.dialect()
    }

    /// Runs one statement.
    pub(crate) async fn rows(&mut self, template: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.pool.count_statement();
        let sql = self.pool.sql(template);
        self.connection()?.rows(&sql, values).await
    }

    /// Runs a script of several statements, which is not a template.
    pub(crate) async fn script(&mut self, sql: &str) -> Result<()> {
        self.pool.count_statement();
        self.connection()?.script(sql).await
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        let commit = std::mem::take(&mut self.end.commit);
        self.script(&commit).await?;
        self.connection = None;
        Ok(())
    }

    /// Returns the rows as values of another type.
    pub(crate) async fn read<T: FromRow>(&mut self, template: &str) -> Result<Vec<T>> {
        self.rows(template, &[]).await?.into_iter().map(T::from_row).collect()
    }

    /// Returns the first row.
    pub(crate) async fn row(
        &mut self,
        template: &str,
        values: &[Value<'_>],
    ) -> Result<Option<Row>> {
        Ok(self.rows(template, values).await?.into_iter().next())
    }

    /// Returns the number in the first column of the first row, or 0 if there is no row.
    pub(crate) async fn number(&mut self, template: &str, values: &[Value<'_>]) -> Result<i64> {
        self.row(template, values).await?.map_or(Ok(0), |mut row| row.int())
    }

    pub(crate) async fn exists(&mut self, template: &str, values: &[Value<'_>]) -> Result<bool> {
        Ok(self.row(template, values).await?.is_some())
    }

    pub(crate) async fn run(&mut self, template: &str, values: &[Value<'_>]) -> Result<()> {
        self.rows(template, values).await.map(drop)
    }

    /// Upserts rows of one table. The keys must differ, and all rows must fit into one statement.
    pub(crate) async fn upsert_all(&mut self, rows: &[Upsert<'_>]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        if let Some(statement) = first.upsert_statement(rows.len(), self.dialect()) {
            let values: Vec<Value<'_>> = rows.iter().flat_map(Upsert::insert_values).collect();
            return self.run(&statement, &values).await;
        }
        for row in rows {
            self.update_or_insert(row).await?;
        }
        Ok(())
    }

    pub(crate) async fn upsert(&mut self, row: &Upsert<'_>) -> Result<()> {
        self.upsert_all(std::slice::from_ref(row)).await
    }

    async fn update_or_insert(&mut self, row: &Upsert<'_>) -> Result<()> {
        let keys: Vec<Value<'_>> = row.keys.iter().map(|(_, value)| *value).collect();
        if self.exists(&row.exists(), &keys).await? {
            self.run(&row.update(), &row.update_values()).await
        } else {
            self.run(&row.insert(), &row.insert_values()).await
        }
    }
}

/// Rolls back in a task, or by closing the connection.
impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        match (self.end.rollback.take(), Handle::try_current()) {
            (Some(rollback), Ok(runtime)) => {
                runtime.spawn(async move {
                    if connection.script(&rollback).await.is_err() {
                        connection.close();
                    }
                });
            }
            _ => connection.close(),
        }
    }
}
