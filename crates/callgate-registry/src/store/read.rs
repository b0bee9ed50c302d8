//! Converts rows of a database into the registry's rows.

use callgate::Secret;

use crate::db::database::{Cell, Dialect, Row};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};
use crate::rows::{
    ActionRow, ChangeCounters, CredentialRow, GrantRow, ImportRow, KeyRow, MessageRow, MethodRow,
    RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, TypeRow, UpstreamRow, UserRow,
};

pub(super) fn method(dialect: Dialect, mut row: Row) -> Result<MethodRow> {
    let id = row.int()?;
    if !dialect.joins_columns() {
        return Ok(MethodRow::from_cells(id, || row.cell()));
    }
    let mut cells = joined(row.cell())?.into_iter();
    Ok(MethodRow::from_cells(id, || cells.next().unwrap_or(Cell::Null)))
}

/// Splits columns that were read as one JSON array.
fn joined(cell: Cell) -> Result<Vec<Cell>> {
    let (text, is_broken) = match cell {
        Cell::Text(text) => (text, false),
        Cell::Broken(text) => (text, true),
        Cell::Null | Cell::Int(_) => return Ok(Vec::new()),
    };
    let columns: Vec<Option<String>> = serde_json::from_str(&text).map_err(|error| {
        let message = format!("a row of methods cannot be read: {error}");
        DatabaseError::new(DatabaseErrorKind::Other, message)
    })?;
    let cells = columns.into_iter().map(|text| match text {
        None => Cell::Null,
        Some(text) if is_broken && text.contains(char::REPLACEMENT_CHARACTER) => Cell::Broken(text),
        Some(text) => Cell::Text(text),
    });
    Ok(cells.collect())
}

pub(super) fn change_counters(rows: Vec<Row>) -> Result<ChangeCounters> {
    let mut change_counters = ChangeCounters::default();
    for mut row in rows {
        match row.text().as_str() {
            "catalog" => change_counters.catalog = row.int()?,
            "access" => change_counters.access = row.int()?,
            "tokens" => change_counters.tokens = row.int()?,
            "keys" => change_counters.keys = row.int()?,
            "sessions" => change_counters.sessions = row.int()?,
            "messages" => change_counters.messages = row.int()?,
            _ => {}
        }
    }
    Ok(change_counters)
}

pub(super) fn section(mut row: Row) -> Result<SectionRow> {
    let id = row.int()?;
    Ok(SectionRow { id, caption: row.text(), ident: row.text(), mask: row.text() })
}

pub(super) fn action(mut row: Row) -> Result<ActionRow> {
    let id_section = row.int()?;
    Ok(ActionRow { id_section, plugin: row.text(), method: row.text(), mask: row.text() })
}

#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
pub(super) fn class(mut row: Row) -> Result<TypeRow> {
    let name = row.text();
    Ok(TypeRow { name, fields: row.optional_text(), schema: row.optional_text() })
}

pub(super) fn user(mut row: Row) -> Result<UserRow> {
    let (id, login) = (row.int()?, row.text());
    Ok(UserRow { id, login, id_type: row.optional_int()?, role: row.optional_text() })
}

pub(super) fn role(mut row: Row) -> Result<RoleRow> {
    Ok(RoleRow { id: row.int()?, caption: row.text() })
}

pub(super) fn grant(mut row: Row) -> Result<GrantRow> {
    Ok(GrantRow { id_section: row.int()?, id_holder: row.int()?, value: row.text() })
}

pub(super) fn token(mut row: Row) -> Result<TokenRow> {
    Ok(TokenRow {
        id: row.int()?,
        id_user: row.int()?,
        login: row.optional_text(),
        name: row.text(),
        digest: row.text(),
        created_at: row.int()?,
        expires_at: row.optional_int()?,
        last_used_at: row.optional_int()?,
    })
}

pub(super) fn credential(mut row: Row) -> Result<CredentialRow> {
    let (id_user, login) = (row.int()?, row.optional_text());
    let (upstream, secret) = (row.text(), Secret::new(&row.text()));
    Ok(CredentialRow { id_user, login, upstream, secret, set_at: row.int()? })
}

#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
pub(super) fn upstream(mut row: Row) -> Result<UpstreamRow> {
    Ok(UpstreamRow { name: row.text(), config: row.text() })
}

#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
pub(super) fn setting(mut row: Row) -> Result<SettingRow> {
    Ok(SettingRow { name: row.text(), value: row.text() })
}

pub(super) fn key(mut row: Row) -> Result<KeyRow> {
    let (id, secret) = (row.int()?, row.text());
    Ok(KeyRow { id, secret, created_at: row.int()?, active_from: row.int()? })
}

pub(super) fn message(mut row: Row) -> Result<MessageRow> {
    Ok(MessageRow { number: row.int()?, session: row.text(), message: row.text() })
}

pub(super) fn session(mut row: Row) -> Result<SessionRow> {
    Ok(SessionRow {
        nonce: row.text(),
        number: row.int()?,
        ended: row.flag()?,
        log_level: row.optional_text(),
        subscriptions: row.optional_text(),
        ends_at: row.int()?,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "as the others are")]
pub(super) fn import(mut row: Row) -> Result<ImportRow> {
    let (upstream, rpc_method) = (row.text(), row.text());
    Ok(ImportRow { upstream, rpc_method, source: row.text(), written: row.text() })
}
