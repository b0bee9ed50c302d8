//! All rows of a registry in memory.

use sha2::{Digest as _, Sha256};

use super::CopyError;
use crate::db::column::Kind;
use crate::db::database::{Cell, Purpose, Value};
use crate::db::dialect::{Dialect, placeholder};
use crate::db::error::Result;
use crate::db::schema::{self, Table};
use crate::db::table_names::TableNames;
use crate::db::transaction::Transaction;
use crate::store::SqlStore;

/// Maximum number of values in a statement. SQL Server accepts 2,100.
const MAX_VALUES: usize = 2_000;
/// Maximum number of characters of a key that a message shows.
const MAX_KEY_CHARS: usize = 80;

/// Tables that are not copied, because they belong to running servers.
const NOT_COPIED: [&str; 3] = ["callgate_messages", "callgate_revisions", "callgate_servers"];

/// Returns the tables to copy, in the order in which they are written.
fn tables() -> impl Iterator<Item = &'static Table> {
    schema::TABLES.iter().filter(|table| !NOT_COPIED.contains(&table.name))
}

/// Rows of all copied tables.
pub(super) struct Content(Vec<TableContent>);

struct TableContent {
    table: &'static Table,
    rows: Vec<Vec<Cell>>,
    /// Highest id that the database has assigned.
    last_assigned_id: Option<i64>,
}

impl Content {
    /// Reads a consistent state of a registry.
    pub(super) async fn read(store: &SqlStore) -> Result<Self> {
        let mut transaction = store.database.begin(Purpose::Read).await?;
        let mut contents = Vec::new();
        for table in tables() {
            let rows = read(&mut transaction, table).await?;
            let mut last_assigned_id = None;
            if table.key == "id" {
                let template = transaction.dialect().last_assigned_id(table.name);
                last_assigned_id =
                    transaction.row(&template, &[]).await?.map(|mut row| row.int()).transpose()?;
            }
            contents.push(TableContent { table, rows, last_assigned_id });
        }
        Ok(Self(contents))
    }

    /// Returns an error for values that the target cannot store. `names` are the table names of the source.
    pub(super) fn check_values(
        &self,
        target: Dialect,
        names: &TableNames,
    ) -> std::result::Result<(), CopyError> {
        for TableContent { table, rows, .. } in &self.0 {
            let columns = table.stored_columns();
            for row in rows {
                for ((column, ty), cell) in columns.iter().zip(row) {
                    if let Some(reason) = ty.mismatch(cell, target) {
                        let (table, row) = (names.expand(table.name), format_key(table, row));
                        return Err(CopyError::Incompatible { table, row, column, reason });
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn sums(&self) -> Vec<TableChecksum> {
        self.0.iter().map(|content| TableChecksum::of(content.table, &content.rows)).collect()
    }

    /// Writes all rows and advances the id sequences.
    pub(super) async fn write(
        &self,
        transaction: &mut Transaction<'_>,
        on_table: &mut (dyn FnMut(&str) + Send),
    ) -> Result<()> {
        for TableContent { table, rows, last_assigned_id } in &self.0 {
            on_table(&transaction.pool.tables.expand(table.name));
            write(transaction, table, rows).await?;
            if let Some(last) = last_assigned_id {
                advance_sequence(transaction, table, *last).await?;
            }
        }
        let highest = "SELECT MAX(number) FROM callgate_sessions";
        let highest = transaction.number(highest, &[]).await?;
        let update =
            "UPDATE callgate_revisions SET value = ? WHERE name = 'sessions' AND value < ?";
        transaction.run(update, &[highest.into(), highest.into()]).await
    }
}

/// Returns the checksums of all copied tables.
pub(super) async fn checksums(transaction: &mut Transaction<'_>) -> Result<Vec<TableChecksum>> {
    let mut sums = Vec::new();
    for table in tables() {
        sums.push(TableChecksum::of(table, &read(transaction, table).await?));
    }
    Ok(sums)
}

/// Reads a table and converts its values to the canonical form.
async fn read(transaction: &mut Transaction<'_>, table: &Table) -> Result<Vec<Vec<Cell>>> {
    let columns = table.stored_columns();
    // In SQLite, values are read unchanged. In other databases, times are converted to Unix time.
    let is_sqlite = transaction.dialect() == Dialect::Sqlite;
    let selected = columns.iter().map(|(name, ty)| {
        let mark = if ty.kind == Kind::Time && !is_sqlite { "seconds" } else { "name" };
        format!("{{{mark} {name}}}")
    });
    let selected = selected.collect::<Vec<_>>().join(", ");
    // The row with the table names is not copied.
    let is_meta = table.name == "callgate_meta";
    let condition = if is_meta { " WHERE name <> 'tables'" } else { "" };
    let template = format!("SELECT {selected} FROM {}{condition}", table.name);
    let rows = transaction.rows(&template, &[]).await?.into_iter();
    let rows =
        rows.map(|mut row| columns.iter().map(|(_, ty)| ty.kind.canonical(row.cell())).collect());
    Ok(rows.collect())
}

async fn write(transaction: &mut Transaction<'_>, table: &Table, rows: &[Vec<Cell>]) -> Result<()> {
    let columns = table.stored_columns();
    let names = columns.iter().map(|(name, _)| format!("{{name {name}}}"));
    let names = names.collect::<Vec<_>>().join(", ");
    for rows in rows.chunks((MAX_VALUES / columns.len()).max(1)) {
        let mut values = Vec::new();
        let mut tuples = Vec::new();
        for row in rows {
            let row = columns.iter().zip(row).map(|((_, ty), cell)| ty.kind.value(cell));
            let row: Vec<Value<'_>> = row.collect();
            let placeholders = row.iter().map(placeholder).collect::<Vec<_>>().join(", ");
            tuples.push(format!("({placeholders})"));
            values.extend(row);
        }
        let rows = tuples.join(", ");
        let mut insert = format!("INSERT INTO {} ({names}) VALUES {rows}", table.name);
        if table.key == "id" {
            insert = transaction.dialect().insert_with_id(table.name, &insert);
        }
        transaction.run(&insert, &values).await?;
    }
    Ok(())
}

/// Advances an id sequence beyond the ids of the source, because tokens and grants may still refer to the ids of
/// deleted users. For this, inserts and deletes a row, which works in every database.
async fn advance_sequence(
    transaction: &mut Transaction<'_>,
    table: &Table,
    last: i64,
) -> Result<()> {
    let highest = format!("SELECT MAX(id) FROM {}", table.name);
    let highest = transaction.number(&highest, &[]).await?;
    if last <= highest {
        return Ok(());
    }
    let others = table.stored_columns().into_iter().skip(1).map(|(_, ty)| unique_value(ty.kind));
    let row = std::iter::once(Cell::Int(last)).chain(others).collect();
    write(transaction, table, &[row]).await?;
    transaction.run(&format!("DELETE FROM {} WHERE id = ?", table.name), &[last.into()]).await
}

/// Returns a value that is valid and unique in a column.
fn unique_value(kind: Kind) -> Cell {
    match kind {
        Kind::Int => Cell::Int(i64::MIN),
        Kind::Small | Kind::Flag | Kind::Time => Cell::Int(0),
        Kind::Json | Kind::Schema | Kind::ParamsBy | Kind::Generated => Cell::Null,
        Kind::Text | Kind::Digest => Cell::Text("-".repeat(64)),
    }
}

/// Formats the key of a row for messages.
fn format_key(table: &Table, row: &[Cell]) -> String {
    let format_cell = |cell: &Cell| match cell {
        Cell::Null => "null".to_owned(),
        Cell::Int(number) => number.to_string(),
        Cell::Text(text) | Cell::Broken(text) => {
            let start: String = text.chars().take(MAX_KEY_CHARS).collect();
            format!("`{}`", start.escape_debug())
        }
    };
    let keys = table.stored_columns().into_iter().take(table.key.split(", ").count()).zip(row);
    let keys = keys.map(|((name, _), cell)| format!("{name} {}", format_cell(cell)));
    keys.collect::<Vec<_>>().join(", ")
}

/// Number of rows and sum of their hashes. The sum does not depend on the order of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableChecksum {
    pub(super) table: &'static str,
    pub(super) rows: u64,
    hashes: [u64; 4],
}

impl TableChecksum {
    fn of(table: &Table, rows: &[Vec<Cell>]) -> Self {
        let mut sum = Self { table: table.name, rows: rows.len() as u64, hashes: [0; 4] };
        for row in rows {
            let hash = hash(row);
            let parts = hash.as_chunks::<8>().0.iter().map(|part| u64::from_be_bytes(*part));
            for (sum, part) in sum.hashes.iter_mut().zip(parts) {
                *sum = sum.wrapping_add(part);
            }
        }
        sum
    }
}

/// Returns a hash that distinguishes null from the empty text and separates columns.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_distinguish_null_types_and_column_boundaries_and_ignore_the_order() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let rows = [
            vec![Cell::Null, text("")],
            vec![text(""), Cell::Null],
            vec![text("ab"), text("c")],
            vec![text("a"), text("bc")],
            vec![Cell::Int(1), text("1")],
            vec![text("1"), Cell::Int(1)],
        ];
        let checksum = |rows: &[Vec<Cell>]| TableChecksum::of(&schema::MIGRATIONS, rows);
        let sums = rows.each_ref().map(|row| checksum(std::slice::from_ref(row)));
        for (index, sum) in sums.iter().enumerate() {
            assert!(!sums[..index].contains(sum), "{:?}", rows[index]);
        }
        let checksum_of_both = |order: [usize; 2]| checksum(&order.map(|row| rows[row].clone()));
        assert_eq!(checksum_of_both([0, 3]), checksum_of_both([3, 0]));
        assert_ne!(checksum_of_both([0, 3]), checksum_of_both([0, 0]));
    }
}
