//! Behaviour of SQLite: columns that hold values of any type, and files.

use std::time::Duration;

use callgate::Mask;
use callgate_registry::{
    DatabaseErrorKind, DatabaseOptions, DatabaseUrl, OpenError, SqlStore, Store as _, access,
    wait_for_closed_files,
};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection};

use crate::contract::catalog;
use crate::contract::copy::copy_registry;
use crate::databases::{Kind, Registry};

#[tokio::test]
async fn values_of_any_type_are_read_and_invalid_ones_are_quarantined_or_grant_nothing() {
    let registry = Kind::Sqlite.registry().await;
    registry
        .database
        .sql(
            "INSERT INTO rpc_methods (rpc_method, description, exposed) VALUES ('ok', 7, '1');
             INSERT INTO rpc_methods (rpc_method, title) VALUES ('bad', CAST(x'ff00' AS TEXT));
             INSERT INTO rpc_methods (rpc_method, title) VALUES ('blob', x'ff00');
             INSERT INTO rpc_methods (rpc_method, params) VALUES ('json', '{');
             INSERT INTO rpc_methods (rpc_method) VALUES (x'');
             INSERT INTO sections (ident) VALUES ('s');
             INSERT INTO users (login) VALUES ('u');
             INSERT INTO sections_user_permission (id_section, id_user, value) VALUES (1, 1, 'lots');
             INSERT INTO callgate_tokens (id_user, name, digest, created_at, expires_at)
                VALUES (1, x'ff', 'zz', 'never', 'soon');",
        )
        .await;
    let catalog = catalog(&registry.store.catalog_rows().await.unwrap());
    assert_eq!((catalog.len(), catalog.quarantined().len()), (1, 4));
    assert!(catalog.by_id("ok").is_some());
    let access = access(&registry.store.access_rows().await.unwrap());
    assert_eq!(access.caller_named("u").unwrap().grants.mask(&"s".into()), Mask::None);
}

#[tokio::test]
async fn missing_files_and_files_that_are_not_databases_are_different_errors() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |path: &std::path::Path| {
        let url = DatabaseUrl::sqlite(path);
        SqlStore::open(&url, &DatabaseOptions::default(), None).await.unwrap_err()
    };
    let missing = directory.path().join("none.db");
    assert!(matches!(open(&missing).await, OpenError::Missing(_)));
    assert!(!missing.exists(), "opening creates no file");
    let text = directory.path().join("text.db");
    let content = "this is not a database, but it is long enough to be looked at".repeat(9);
    std::fs::write(&text, content).unwrap();
    let error = open(&text).await;
    assert_eq!(error.to_string(), "file is not a database");
    assert!(error.database().unwrap().advice().is_some());
}

#[tokio::test]
async fn a_current_registry_is_opened_while_another_process_writes() {
    let registry = Kind::Sqlite.registry().await;
    let options = SqliteConnectOptions::new().filename(registry.database.url.path().unwrap());
    let mut writer = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut writer).await.unwrap();
    let options =
        DatabaseOptions { statement_timeout: Duration::from_millis(100), ..Default::default() };
    let result = SqlStore::migrate(&registry.database.url, &options, None).await;
    assert!(result.is_ok_and(|(_, applied)| applied.is_empty()));
}

#[tokio::test]
async fn a_file_with_an_unrelated_table_is_not_changed() {
    let database = Kind::Sqlite.database().await;
    database.sql("CREATE TABLE Users (name TEXT)").await;
    let path = database.url.path().unwrap();
    let before = std::fs::read(path).unwrap();
    assert!(matches!(database.migrate(None).await, Err(OpenError::TableExists(_))));
    assert_eq!(std::fs::read(path).unwrap(), before);
    assert!(!path.with_extension("db-wal").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_files_leave_no_write_ahead_log() {
    for _ in 0..20 {
        let Registry { store, database } = Kind::Sqlite.registry().await;
        let other = database.open(None).await.unwrap();
        // Several connections for each store.
        let reads = [&store, &other, &store, &other].map(|store| {
            let store = store.clone();
            tokio::spawn(async move { store.access_rows().await.unwrap() })
        });
        for read in reads {
            read.await.unwrap();
        }
        drop((store, other));
        wait_for_closed_files(Duration::from_mins(1)).await;
        assert!(!database.url.path().unwrap().with_extension("db-wal").exists());
    }
}

#[tokio::test]
async fn a_replaced_file_is_detected() {
    let registry = Kind::Sqlite.registry().await;
    let path = registry.database.url.path().unwrap();
    registry.store.change_counters().await.unwrap();
    std::fs::rename(path, path.with_extension("away")).unwrap();
    let kind = async || {
        let error = registry.store.change_counters().await.unwrap_err();
        error.database().unwrap().kind
    };
    assert_eq!(kind().await, DatabaseErrorKind::Replaced);
    registry.database.migrate(None).await.unwrap();
    assert_eq!(kind().await, DatabaseErrorKind::Replaced);
}

#[tokio::test]
async fn a_copied_registry_is_complete_without_its_write_ahead_log() {
    let from = Kind::Sqlite.registry().await;
    from.store.add_user("ada", None).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (backup, copy) = (directory.path().join("backup.db"), directory.path().join("alone.db"));
    assert!(
        copy_registry(&from.database.url, &DatabaseUrl::sqlite(&backup))
            .await
            .unwrap()
            .is_finished()
    );
    std::fs::copy(&backup, &copy).unwrap();
    let url = DatabaseUrl::sqlite(&copy);
    let store = SqlStore::open(&url, &DatabaseOptions::default(), None).await.unwrap();
    store.user("ada").await.unwrap();
}
