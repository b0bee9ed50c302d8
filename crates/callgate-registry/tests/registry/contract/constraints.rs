//! Rows that the database itself refuses, from any program.

use crate::databases::{Kind, TestDatabase};

/// Rows that a table accepts only once.
const UNIQUE: &[&str] = &[
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
const UNIQUE_COMBINATIONS: &[&str] = &[
    "INSERT INTO section_actions (id_section, plugin, method, mask) VALUES (1, 'a', 'a', 2)",
    "INSERT INTO sections_user_permission (id_section, id_user, value) VALUES (1, 1, 2)",
    "INSERT INTO callgate_credentials (id_user, upstream, secret, set_at) VALUES (1, 'a', '', {now})",
    "INSERT INTO callgate_imports (upstream, rpc_method, source, written) VALUES ('a', 'a', '', '{}')",
];

/// Rows that may exist twice.
const NOT_UNIQUE: &[&str] = &[
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

fn expand(database: &TestDatabase, kind: Kind, sql: &str) -> String {
    let (no, schema) = match kind {
        Kind::SqlServer => ("0", "[schema]"),
        Kind::MariaDb => ("FALSE", "`schema`"),
        Kind::Sqlite | Kind::Postgres => ("FALSE", "schema"),
    };
    sql.replace("{now}", database.now()).replace("{no}", no).replace("{schema}", schema)
}

/// A registry with a row in each table.
async fn filled_registry(kind: Kind) -> TestDatabase {
    let database = kind.registry().await.database;
    for sql in UNIQUE.iter().chain(UNIQUE_COMBINATIONS).chain(NOT_UNIQUE) {
        database.sql(&expand(&database, kind, sql)).await;
    }
    database
}

async fn assert_refused(database: &TestDatabase, sql: &str) {
    assert!(database.try_sql(sql).await.is_err(), "{sql}");
}

pub(crate) async fn unique_constraints_refuse_duplicate_rows(kind: Kind) {
    let database = filled_registry(kind).await;
    for sql in UNIQUE {
        assert_refused(&database, &expand(&database, kind, sql)).await;
    }
    for sql in UNIQUE_COMBINATIONS.iter().filter(|_| kind != Kind::SqlServer) {
        assert_refused(&database, &expand(&database, kind, sql)).await;
    }
    for sql in NOT_UNIQUE {
        database.sql(&expand(&database, kind, sql)).await;
    }
}

pub(crate) async fn required_columns_refuse_null(kind: Kind) {
    let database = filled_registry(kind).await;
    for (table, columns) in NOT_NULL {
        for column in *columns {
            assert_refused(&database, &format!("UPDATE {table} SET {column} = NULL")).await;
        }
    }
}

pub(crate) async fn check_constraints_refuse_invalid_values_where_they_exist(kind: Kind) {
    let database = filled_registry(kind).await;
    for sql in CHECKED {
        let sql = expand(&database, kind, sql);
        if kind == Kind::Sqlite {
            database.sql(&sql).await;
        } else {
            assert_refused(&database, &sql).await;
        }
    }
}
