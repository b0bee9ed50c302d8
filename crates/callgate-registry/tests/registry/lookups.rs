//! Every lookup uses an index.

use sqlx::{Connection as _, Row as _};

use crate::databases::{Kind, TestDatabase};

/// Conditions with which operations look up rows.
const LOOKUPS: &[&str] = &[
    "rpc_methods WHERE id = 1",
    "rpc_methods WHERE rpc_method = 'a'",
    "sections WHERE ident = 'a'",
    "section_actions WHERE plugin = 'a' AND method = 'a' AND id_section = 1",
    "section_actions WHERE lower(plugin) = lower('A') AND lower(method) = lower('A')",
    "sections_user_permission WHERE id_section = 1 AND id_user = 1",
    "sections_user_types_permission WHERE id_section = 1 AND id_user_type = 1",
    "settings WHERE name = 'a'",
    "users WHERE login = 'a'",
    "users_types WHERE caption = 'a'",
    "callgate_upstreams WHERE name = 'a'",
    "callgate_credentials WHERE id_user = 1 AND upstream = 'a'",
    "callgate_credentials WHERE upstream = 'a'",
    "callgate_imports WHERE upstream = 'a' AND rpc_method = 'a'",
    "callgate_imports WHERE rpc_method = 'a'",
    "callgate_tokens WHERE digest IN ('a', 'b')",
    "callgate_tokens WHERE name = 'a'",
    "callgate_keys WHERE purpose = 'a' AND id < 3",
    "callgate_keys WHERE purpose = 'a' ORDER BY id DESC",
    "callgate_sessions WHERE nonce = 'a'",
    "callgate_sessions WHERE number > 1 ORDER BY number",
    "callgate_sessions WHERE ends_at <= {now}",
    "callgate_messages WHERE number > 1 ORDER BY number",
    "callgate_messages WHERE posted_at < {now}",
    "callgate_servers WHERE expires_at > {now}",
    "callgate_meta WHERE name = 'a'",
    "callgate_revisions WHERE name = 'a'",
];

/// Returns SQLite's query plan.
async fn sqlite_plan(database: &TestDatabase, sql: &str) -> String {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database.url.path().unwrap());
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let sql = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rows.iter().map(|row| row.get::<String, _>("detail")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn each_lookup_has_an_index_in_sqlite() {
    let database = Kind::Sqlite.registry().await.database;
    for lookup in LOOKUPS {
        let sql = format!("SELECT * FROM {}", lookup.replace("{now}", database.now()));
        let plan = sqlite_plan(&database, &sql).await;
        assert!(plan.starts_with("SEARCH") && !plan.contains('\n'), "{sql}: {plan}");
    }
}

/// The plan must not read the whole table, even if the table is empty.
#[tokio::test]
async fn each_lookup_has_an_index_in_postgres() {
    let database = Kind::Postgres.registry().await.database;
    for lookup in LOOKUPS {
        let sql = format!("SELECT * FROM {}", lookup.replace("{now}", database.now()));
        let settings = "SET enable_seqscan = off; SET enable_bitmapscan = off";
        let plan = database.sql(&format!("{settings}; EXPLAIN {sql}")).await;
        assert!(plan.contains("Index Cond") && !plan.contains("Sort"), "{sql}: {plan}");
    }
}
