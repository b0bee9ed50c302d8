//! A transaction of the store.

use super::SqlStore;
use crate::db::database::{Row, Value};
use crate::db::dialect::{Dialect, Upsert};
use crate::db::pool::PoolTransaction;
use crate::store::Result;

/// A transaction. It is rolled back when it is dropped.
pub(super) struct StoreTransaction<'s> {
    pub(super) store: &'s SqlStore,
    transaction: PoolTransaction,
}

impl<'s> StoreTransaction<'s> {
    pub(super) fn new(store: &'s SqlStore, transaction: PoolTransaction) -> Self {
        Self { store, transaction }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.store.dialect()
    }

    pub(super) async fn rows(&mut self, template: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        Ok(self.transaction.rows(&self.store.sql(template), values).await?)
    }

    /// Returns the first row.
    pub(super) async fn row(
        &mut self,
        template: &str,
        values: &[Value<'_>],
    ) -> Result<Option<Row>> {
        Ok(self.rows(template, values).await?.into_iter().next())
    }

    /// Returns the number in the first column of the first row, or 0 if there is no row.
    pub(super) async fn number(&mut self, template: &str, values: &[Value<'_>]) -> Result<i64> {
        self.row(template, values).await?.map_or(Ok(0), |mut row| Ok(row.int()?))
    }

    pub(super) async fn is_there(&mut self, template: &str, values: &[Value<'_>]) -> Result<bool> {
        Ok(self.row(template, values).await?.is_some())
    }

    pub(super) async fn run(&mut self, template: &str, values: &[Value<'_>]) -> Result<()> {
        self.rows(template, values).await.map(drop)
    }

    /// Upserts rows of one table with different keys. There must not be more than fit into one statement.
    pub(super) async fn upsert_all(&mut self, rows: &[Upsert<'_>]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        if let Some(all) = first.in_one(rows.len(), self.dialect()) {
            let values: Vec<Value<'_>> = rows.iter().flat_map(Upsert::insert_values).collect();
            return self.run(&all, &values).await;
        }
        for row in rows {
            self.update_or_insert(row).await?;
        }
        Ok(())
    }

    pub(super) async fn upsert(&mut self, row: &Upsert<'_>) -> Result<()> {
        self.upsert_all(std::slice::from_ref(row)).await
    }

    async fn update_or_insert(&mut self, row: &Upsert<'_>) -> Result<()> {
        let keys: Vec<Value<'_>> = row.keys.iter().map(|(_, value)| *value).collect();
        if self.is_there(&row.exists(), &keys).await? {
            self.run(&row.update(), &row.update_values()).await
        } else {
            self.run(&row.insert(), &row.insert_values()).await
        }
    }

    /// Increments a counter and returns its new value. Other writers of the counter wait.
    pub(super) async fn next_number(&mut self, counter: &str) -> Result<i64> {
        let raise = "UPDATE callgate_revisions SET value = value + 1 WHERE name = ?";
        self.run(raise, &[counter.into()]).await?;
        self.change_counter(counter).await
    }

    pub(super) async fn change_counter(&mut self, counter: &str) -> Result<i64> {
        let sql = "SELECT value FROM callgate_revisions WHERE name = ?";
        self.number(sql, &[counter.into()]).await
    }

    pub(super) async fn commit(self) -> Result<()> {
        Ok(self.transaction.commit().await?)
    }
}
