//! Behaviour that only a real server shows.

use std::collections::BTreeSet;

use callgate_test_support::{DatabaseServer, Engine};

use super::*;
use crate::db::connect::{OpenMode, connect};
use crate::db::error::DatabaseErrorKind;
use crate::db::pool::Pool;
use crate::db::url::DatabaseUrl;

/// Returns the servers. Their files are in the directory of `CARGO_TARGET_TMPDIR`. Cargo does not set this variable for
/// unit tests, so the path is derived from the path of the test program.
fn servers() -> [&'static DatabaseServer; 2] {
    let program = std::env::current_exe().unwrap();
    let tmp = program.ancestors().nth(3).unwrap().join("tmp");
    [Engine::Postgres.shared(&tmp), Engine::MariaDb.shared(&tmp)]
}

async fn open(server: &DatabaseServer, options: &DatabaseOptions, mode: OpenMode) -> Pool {
    let url: DatabaseUrl = server.database().url.parse().unwrap();
    connect(&url, options, OpenMode::Existing)
        .await
        .unwrap()
        .rows("CREATE TABLE things (id INT)", &[])
        .await
        .unwrap();
    connect(&url, options, mode).await.unwrap()
}

#[tokio::test]
async fn writes_fail_in_read_only_mode() {
    for server in servers() {
        for mode in [OpenMode::ReadOnly, OpenMode::ReadOnce] {
            let database = open(server, &DatabaseOptions::default(), mode).await;
            let insert = "INSERT INTO things (id) VALUES (1)";
            let without_transaction = database.rows(insert, &[]).await.unwrap_err();
            let mut transaction = database.begin(Purpose::WriteUnlocked).await.unwrap();
            for error in [without_transaction, transaction.rows(insert, &[]).await.unwrap_err()] {
                assert_eq!(error.kind, DatabaseErrorKind::ReadOnly, "{error}");
            }
            assert_eq!(database.rows("SELECT id FROM things", &[]).await.unwrap().len(), 0);
        }
    }
}

#[tokio::test]
async fn the_pool_opens_at_most_max_connections() {
    let queries =
        ["SELECT pg_backend_pid() FROM pg_sleep(0.2)", "SELECT CONNECTION_ID() + SLEEP(0.2)"];
    for (server, query) in servers().into_iter().zip(queries) {
        let options = DatabaseOptions { max_connections: 3, ..DatabaseOptions::default() };
        let database = open(server, &options, OpenMode::Existing).await;
        let results =
            futures_util::future::join_all((0..12).map(|_| database.rows(query, &[]))).await;
        let connection_ids: BTreeSet<i64> =
            results.into_iter().map(|rows| rows.unwrap().pop().unwrap().int().unwrap()).collect();
        assert_eq!(connection_ids.len(), 3, "{connection_ids:?}");
    }
}
