//! Fingerprints of tables, to detect changes.
//!
//! A fingerprint is the sum of the hashes of all rows. With CRCs combined by XOR instead, a swap of values between two
//! rows would not change the result.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::layout::{FoundTable, Layout, Table};
use super::read::{as_text, condition};
use crate::db::database::{Cell, Row};
use crate::db::dialect::Dialect;

/// Fingerprints by table.
pub(crate) type Fingerprints = HashMap<Table, u64>;

/// Returns one statement that reads the fingerprints of tables, or `None` if no table exists. Each row has the index of
/// a table and a value to add. The row of users also has the value of tokens, which are in the same table.
pub(super) fn statement(tables: &[Table], layout: &Layout, dialect: Dialect) -> Option<String> {
    let has = |table: &Table| tables.contains(table) && layout.found(*table).is_some();
    let is_one = has(&Table::Users) && has(&Table::Tokens);
    let is_read = |table: &Table| has(table) && !(is_one && *table == Table::Tokens);
    let parts = Table::ALL.iter().enumerate().filter(|(_, table)| is_read(table));
    let parts = parts.filter_map(|(index, table)| {
        let found = layout.found(*table)?;
        let content = content(found, dialect)?;
        let tokens = layout.found(Table::Tokens).filter(|_| is_one && *table == Table::Users);
        let tokens = tokens.and_then(|found| self::content(found, dialect));
        let tokens = tokens.unwrap_or_else(|| "NULL".to_owned());
        let from = format!("FROM {}{}", found.table, condition(*table, found));
        Some(format!("SELECT {index}, {content}, {tokens} {from}"))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(" UNION ALL "))
}

/// Returns the SQL expression for the values that [`sum`] adds: in SQLite the content of each row, in SQL Server the
/// hash of each row, and in the other databases the number of rows and the sum of their hashes. Returns `None` if the
/// table has no known column.
fn content(found: &FoundTable, dialect: Dialect) -> Option<String> {
    let columns: Vec<String> =
        found.columns.iter().flatten().map(|column| as_text(column, dialect)).collect();
    if columns.is_empty() {
        return None;
    }
    let listed = columns.join(", ");
    Some(match dialect {
        // SQLite has no hash function, so rows are hashed in this process.
        Dialect::Sqlite => {
            let quoted: Vec<String> = columns.iter().map(|it| format!("quote({it})")).collect();
            quoted.join(" || ',' || ")
        }
        Dialect::Postgres => format!(
            "COUNT(*) || ':' || COALESCE(SUM(hashtextextended(CAST(ROW({listed}) AS TEXT), 0)), 0)"
        ),
        Dialect::MySql => {
            let quoted: Vec<String> = columns.iter().map(|it| format!("QUOTE({it})")).collect();
            let digest = format!("MD5(CONCAT_WS(',', {}))", quoted.join(", "));
            let number = format!("CAST(CONV(SUBSTRING({digest}, 1, 15), 16, 10) AS UNSIGNED)");
            format!("CONCAT(COUNT(*), ':', COALESCE(SUM({number}), 0))")
        }
        Dialect::SqlServer => {
            // The length distinguishes null from the empty text, and separates columns.
            let sized = columns.iter().map(|it| format!("DATALENGTH({it}), ':', {it}, ','"));
            let sized = sized.collect::<Vec<_>>().join(", ");
            format!("CAST(CAST(HASHBYTES('SHA2_256', CONCAT({sized})) AS BINARY(7)) AS BIGINT)")
        }
    })
}

/// Computes fingerprints from the result of [`statement`]. The fingerprint of a missing table is 0.
pub(super) fn sum(tables: &[Table], rows: Vec<Row>) -> Fingerprints {
    let mut sums: Fingerprints = tables.iter().map(|table| (*table, 0)).collect();
    for mut row in rows {
        let index = row.int().ok().and_then(|index| usize::try_from(index).ok());
        let table = index.and_then(|index| Table::ALL.get(index));
        let Some(table) = table else { continue };
        let also = (*table == Table::Users).then_some(&Table::Tokens);
        for table in [Some(table), also].into_iter().flatten() {
            let content = row.cell();
            if let Some(sum) = sums.get_mut(table) {
                *sum = sum.wrapping_add(number(&content));
            }
        }
    }
    sums
}

fn number(content: &Cell) -> u64 {
    let mut hasher = DefaultHasher::new();
    match content {
        Cell::Null => {}
        Cell::Int(number) => number.hash(&mut hasher),
        Cell::Text(text) | Cell::Broken(text) => text.hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(contents: &[&str]) -> Vec<Row> {
        let cells = |text: &&str| vec![Cell::Int(1), Cell::Text((*text).to_owned())];
        contents.iter().map(|text| Row::new(cells(text))).collect()
    }

    #[test]
    fn rows_in_another_order_are_the_same_and_rows_that_exchange_values_are_not() {
        let of = |contents: &[&str]| sum(&[Table::Sections], rows(contents));
        assert_eq!(of(&["'1','a'", "'2','b'"]), of(&["'2','b'", "'1','a'"]));
        assert_ne!(of(&["'1','a'", "'2','b'"]), of(&["'1','b'", "'2','a'"]));
        assert_ne!(of(&["'1','a'"]), of(&["'1','a'", "'1','a'", "'1','a'"]));
        assert_eq!(of(&[]), HashMap::from([(Table::Sections, 0)]));
    }

    #[test]
    fn users_are_the_same_whether_their_tokens_are_looked_at_with_them_or_not() {
        let users = Table::ALL.iter().position(|table| *table == Table::Users).unwrap();
        let users = Cell::Int(users.try_into().unwrap());
        let cells = |tokens: Cell| vec![users.clone(), Cell::Text("u".to_owned()), tokens];
        let alone = sum(&[Table::Users], vec![Row::new(cells(Cell::Null))]);
        let tokens = Cell::Text("t".to_owned());
        let both = sum(&[Table::Users, Table::Tokens], vec![Row::new(cells(tokens))]);
        assert_eq!(alone[&Table::Users], both[&Table::Users]);
        assert_ne!(both[&Table::Tokens], both[&Table::Users]);
        assert_eq!(alone.len(), 1);
    }
}
