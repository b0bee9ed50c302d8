//! What a table has, in a few bytes: the same in each database that has the same rows.

use sha2::{Digest as _, Sha256};

use super::page::{self, Page};
use super::{CopyError, row_shown};
use crate::connect::DatabaseUrl;
use crate::sql::{Cell, Dialect};
use crate::sql_store::Work;
use crate::sql_store::contents::{TABLES, Table};
use crate::store::{Result, StoreError};

/// So many rows, and the sum of what each of them hashes to. The order does not count: databases have
/// several for the same texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sum {
    pub(super) rows: u64,
    hashes: [u64; 4],
}

impl Sum {
    fn add(&mut self, row: &[Cell]) {
        let hash = hash(row);
        let parts = hash.as_chunks::<8>().0.iter().map(|part| u64::from_be_bytes(*part));
        for (sum, part) in self.hashes.iter_mut().zip(parts) {
            *sum = sum.wrapping_add(part);
        }
        self.rows += 1;
    }

    fn bytes(&self) -> impl Iterator<Item = [u8; 8]> {
        std::iter::once(self.rows).chain(self.hashes).map(u64::to_be_bytes)
    }
}

/// A hash of what all tables have.
pub(super) fn of_all(sums: &[Sum]) -> [u8; 32] {
    let bytes = sums.iter().flat_map(Sum::bytes);
    bytes.fold(Sha256::new(), Sha256::chain_update).finalize().into()
}

/// Null is not empty, and no two columns can be taken for one.
fn hash(row: &[Cell]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for cell in row {
        match cell {
            Cell::Null => hash.update([0]),
            Cell::Int(number) => {
                hash.update([1]);
                hash.update(number.to_be_bytes());
            }
            Cell::Text(text) | Cell::Broken(text) => {
                hash.update([2]);
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text);
            }
        }
    }
    hash.finalize().into()
}

/// Why the source could not be looked through.
pub(super) enum Failure {
    Store(StoreError),
    Unfit(CopyError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    pub(super) fn told(self, from: &DatabaseUrl) -> CopyError {
        match self {
            Self::Store(error) => CopyError::From(from.to_string(), error),
            Self::Unfit(error) => error,
        }
    }
}

/// Sums up the source, and looks whether the target can keep all of it.
pub(super) async fn survey(
    moment: &mut Work<'_>,
    target: Dialect,
) -> std::result::Result<Vec<Sum>, Failure> {
    let mut sums = Vec::new();
    for table in TABLES {
        refuse_odd_keys(moment, table).await?;
        let mut sum = Sum::default();
        let mut after = None;
        loop {
            let page = Page::read(moment, table, after.as_deref()).await?;
            refuse_unfit(moment, table, &page, target)?;
            page.rows().iter().for_each(|row| sum.add(row));
            after = page.last();
            if after.is_none() {
                break;
            }
        }
        sums.push(sum);
    }
    Ok(sums)
}

/// Sums up a table.
pub(super) async fn of_table(moment: &mut Work<'_>, table: &'static Table) -> Result<Sum> {
    let mut sum = Sum::default();
    let mut after = None;
    loop {
        let page = Page::read(moment, table, after.as_deref()).await?;
        page.rows().iter().for_each(|row| sum.add(row));
        after = page.last();
        if after.is_none() {
            return Ok(sum);
        }
    }
}

async fn refuse_odd_keys(moment: &mut Work<'_>, table: &Table) -> std::result::Result<(), Failure> {
    let Some((column, count)) = page::odd_keys(moment, table).await? else { return Ok(()) };
    let (table, row) = (moment.store.tables.expand(table.name), format!("{count} rows"));
    let why = "is not what such a column must be".to_owned();
    Err(Failure::Unfit(CopyError::Unfit { table, row, column, why }))
}

fn refuse_unfit(
    moment: &Work<'_>,
    table: &Table,
    page: &Page,
    target: Dialect,
) -> std::result::Result<(), Failure> {
    for (number, row) in page.rows().iter().enumerate() {
        for (column, cell) in table.columns.iter().zip(row) {
            if let Some(why) = column.kind.misfit(cell, target) {
                return Err(Failure::Unfit(CopyError::Unfit {
                    table: moment.store.tables.expand(table.name),
                    row: row_shown(table, page, number),
                    column: column.name,
                    why,
                }));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_not_empty_and_the_border_between_columns_counts() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let rows = [
            [Cell::Null, text("")],
            [text(""), Cell::Null],
            [text("ab"), text("c")],
            [text("a"), text("bc")],
            [Cell::Int(1), text("1")],
            [text("1"), Cell::Int(1)],
        ];
        let sums = rows.each_ref().map(|row| {
            let mut sum = Sum::default();
            sum.add(row);
            sum
        });
        for (at, sum) in sums.iter().enumerate() {
            assert!(!sums[..at].contains(sum), "{:?}", rows[at]);
        }
        let both = |order: [usize; 2]| {
            let mut sum = Sum::default();
            for row in order {
                sum.add(&rows[row]);
            }
            sum
        };
        assert_eq!(both([0, 3]), both([3, 0]));
        assert_ne!(both([0, 3]), both([0, 0]));
    }
}
