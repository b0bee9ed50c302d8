//! Fingerprints of tables, to detect changes.
//!
//! A fingerprint is the sum of the hashes of all rows. With CRCs combined by XOR instead, a swap of values between two
//! rows would not change the result.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::layout::{FestiTable, FoundTable, Layout};
use super::read::{as_text, condition};
use crate::db::database::{Cell, Row};
use crate::db::dialect::Dialect;

/// Fingerprints by table.
pub(crate) type Fingerprints = HashMap<FestiTable, u64>;

/// Returns one statement that reads the fingerprints of tables, or `None` if no table exists.
///
/// Each row of the result has the index of a table, and a value whose hash [`sum`] adds to the table's fingerprint.
/// Rows for the table of users can also have a value for tokens, which are in the same table.
pub(super) fn statement(
    tables: &[FestiTable],
    layout: &Layout,
    dialect: Dialect,
) -> Option<String> {
    let has = |table: &FestiTable| tables.contains(table) && layout.found(*table).is_some();
    let is_combined = has(&FestiTable::Users) && has(&FestiTable::Tokens);
    let is_read = |table: &FestiTable| has(table) && !(is_combined && *table == FestiTable::Tokens);
    let parts = FestiTable::ALL.iter().enumerate().filter(|(_, table)| is_read(table));
    let parts = parts.filter_map(|(index, table)| {
        let found = layout.found(*table)?;
        let content = content(found, dialect)?;
        let tokens =
            layout.found(FestiTable::Tokens).filter(|_| is_combined && *table == FestiTable::Users);
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
    let column_list = columns.join(", ");
    Some(match dialect {
        // SQLite has no hash function, so rows are hashed in this process.
        Dialect::Sqlite => {
            let quoted: Vec<String> =
                columns.iter().map(|column| format!("quote({column})")).collect();
            quoted.join(" || ',' || ")
        }
        Dialect::Postgres => format!(
            "COUNT(*) || ':' || COALESCE(SUM(hashtextextended(CAST(ROW({column_list}) AS TEXT), 0)), 0)"
        ),
        Dialect::MySql => {
            let quoted: Vec<String> =
                columns.iter().map(|column| format!("QUOTE({column})")).collect();
            let digest = format!("MD5(CONCAT_WS(',', {}))", quoted.join(", "));
            let number = format!("CAST(CONV(SUBSTRING({digest}, 1, 15), 16, 10) AS UNSIGNED)");
            format!("CONCAT(COUNT(*), ':', COALESCE(SUM({number}), 0))")
        }
        Dialect::SqlServer => {
            // The length distinguishes null from the empty text, and separates columns.
            let values =
                columns.iter().map(|column| format!("DATALENGTH({column}), ':', {column}, ','"));
            let values = values.collect::<Vec<_>>().join(", ");
            format!("CAST(CAST(HASHBYTES('SHA2_256', CONCAT({values})) AS BINARY(7)) AS BIGINT)")
        }
    })
}

/// Computes fingerprints from the result of [`statement`]. The fingerprint of a missing table is 0.
pub(super) fn sum(tables: &[FestiTable], rows: Vec<Row>) -> Fingerprints {
    let mut sums: Fingerprints = tables.iter().map(|table| (*table, 0)).collect();
    for mut row in rows {
        let index = row.int().ok().and_then(|index| usize::try_from(index).ok());
        let table = index.and_then(|index| FestiTable::ALL.get(index));
        let Some(table) = table else { continue };
        let tokens = (*table == FestiTable::Users).then_some(&FestiTable::Tokens);
        for table in [Some(table), tokens].into_iter().flatten() {
            let content = row.cell();
            if let Some(sum) = sums.get_mut(table) {
                *sum = sum.wrapping_add(hash(&content));
            }
        }
    }
    sums
}

fn hash(content: &Cell) -> u64 {
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
    fn fingerprints_ignore_the_order_of_rows_and_detect_swapped_values_and_duplicates() {
        let fingerprints = |contents: &[&str]| sum(&[FestiTable::Sections], rows(contents));
        assert_eq!(fingerprints(&["'1','a'", "'2','b'"]), fingerprints(&["'2','b'", "'1','a'"]));
        assert_ne!(fingerprints(&["'1','a'", "'2','b'"]), fingerprints(&["'1','b'", "'2','a'"]));
        assert_ne!(fingerprints(&["'1','a'"]), fingerprints(&["'1','a'", "'1','a'", "'1','a'"]));
        assert_eq!(fingerprints(&[]), HashMap::from([(FestiTable::Sections, 0)]));
    }

    #[test]
    fn the_fingerprint_of_users_is_the_same_with_and_without_tokens() {
        let users = FestiTable::ALL.iter().position(|table| *table == FestiTable::Users).unwrap();
        let users = Cell::Int(users.try_into().unwrap());
        let cells = |tokens: Cell| vec![users.clone(), Cell::Text("u".to_owned()), tokens];
        let users_only = sum(&[FestiTable::Users], vec![Row::new(cells(Cell::Null))]);
        let tokens = Cell::Text("t".to_owned());
        let both = sum(&[FestiTable::Users, FestiTable::Tokens], vec![Row::new(cells(tokens))]);
        assert_eq!(users_only[&FestiTable::Users], both[&FestiTable::Users]);
        assert_ne!(both[&FestiTable::Tokens], both[&FestiTable::Users]);
        assert_eq!(users_only.len(), 1);
    }
}
