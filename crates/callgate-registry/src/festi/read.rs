//! Reads rows of Festi's tables.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use callgate::access::TokenDigest;

use super::layout::{FestiTable, FoundTable, Layout};
use crate::db::database::Row;
use crate::db::dialect::Dialect;
use crate::db::transaction::Transaction;
use crate::festi::error::{FestiError, Result};
use crate::rows::{ActionRow, GrantRow, MethodRow, RoleRow, SectionRow, SettingRow, UserRow};

/// Maximum number of rows of a table.
const MAX_ROWS: usize = 200_000;

/// Reads tables in a transaction.
pub(super) struct TableReader<'t, 'p> {
    pub(super) transaction: &'t mut Transaction<'p>,
    pub(super) dialect: Dialect,
    pub(super) layout: &'t Layout,
}

impl TableReader<'_, '_> {
    pub(super) async fn read_rows<T>(
        &mut self,
        table: FestiTable,
        read: fn(Row) -> T,
    ) -> Result<Vec<T>> {
        Ok(self.rows(table).await?.into_iter().map(read).collect())
    }

    /// Reads a table whose rows have ids of users, roles or sections.
    pub(super) async fn read_rows_with_ids<T>(
        &mut self,
        table: FestiTable,
        read: impl Fn(&IdReader, Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        let name = self.layout.found(table).map(|found| found.name.clone());
        let ids = IdReader { table: name.unwrap_or_default() };
        self.rows(table).await?.into_iter().map(|row| read(&ids, row)).collect()
    }

    /// Reads user ids and digests of tokens.
    pub(super) async fn tokens(&mut self) -> Result<Vec<(i64, TokenDigest)>> {
        if !self.layout.has_tokens() {
            return Ok(Vec::new());
        }
        let tokens = self.read_rows_with_ids(FestiTable::Tokens, |ids, mut row| {
            let id = ids.required_id(&mut row, "id")?;
            // In columns of fixed length, values are padded with spaces.
            let token = row.text();
            let token = token.trim();
            Ok((!token.is_empty()).then(|| (id, TokenDigest::of(token))))
        });
        Ok(tokens.await?.into_iter().flatten().collect())
    }

    /// Returns the rows of a table, or no rows if the table is missing.
    async fn rows(&mut self, table: FestiTable) -> Result<Vec<Row>> {
        let Some(found) = self.layout.found(table) else { return Ok(Vec::new()) };
        let Some(sql) = select(table, found, self.dialect) else { return Ok(Vec::new()) };
        let rows = self.transaction.rows(&sql, &[]).await?;
        if rows.len() > MAX_ROWS {
            return Err(FestiError::TooManyRows { table: found.name.clone(), max: MAX_ROWS });
        }
        Ok(rows)
    }
}

/// Returns the query for a table, or `None` if the table has no known column.
fn select(table: FestiTable, found: &FoundTable, dialect: Dialect) -> Option<String> {
    let first = found.columns.iter().flatten().next()?;
    let column = |column: &Option<String>| match column {
        Some(column) => as_text(column, dialect),
        None => "NULL".to_owned(),
    };
    let columns: Vec<String> = found.columns.iter().map(column).collect();
    Some(format!(
        "SELECT {} FROM {}{} ORDER BY {first} {}",
        columns.join(", "),
        found.table,
        condition(table, found),
        dialect.limit(MAX_ROWS + 1, 0)
    ))
}

/// Returns the condition that selects the rows Callgate uses.
pub(super) fn condition(table: FestiTable, found: &FoundTable) -> String {
    match (table, found.columns.first()) {
        (FestiTable::Settings, Some(Some(name))) => {
            // Festi knows only these settings. Rate limits are set in the registry.
            let keys = callgate::gateway::SETTING_KEYS.iter().filter(|key| key.starts_with("mcp_"));
            let keys: Vec<&str> = keys.copied().collect();
            format!(" WHERE {name} IN ('{}')", keys.join("', '"))
        }
        _ => String::new(),
    }
}

/// Casts a column of any type to text.
pub(super) fn as_text(column: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => format!("CAST({column} AS TEXT)"),
        Dialect::MySql => format!("CAST({column} AS CHAR)"),
        Dialect::SqlServer => format!("CAST({column} AS NVARCHAR(MAX))"),
    }
}

/// Reads ids of users, roles and sections. A value that is not a number is an error, because two different users could
/// otherwise become the same user.
pub(super) struct IdReader {
    table: String,
}

impl IdReader {
    fn optional_id(&self, row: &mut Row, column: &'static str) -> Result<Option<i64>> {
        let Some(text) = row.optional_text() else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| self.not_a_number(column, text))
    }

    fn required_id(&self, row: &mut Row, column: &'static str) -> Result<i64> {
        let number = self.optional_id(row, column)?;
        number.ok_or_else(|| self.not_a_number(column, "NULL".to_owned()))
    }

    fn not_a_number(&self, column: &'static str, value: String) -> FestiError {
        FestiError::NotANumber { table: self.table.clone(), column, value }
    }
}

/// Returns a number. A text that is not a number becomes 0.
fn number(row: &mut Row) -> i64 {
    row.optional_text().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

pub(super) fn section(ids: &IdReader, mut row: Row) -> Result<SectionRow> {
    let id = ids.required_id(&mut row, "id")?;
    Ok(SectionRow { id, caption: row.text(), ident: row.text(), mask: row.text() })
}

pub(super) fn action(mut row: Row) -> ActionRow {
    let id_section = number(&mut row);
    ActionRow { id_section, plugin: row.text(), method: row.text(), mask: row.text() }
}

pub(super) fn role(mut row: Row) -> RoleRow {
    RoleRow { id: number(&mut row), caption: row.text() }
}

pub(super) fn user(ids: &IdReader, mut row: Row) -> Result<UserRow> {
    let (id, login) = (ids.required_id(&mut row, "id")?, row.text());
    let id_type = row.optional_text().and_then(|text| text.trim().parse().ok());
    Ok(UserRow { id, login, id_type, role: None })
}

/// Reads a grant to the user or role in `column`.
pub(super) fn grant(column: &'static str) -> impl Fn(&IdReader, Row) -> Result<GrantRow> {
    move |ids, mut row| {
        let id_section = ids.optional_id(&mut row, "id_section")?.unwrap_or_default();
        let id_holder = ids.optional_id(&mut row, column)?.unwrap_or_default();
        Ok(GrantRow { id_section, id_holder, value: row.text() })
    }
}

pub(super) fn setting(mut row: Row) -> SettingRow {
    SettingRow { name: row.text(), value: row.text() }
}

pub(super) fn method(mut row: Row) -> MethodRow {
    let id = row.optional_text().and_then(|text| text.trim().parse().ok());
    let read = MethodRow::from_cells(0, row.into_cells());
    MethodRow { id: id.unwrap_or_else(|| derived_id(&read.rpc_method)), ..read }
}

/// Returns an id for a method whose key is not a number. The id is derived from `rpc_method`.
fn derived_id(id: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    i64::try_from(hasher.finish() >> 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::database::Cell;

    fn row(cells: &[Option<&str>]) -> Row {
        let cell = |text: &str| Cell::Text(text.to_owned());
        Row::new(cells.iter().map(|text| text.map_or(Cell::Null, cell)).collect())
    }

    #[test]
    fn a_required_id_that_is_not_a_number_is_an_error() {
        let ids = IdReader { table: "users".to_owned() };
        assert_eq!(ids.required_id(&mut row(&[Some(" 7 ")]), "id").unwrap(), 7);
        for invalid in [Some("8c1f"), Some(""), None] {
            let error = ids.required_id(&mut row(&[invalid]), "id").unwrap_err().to_string();
            assert!(error.contains("`id` of the table `users`"), "{error}");
        }
        assert_eq!(ids.optional_id(&mut row(&[None]), "id_user").unwrap(), None);
    }

    #[test]
    fn methods_without_a_numeric_key_get_ids_derived_from_their_name() {
        let id = |key, method| method_id(key, method);
        assert_eq!(id(Some("12"), "a"), 12);
        assert_eq!(id(Some("8c1f"), "a"), id(None, "a"));
        assert_ne!(id(None, "a"), id(None, "b"));
        assert!(id(None, "a") > 0);
    }

    fn method_id(key: Option<&str>, id: &str) -> i64 {
        method(row(&[key, Some(id)])).id
    }
}
