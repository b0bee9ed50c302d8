//! Some rows of a table, in the order of their keys.

use crate::dialect::placeholder;
use crate::sql::{Cell, Dialect, Row, Value};
use crate::sql_store::Work;
use crate::sql_store::contents::{Column, Kind, Table};
use crate::store::{Result, StoreError};

/// So many rows are in memory at once.
const MAX_ROWS: usize = 500;
/// So many values are in a statement: SQL Server takes 2,100.
const MAX_VALUES: usize = 2_000;
/// So many characters of a key are shown.
const MAX_SHOWN: usize = 80;

#[derive(Debug)]
pub(super) struct Page {
    table: &'static Table,
    rows: Vec<Vec<Cell>>,
}

impl Page {
    /// The rows behind a key; the first ones, if there is none.
    pub(super) async fn read(
        moment: &mut Work<'_>,
        table: &'static Table,
        after: Option<&[Cell]>,
    ) -> Result<Self> {
        let (behind, values) = after.map_or((String::new(), Vec::new()), |key| behind(table, key));
        let conditions = [table.condition, &behind].map(ToOwned::to_owned);
        let conditions: Vec<_> = conditions.into_iter().filter(|one| !one.is_empty()).collect();
        let condition = match conditions.as_slice() {
            [] => String::new(),
            all => format!("WHERE {}", all.join(" AND ")),
        };
        let dialect = moment.dialect();
        let columns = table.columns.iter().map(|column| column.template(dialect));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let order = names(table.keys());
        let template = format!(
            "SELECT {columns} FROM {} {condition} ORDER BY {order} {{limit {MAX_ROWS}}}",
            table.name
        );
        let rows = moment.rows(&template, &values).await?;
        Ok(Self { table, rows: rows.into_iter().map(|row| cells(table, row)).collect() })
    }

    pub(super) fn of_one(table: &'static Table, row: Vec<Cell>) -> Self {
        Self { table, rows: vec![row] }
    }

    pub(super) fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// What a row is known by.
    pub(super) fn keys(&self, row: usize) -> Vec<Cell> {
        let row = self.rows.get(row).map(Vec::as_slice).unwrap_or_default();
        row.iter().take(self.table.keys().len()).cloned().collect()
    }

    /// What the last row is known by, if there is one.
    pub(super) fn last(&self) -> Option<Vec<Cell>> {
        Some(self.keys(self.rows.len().checked_sub(1)?))
    }

    pub(super) async fn write(&self, work: &mut Work<'_>) -> Result<()> {
        for rows in self.rows.chunks((MAX_VALUES / self.table.columns.len()).max(1)) {
            let mut values = Vec::new();
            let mut written = Vec::new();
            for row in rows {
                let kinds = self.table.columns.iter().map(|column| column.kind);
                let row: Vec<Value<'_>> =
                    kinds.zip(row).map(|(kind, cell)| kind.value(cell)).collect();
                let places = row.iter().map(placeholder).collect::<Vec<_>>().join(", ");
                written.push(format!("({places})"));
                values.extend(row);
            }
            let (name, columns) = (self.table.name, names(self.table.columns));
            let insert = format!("INSERT INTO {name} ({columns}) VALUES {}", written.join(", "));
            let insert = if self.table.is_numbered() {
                work.dialect().with_given_id(name, &insert)
            } else {
                insert
            };
            work.run(&insert, &values).await?;
        }
        Ok(())
    }
}

/// Removes what a copy may have written.
pub(super) async fn clear(work: &mut Work<'_>, table: &Table) -> Result<()> {
    work.run(&format!("DELETE FROM {}", meant(table)), &[]).await
}

/// How many rows there are.
pub(super) async fn count(work: &mut Work<'_>, table: &Table) -> Result<u64> {
    let row = work.row(&format!("SELECT COUNT(*) FROM {}", meant(table)), &[]).await?;
    Ok(row.map_or(Ok(0), |mut row| row.int())?.unsigned_abs())
}

/// A table and which of its rows are meant.
fn meant(table: &Table) -> String {
    match table.condition {
        "" => table.name.to_owned(),
        condition => format!("{} WHERE {condition}", table.name),
    }
}

/// In SQLite a key may be anything; pages are known by keys that are what they must be. How many are not.
pub(super) async fn odd_keys(
    moment: &mut Work<'_>,
    table: &Table,
) -> Result<Option<(&'static str, i64)>> {
    if moment.dialect() != Dialect::Sqlite {
        return Ok(None);
    }
    for column in table.keys() {
        let kind = if column.kind == Kind::Int { "integer" } else { "text" };
        let template = format!(
            "SELECT COUNT(*) FROM {} WHERE typeof({{name {}}}) <> '{kind}'",
            table.name, column.name
        );
        let count = moment.row(&template, &[]).await?.map_or(Ok(0), |mut row| row.int())?;
        if count > 0 {
            return Ok(Some((column.name, count)));
        }
    }
    Ok(None)
}

/// A key, for people.
pub(super) fn shown(key: &Cell) -> String {
    match key {
        Cell::Null => "null".to_owned(),
        Cell::Int(number) => number.to_string(),
        Cell::Text(text) | Cell::Broken(text) => {
            let start: String = text.chars().take(MAX_SHOWN).collect();
            format!("`{}`", start.escape_debug())
        }
    }
}

/// The condition of rows behind a key, and its values: `a > ? OR (a = ? AND b > ?)`.
fn behind<'a>(table: &Table, key: &'a [Cell]) -> (String, Vec<Value<'a>>) {
    let keys: Vec<(&Column, &Cell)> = table.keys().iter().zip(key).collect();
    let mut values = Vec::new();
    let mut ways = Vec::new();
    for (at, (column, cell)) in keys.iter().enumerate() {
        let same = keys.iter().take(at);
        let mut parts = Vec::new();
        for (column, cell) in same {
            parts.push(format!("{{name {}}} = ?", column.name));
            values.push(column.kind.value(cell));
        }
        parts.push(format!("{{name {}}} > ?", column.name));
        values.push(column.kind.value(cell));
        ways.push(format!("({})", parts.join(" AND ")));
    }
    (format!("({})", ways.join(" OR ")), values)
}

fn names(columns: &[Column]) -> String {
    let names = columns.iter().map(|column| format!("{{name {}}}", column.name));
    names.collect::<Vec<_>>().join(", ")
}

fn cells(table: &Table, mut row: Row) -> Vec<Cell> {
    table.columns.iter().map(|column| column.kind.canonical(row.cell())).collect()
}

/// A key as it is noted.
pub(super) fn written(key: &[Cell]) -> Vec<serde_json::Value> {
    key.iter()
        .map(|cell| match cell {
            Cell::Null => serde_json::Value::Null,
            Cell::Int(number) => (*number).into(),
            Cell::Text(text) | Cell::Broken(text) => text.as_str().into(),
        })
        .collect()
}

/// A key as it was noted.
pub(super) fn read_key(noted: &[serde_json::Value]) -> Result<Vec<Cell>> {
    let read = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => Some(Cell::Text(text.clone())),
        value => value.as_i64().map(Cell::Int),
    };
    let key: Option<Vec<Cell>> = noted.iter().map(read).collect();
    key.ok_or_else(|| StoreError::Unreadable(serde_json::Value::from(noted).to_string()))
}
