//! Rows that the database itself refuses, from any program.

use crate::databases::{Kind, Place};

/// Rows that a table accepts only once.
const ONCE: &[&str] = &[
    "INSERT INTO sections (ident) VALUES ('a')",
    "INSERT INTO settings (name) VALUES ('a')",
    "INSERT INTO users_types (caption) VALUES ('a')",
    "INSERT INTO users (login) VALUES ('a')",
    "INSERT INTO callgate_types (name) VALUES ('a')",
    "INSERT INTO callgate_upstreams (name, config) VALUES ('a', '{}')",
    "INSERT INTO callgate_tokens (id_user, name, digest, created_at) VALUES (1, 'a',
         '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', {now})",
    "INSERT INTO callgate_sessions (nonce, number, ended, ends_at) VALUES ('a', 1, {no}, {now})",
    "INSERT INTO callgate_messages (number, session, message, posted_at) VALUES (1, 'a', '{}', {now})",
    "INSERT INTO callgate_servers (server, expires_at) VALUES ('a', {now})",
    "INSERT INTO callgate_meta (name, value) VALUES ('a', '')",
    "INSERT INTO callgate_revisions (name, value) VALUES ('a', 1)",
];

/// Rows that a table accepts only once, because a combination of columns must be unique. The SQL
/// Server emulator does not check this.
const PAIRS: &[&str] = &[
    "INSERT INTO section_actions (id_section, plugin, method, mask) VALUES (1, 'a', 'a', 2)",
    "INSERT INTO sections_user_permission (id_section, id_user, value) VALUES (1, 1, 2)",
    "INSERT INTO callgate_credentials (id_user, upstream, secret, set_at) VALUES (1, 'a', '', {now})",
    "INSERT INTO callgate_imports (upstream, rpc_method, source, written) VALUES ('a', 'a', '', '{}')",
];

/// Rows that may exist twice.
const TWICE: &[&str] = &[
    "INSERT INTO rpc_methods (rpc_method) VALUES ('a')",
    "INSERT INTO sections_user_types_permission (id_section, id_user_type, value) VALUES (1, 1, 2)",
    "INSERT INTO callgate_keys (purpose, secret, created_at) VALUES ('a', '', {now})",
];

/// Columns that must not be null.
const NOT_NULL: &[(&str, &[&str])] = &[
    ("sections", &["caption", "ident", "mask"]),
    ("section_actions", &["id_section", "plugin", "method", "mask"]),
    ("sections_user_permission", &["id_section", "id_user", "value"]),
    ("sections_user_types_permission", &["id_section", "id_user_type", "value"]),
    ("settings", &["name"]),
    ("users_types", &["caption"]),
    ("users", &["login"]),
    ("rpc_methods", &["rpc_method"]),
    ("callgate_upstreams", &["name", "config"]),
    ("callgate_credentials", &["id_user", "upstream", "secret", "set_at"]),
    ("callgate_imports", &["upstream", "rpc_method", "source", "written"]),
    ("callgate_tokens", &["id_user", "name", "digest", "created_at"]),
    ("callgate_keys", &["purpose", "secret", "created_at", "active_from"]),
    ("callgate_sessions", &["number", "ended", "ends_at"]),
    ("callgate_messages", &["session", "message", "posted_at"]),
    ("callgate_servers", &["expires_at"]),
    ("callgate_meta", &["value"]),
    ("callgate_revisions", &["value"]),
];

/// Values that databases other than SQLite refuse.
const CHECKED: &[&str] = &[
    "UPDATE rpc_methods SET params = '{'",
    "UPDATE rpc_methods SET params_types = '{'",
    "UPDATE rpc_methods SET annotations = '{'",
    "UPDATE rpc_methods SET input_schema = 'truth'",
    "UPDATE rpc_methods SET output_schema = '{'",
    "UPDATE rpc_methods SET defaults = '{'",
    "UPDATE rpc_methods SET params_by = 'order'",
    "UPDATE callgate_types SET fields = '{'",
    "UPDATE callgate_types SET {schema} = '{'",
    "UPDATE callgate_upstreams SET config = '{'",
    "UPDATE callgate_sessions SET subscriptions = '{'",
    "UPDATE callgate_imports SET written = '{'",
    "UPDATE callgate_tokens SET digest = 'abc'",
];

fn written(place: &Place, kind: Kind, sql: &str) -> String {
    let (no, schema) = match kind {
        Kind::SqlServer => ("0", "[schema]"),
        Kind::MariaDb => ("FALSE", "`schema`"),
        Kind::Sqlite | Kind::Postgres => ("FALSE", "schema"),
    };
    sql.replace("{now}", place.now()).replace("{no}", no).replace("{schema}", schema)
}

/// A registry with a row in each table.
async fn filled(kind: Kind) -> Place {
    let place = kind.registry().await.place;
    for sql in ONCE.iter().chain(PAIRS).chain(TWICE) {
        place.sql(&written(&place, kind, sql)).await;
    }
    place
}

async fn is_refused(place: &Place, sql: &str) {
    assert!(place.try_sql(sql).await.is_err(), "{sql}");
}

pub(crate) async fn what_is_there_once_is_refused_twice(kind: Kind) {
    let place = filled(kind).await;
    for sql in ONCE {
        is_refused(&place, &written(&place, kind, sql)).await;
    }
    for sql in PAIRS.iter().filter(|_| kind != Kind::SqlServer) {
        is_refused(&place, &written(&place, kind, sql)).await;
    }
    for sql in TWICE {
        place.sql(&written(&place, kind, sql)).await;
    }
}

pub(crate) async fn what_must_say_something_is_not_null(kind: Kind) {
    let place = filled(kind).await;
    for (table, columns) in NOT_NULL {
        for column in *columns {
            is_refused(&place, &format!("UPDATE {table} SET {column} = NULL")).await;
        }
    }
}

pub(crate) async fn what_is_checked_is_refused(kind: Kind) {
    let place = filled(kind).await;
    for sql in CHECKED {
        let sql = written(&place, kind, sql);
        if kind == Kind::Sqlite {
            place.sql(&sql).await;
        } else {
            is_refused(&place, &sql).await;
        }
    }
}
