//! The rows of a Festi database's tables.

use callgate::access::TokenDigest;

use super::layout::{Layout, Place, Table};
use crate::rows::{ActionRow, GrantRow, MethodRow, RoleRow, SectionRow, SettingRow, UserRow};
use crate::sql::{Cell, Dialect, Row, Transaction};
use crate::store::{Result, StoreError};

/// More rows of a table are refused.
const MAX_ROWS: usize = 200_000;

/// A transaction in which tables are read, and where they are.
pub(super) struct Reading<'t> {
    pub(super) moment: &'t mut dyn Transaction,
    pub(super) dialect: Dialect,
    pub(super) layout: &'t Layout,
}

impl Reading<'_> {
    pub(super) async fn methods(&mut self) -> Result<Vec<MethodRow>> {
        Ok(self.rows(Table::Methods).await?.into_iter().map(method).collect())
    }

    pub(super) async fn sections(&mut self) -> Result<Vec<SectionRow>> {
        let read = |mut row: Row| SectionRow {
            id: number(&mut row),
            caption: row.text(),
            ident: row.text(),
            mask: row.text(),
        };
        Ok(self.rows(Table::Sections).await?.into_iter().map(read).collect())
    }

    pub(super) async fn actions(&mut self) -> Result<Vec<ActionRow>> {
        let read = |mut row: Row| ActionRow {
            id_section: number(&mut row),
            plugin: row.text(),
            method: row.text(),
            mask: row.text(),
        };
        Ok(self.rows(Table::Actions).await?.into_iter().map(read).collect())
    }

    pub(super) async fn roles(&mut self) -> Result<Vec<RoleRow>> {
        let read = |mut row: Row| RoleRow { id: number(&mut row), caption: row.text() };
        Ok(self.rows(Table::Roles).await?.into_iter().map(read).collect())
    }

    pub(super) async fn users(&mut self) -> Result<Vec<UserRow>> {
        let read = |mut row: Row| UserRow {
            id: number(&mut row),
            login: row.text(),
            id_type: row.optional_text().and_then(|text| text.trim().parse().ok()),
            role: None,
        };
        Ok(self.rows(Table::Users).await?.into_iter().map(read).collect())
    }

    pub(super) async fn grants(&mut self, table: Table) -> Result<Vec<GrantRow>> {
        let read = |mut row: Row| GrantRow {
            id_section: number(&mut row),
            id_holder: number(&mut row),
            value: row.text(),
        };
        Ok(self.rows(table).await?.into_iter().map(read).collect())
    }

    /// Those that are ours to read; an application has others in the same table.
    pub(super) async fn settings(&mut self) -> Result<Vec<SettingRow>> {
        let read = |mut row: Row| SettingRow { name: row.text(), value: row.text() };
        Ok(self.rows(Table::Settings).await?.into_iter().map(read).collect())
    }

    /// Users, and what they are known by: of the token, which is there as it is, only the digest goes on.
    /// What is empty is no token.
    pub(super) async fn tokens(&mut self) -> Result<Vec<(i64, TokenDigest)>> {
        if !self.layout.has_tokens() {
            return Ok(Vec::new());
        }
        let read = |mut row: Row| {
            let id = number(&mut row);
            // Columns of fixed length are filled with spaces, and no header can have them at its end.
            let token = row.text();
            let token = token.trim();
            (!token.is_empty()).then(|| (id, TokenDigest::of(token)))
        };
        Ok(self.rows(Table::Tokens).await?.into_iter().filter_map(read).collect())
    }

    /// The rows of a table; none, where it is not there.
    async fn rows(&mut self, table: Table) -> Result<Vec<Row>> {
        let Some(place) = self.layout.place(table) else { return Ok(Vec::new()) };
        let Some(sql) = select(table, place, self.dialect) else { return Ok(Vec::new()) };
        let rows = self.moment.rows(&sql, &[]).await?;
        if rows.len() > MAX_ROWS {
            return Err(StoreError::TooMany { table: place.name.clone(), most: MAX_ROWS });
        }
        Ok(rows)
    }
}

/// The statement that reads a table; `None` where it has no column of those that are looked for.
fn select(table: Table, place: &Place, dialect: Dialect) -> Option<String> {
    let first = place.columns.iter().flatten().next()?;
    let column = |column: &Option<String>| match column {
        Some(column) => as_text(column, dialect),
        None => "NULL".to_owned(),
    };
    let columns: Vec<String> = place.columns.iter().map(column).collect();
    Some(format!(
        "SELECT {} FROM {}{} ORDER BY {first} {}",
        columns.join(", "),
        place.table,
        condition(table, place),
        dialect.limit(MAX_ROWS + 1, 0)
    ))
}

/// Which of a table's rows count.
pub(super) fn condition(table: Table, place: &Place) -> String {
    match (table, place.columns.first()) {
        (Table::Settings, Some(Some(name))) => {
            format!(" WHERE {name} IN ('{}')", callgate::SETTING_KEYS.join("', '"))
        }
        _ => String::new(),
    }
}

/// A column of whatever type, as text.
pub(super) fn as_text(column: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => format!("CAST({column} AS TEXT)"),
        Dialect::MySql => format!("CAST({column} AS CHAR)"),
        Dialect::SqlServer => format!("CAST({column} AS NVARCHAR(MAX))"),
    }
}

/// What is no number is 0, which no row has.
fn number(row: &mut Row) -> i64 {
    row.optional_text().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// In the order of the table's columns.
fn method(mut row: Row) -> MethodRow {
    let mut unreadable = None;
    let id = number(&mut row);
    let mut names = Table::Methods.columns().iter().skip(1);
    let mut next = || {
        let name = names.next().and_then(|choices| choices.first());
        match row.cell() {
            Cell::Null => None,
            Cell::Int(value) => Some(value.to_string()),
            Cell::Text(text) => Some(text),
            Cell::Broken(text) => {
                unreadable = unreadable.take().or_else(|| name.map(ToString::to_string));
                Some(text)
            }
        }
    };
    let read = MethodRow {
        id,
        rpc_method: next().unwrap_or_default(),
        plugin: next(),
        method: next(),
        params: next(),
        params_types: next(),
        description: next(),
        sections: next(),
        return_type: next(),
        title: next(),
        safety: next(),
        annotations: next(),
        exposed: next(),
        upstream: next(),
        tool_name: next(),
        input_schema: next(),
        output_schema: next(),
        defaults: next(),
        params_by: next(),
        unreadable: None,
    };
    MethodRow { unreadable, ..read }
}
