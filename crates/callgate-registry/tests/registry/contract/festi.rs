//! The database of a Festi application, with the tables that Festi's own scripts create.

use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate::Callgate;
use callgate_registry::{
    AttachOptions, DatabaseOptions, DatabaseUrl, Dialect, Overlay, PollIntervals, Registry,
    SqlStore, Store as _, TableNames, access, read_festi,
};
use tempfile::TempDir;

use super::catalog;
use crate::databases::{Kind, TestDatabase};

const APPLICATION: &str = include_str!("../../festi/application.sql");
/// Statements of an application that add a section, an action and grants.
const SECTION: &str = include_str!("../../festi/section.sql");
const ACTION: &str = include_str!("../../festi/action.sql");
const ROLE_GRANT: &str = include_str!("../../festi/role_grant.sql");
const USER_GRANT: &str = include_str!("../../festi/user_grant.sql");

const USERS: &str = "INSERT INTO users (id, id_type, login, password, access_token)
    VALUES (7, 1, 'root', 's3cret', 'of root'), (123, 2, 'ada', 's3cret', 'of ada')";

async fn application(kind: Kind) -> TestDatabase {
    let database = kind.database().await;
    let (tables, roles) = match database.url.dialect() {
        Dialect::Sqlite => (include_str!("../../festi/sqlite.sql"), "users_types"),
        Dialect::Postgres => (include_str!("../../festi/pgsql.sql"), "users_types"),
        Dialect::MySql => (include_str!("../../festi/mysql.sql"), "users_types"),
        Dialect::SqlServer => (include_str!("../../festi/mssql.sql"), "user_types"),
    };
    database.sql(tables).await;
    database.sql(APPLICATION).await;
    database.sql(&format!("INSERT INTO {roles} (caption) VALUES ('admin'), ('reader')")).await;
    database
        .sql(&match database.url.dialect() {
            Dialect::SqlServer => {
                format!("SET IDENTITY_INSERT users ON; {USERS}; SET IDENTITY_INSERT users OFF")
            }
            _ => USERS.to_owned(),
        })
        .await;
    database
}

fn tables() -> TableNames {
    TableNames::with_prefix("festi_").unwrap()
}

/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Intervals so long that nothing is polled automatically.
const MANUAL_POLLS: PollIntervals =
    PollIntervals { access: Duration::from_hours(1), methods: Duration::from_hours(1) };

/// Attaches the database to a registry in a file.
async fn attached(database: &TestDatabase, intervals: PollIntervals) -> (TempDir, SqlStore) {
    let (directory, options) = (tempfile::tempdir().unwrap(), DatabaseOptions::default());
    let registry_url = DatabaseUrl::sqlite(directory.path().join("own.db"));
    let (registry, _) = SqlStore::migrate(&registry_url, &options, None).await.unwrap();
    let attach_options = AttachOptions {
        upstream: "default".to_owned(),
        output_schemas: false,
        overlay: Overlay::default(),
    };
    let store = registry
        .attach((&database.url, &options), &tables(), attach_options, intervals)
        .await
        .unwrap();
    (directory, store)
}

/// Returns `true` if a user may call a method.
async fn may_call(store: &SqlStore, login: &str, id: &str) -> bool {
    let catalog = catalog(&store.catalog_rows().await.unwrap());
    let access = access(&store.access_rows().await.unwrap());
    let requirement = catalog.requirement(catalog.by_id(id).unwrap());
    requirement.allows(&access.caller_named(login).unwrap().grants)
}

pub(super) async fn inserts_written_for_festi_change_access_in_an_attached_database(kind: Kind) {
    let database = application(kind).await;
    let (_directory, store) = attached(&database, MANUAL_POLLS).await;
    assert!(may_call(&store, "ada", "getUserInfo").await);
    for (sql, root, ada) in [
        ("", false, false),
        (SECTION, false, false),
        (ACTION, false, false),
        (ROLE_GRANT, true, false),
        (USER_GRANT, true, true),
        ("UPDATE festi_sections_user_permission SET value = 0", true, false),
    ] {
        if !sql.is_empty() {
            database.sql(sql).await;
        }
        let found = (
            may_call(&store, "root", "deleteUser").await,
            may_call(&store, "ada", "deleteUser").await,
        );
        assert_eq!(found, (root, ada), "after {sql}");
    }
    let settings = store.settings().await.unwrap();
    assert!(settings.iter().any(|row| row.name == "mcp_server_name" && row.value == "site"));
    assert!(settings.iter().all(|row| row.name.starts_with("mcp_")), "no other settings");
}

pub(super) async fn changes_in_an_attached_database_increment_the_counters(kind: Kind) {
    let database = application(kind).await;
    database.sql(SECTION).await;
    database.sql(ACTION).await;
    let (_directory, store) = attached(&database, MANUAL_POLLS).await;
    store.access_rows().await.unwrap();
    store.catalog_rows().await.unwrap();
    let poll = async || {
        store.poll_attached().await.unwrap();
        store.change_counters().await.unwrap()
    };
    let mut before = poll().await;
    assert_eq!(poll().await, before);
    for (sql, catalog, access, tokens) in [
        (
            "UPDATE rpc_methods SET description = NULL WHERE rpc_method = 'deleteUser'",
            true,
            false,
            false,
        ),
        (
            "UPDATE rpc_methods SET description = '' WHERE rpc_method = 'deleteUser'",
            true,
            false,
            false,
        ),
        ("UPDATE festi_section_actions SET mask = '4'", true, false, false),
        ("UPDATE festi_sections SET ident = 'users'", true, true, false),
        (ROLE_GRANT_BY_ID, false, true, false),
        ("UPDATE users SET id_type = 1 WHERE id = 123", false, true, false),
        ("UPDATE users SET access_token = 'x' WHERE id = 7", false, false, true),
        ("UPDATE users SET access_token = '' WHERE id = 7", false, false, true),
        ("UPDATE users SET access_token = NULL WHERE id = 7", false, false, true),
        ("UPDATE users SET password = 'x'", false, false, false),
        ("UPDATE festi_settings SET value = 'x' WHERE name = 'mail_password'", false, false, false),
        ("UPDATE festi_settings SET value = 'x' WHERE name = 'mcp_server_name'", true, true, false),
        ("DELETE FROM rpc_methods WHERE rpc_method = 'tools/list'", true, false, false),
    ] {
        database.sql(sql).await;
        let now = poll().await;
        let changed =
            (now.catalog > before.catalog, now.access > before.access, now.tokens > before.tokens);
        assert_eq!(changed, (catalog, access, tokens), "after {sql}");
        before = now;
    }
}

const ROLE_GRANT_BY_ID: &str =
    "INSERT INTO festi_sections_user_types_permission (id_section, id_user_type, value)
     VALUES (1, 2, 2)";

/// Adds users with tokens that contain their numbers.
async fn add_users(database: &TestDatabase, count: usize) {
    let is_sql_server = database.url.dialect() == Dialect::SqlServer;
    let numbers: Vec<usize> = (1_000..1_000 + count).collect();
    for part in numbers.chunks(if is_sql_server { 40 } else { 5_000 }) {
        let row = |number: &usize| format!("({number}, 2, 'user{number}', '', 'token{number}')");
        let rows: Vec<String> = part.iter().map(row).collect();
        let insert = format!(
            "INSERT INTO users (id, id_type, login, password, access_token) VALUES {}",
            rows.join(", ")
        );
        if is_sql_server {
            let identity_insert = "SET IDENTITY_INSERT users ON";
            database
                .sql(&format!("{identity_insert}; {insert}; SET IDENTITY_INSERT users OFF"))
                .await;
        } else {
            database.sql(&insert).await;
        }
    }
}

pub(super) async fn token_changes_are_followed_in_a_festi_database_with_many_users(kind: Kind) {
    let database = application(kind).await;
    add_users(&database, if kind == Kind::SqlServer { 400 } else { 50_000 }).await;
    let (_directory, store) = attached(&database, PollIntervals::default()).await;
    let registry = Registry::new(Arc::new(store));
    let tokens = registry.authenticator();
    let gateway = Callgate::builder().authenticate(registry.authenticator()).build().unwrap();
    let following = registry.follow(&gateway).await.unwrap();
    let login = async |token: &str| {
        let caller = tokens.caller_of(Some(token)).await.ok()?;
        Some(caller.user?.name.clone())
    };
    let wait_until = async |token: &str, expected: Option<&str>| {
        let started = Instant::now();
        while login(token).await.as_deref() != expected {
            assert!(started.elapsed() < TIMEOUT, "`{token}` never identifies {expected:?}");
            tokio::task::yield_now().await;
        }
    };
    wait_until("token1399", Some("user1399")).await;
    database.sql("UPDATE users SET access_token = 'another' WHERE id = 1399").await;
    wait_until("another", Some("user1399")).await;
    wait_until("token1399", None).await;
    database.sql("DELETE FROM users WHERE id = 1399").await;
    wait_until("another", None).await;
    assert_eq!(login("token1000").await.as_deref(), Some("user1000"));
    following.end().await;
}

pub(super) async fn a_festi_database_is_read_for_an_import(kind: Kind) {
    let database = application(kind).await;
    database.sql(SECTION).await;
    database.sql(ACTION).await;
    let rows = read_festi(&database.url, &DatabaseOptions::default(), &tables()).await.unwrap();
    let methods: Vec<&str> = rows.methods.iter().map(|row| row.rpc_method.as_str()).collect();
    assert_eq!(methods, ["getUserInfo", "deleteUser", "getProjects", "tools/list"]);
    let actions: Vec<&str> = rows.actions.iter().map(|row| row.mask.as_str()).collect();
    let sections: Vec<&str> = rows.sections.iter().map(|row| row.mask.as_str()).collect();
    assert_eq!((actions, sections), (vec!["6"], vec!["6"]));
    let roles: Vec<&str> = rows.roles.iter().map(|row| row.caption.as_str()).collect();
    assert_eq!((roles, rows.users.len()), (vec!["admin", "reader"], 2));
    assert!(rows.missing.is_empty() && rows.other_prefix.is_none());
}
