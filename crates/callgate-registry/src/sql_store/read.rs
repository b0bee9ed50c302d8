//! Rows of a database to the registry's rows.

use callgate::Secret;

use crate::rows::{
    ActionRow, CredentialRow, GrantRow, ImportRow, KeyRow, MessageRow, MethodRow, Revisions,
    RoleRow, SectionRow, SessionRow, SettingRow, TokenRow, TypeRow, UpstreamRow, UserRow,
};
use crate::sql::{Cell, Dialect, Row};
use crate::store::{DatabaseErrorKind, Result, StoreError};

/// The columns of a [`MethodRow`] behind its number, in the order that they are read and written.
pub(super) const METHOD_COLUMNS: [&str; 18] = [
    "rpc_method",
    "plugin",
    "method",
    "params",
    "params_types",
    "description",
    "sections",
    "return_type",
    "title",
    "safety",
    "annotations",
    "exposed",
    "upstream",
    "tool_name",
    "input_schema",
    "output_schema",
    "defaults",
    "params_by",
];

/// The columns, and the first of them whose bytes are not text.
type MethodColumns = ([Option<String>; METHOD_COLUMNS.len()], Option<String>);

pub(super) fn method(dialect: Dialect, mut row: Row) -> Result<MethodRow> {
    let id = row.int()?;
    let (columns, unreadable) =
        if dialect.joins_columns() { joined(row.cell())? } else { one_by_one(row) };
    let [
        rpc_method,
        plugin,
        method,
        params,
        params_types,
        description,
        sections,
        return_type,
        title,
        safety,
        annotations,
        exposed,
        upstream,
        tool_name,
        input_schema,
        output_schema,
        defaults,
        params_by,
    ] = columns;
    Ok(MethodRow {
        id,
        rpc_method: rpc_method.unwrap_or_default(),
        plugin,
        method,
        params,
        params_types,
        description,
        sections,
        return_type,
        title,
        safety,
        annotations,
        exposed,
        upstream,
        tool_name,
        input_schema,
        output_schema,
        defaults,
        params_by,
        unreadable,
    })
}

fn joined(cell: Cell) -> Result<MethodColumns> {
    match cell {
        Cell::Broken(text) => {
            let columns = listed(&text)?;
            let is_broken = |text: &Option<String>| {
                text.as_ref().is_some_and(|text| text.contains(char::REPLACEMENT_CHARACTER))
            };
            let mut named = METHOD_COLUMNS.iter().zip(&columns);
            let unreadable = named.find(|(_, text)| is_broken(text));
            let unreadable = unreadable.map(|(name, _)| (*name).to_owned());
            Ok((columns, unreadable))
        }
        Cell::Text(text) => Ok((listed(&text)?, None)),
        Cell::Null | Cell::Int(_) => Ok(Default::default()),
    }
}

fn listed(json: &str) -> Result<[Option<String>; METHOD_COLUMNS.len()]> {
    serde_json::from_str(json).map_err(|error| {
        let message = format!("a row of methods cannot be read: {error}");
        StoreError::database(DatabaseErrorKind::Other, message)
    })
}

fn one_by_one(mut row: Row) -> MethodColumns {
    let mut unreadable = None;
    let columns = METHOD_COLUMNS.map(|name| match row.cell() {
        Cell::Null => None,
        Cell::Int(number) => Some(number.to_string()),
        Cell::Text(text) => Some(text),
        Cell::Broken(text) => {
            unreadable.get_or_insert_with(|| name.to_owned());
            Some(text)
        }
    });
    (columns, unreadable)
}

pub(super) fn revisions(rows: Vec<Row>) -> Result<Revisions> {
    let mut revisions = Revisions::default();
    for mut row in rows {
        match row.text().as_str() {
            "catalog" => revisions.catalog = row.int()?,
            "access" => revisions.access = row.int()?,
            "tokens" => revisions.tokens = row.int()?,
            "keys" => revisions.keys = row.int()?,
            "sessions" => revisions.sessions = row.int()?,
            "messages" => revisions.messages = row.int()?,
            _ => {}
        }
    }
    Ok(revisions)
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
