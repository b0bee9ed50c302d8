//! The target's note of how far a copy has come.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::page;
use super::sum::{Sum, of_all};
use crate::connect::DatabaseUrl;
use crate::dialect::Upsert;
use crate::hex::to_hex;
use crate::migrate::COPY;
use crate::sql::{Cell, Purpose};
use crate::sql_store::contents::{TABLES, Table};
use crate::sql_store::{SqlStore, Work};
use crate::store::{Result, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// Where it comes from, without the password.
    from: String,
    /// Of what all tables of the source had.
    sum: String,
    /// Tells this run from others.
    run: String,
    /// The table that it has come to, and the last row there.
    table: String,
    after: Option<Vec<serde_json::Value>>,
}

impl Note {
    pub(super) fn new(from: &DatabaseUrl, sums: &[Sum]) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = format!("{}-{}", std::process::id(), since.as_nanos());
        let first = TABLES.first().map_or("", |table| table.name).to_owned();
        Self { from: from.to_string(), sum: to_hex(&of_all(sums)), run, table: first, after: None }
    }

    /// Goes on where another run ended, if that was of the same rows.
    pub(super) fn goes_on(&mut self, begun: &Self) -> bool {
        if begun.sum != self.sum || !TABLES.iter().any(|table| begun.is_at(table)) {
            return false;
        }
        self.table.clone_from(&begun.table);
        self.after.clone_from(&begun.after);
        true
    }

    /// Of what all tables of the source had, as 64 digits.
    pub(super) fn sum(&self) -> &str {
        &self.sum
    }

    /// No run goes on behind this one.
    pub(super) fn forget(&mut self) {
        self.sum.clear();
    }

    pub(super) fn is_at(&self, table: &Table) -> bool {
        self.table == table.name
    }

    pub(super) fn after(&self) -> Result<Option<Vec<Cell>>> {
        self.after.as_deref().map(page::read_key).transpose()
    }

    pub(super) fn move_to(&mut self, table: &Table, last: &[Cell]) {
        table.name.clone_into(&mut self.table);
        self.after = Some(page::written(last));
    }

    pub(super) fn is_ours(&self, found: Option<&Self>) -> bool {
        found.is_some_and(|found| found.run == self.run)
    }

    pub(super) async fn write(&self, work: &mut Work<'_>) -> Result<()> {
        let text = serde_json::to_string(self).unwrap_or_default();
        let row = Upsert {
            table: "callgate_meta",
            keys: &[("name", COPY.into())],
            columns: &[("value", (&text).into())],
            once: &[],
        };
        work.upsert(&row).await
    }
}

pub(super) async fn read(store: &SqlStore) -> Result<Option<Note>> {
    in_work(&mut store.begin(Purpose::Read).await?).await
}

pub(super) async fn in_work(work: &mut Work<'_>) -> Result<Option<Note>> {
    let template = "SELECT value FROM callgate_meta WHERE name = ?";
    let Some(mut row) = work.row(template, &[COPY.into()]).await? else { return Ok(None) };
    let text = row.text();
    serde_json::from_str(&text).map(Some).map_err(|_| StoreError::Unreadable(text))
}

pub(super) async fn remove(work: &mut Work<'_>) -> Result<()> {
    work.run("DELETE FROM callgate_meta WHERE name = ?", &[COPY.into()]).await
}
