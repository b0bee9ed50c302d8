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
async fn what_is_only_to_be_read_cannot_be_written() {
    for server in servers() {
        for mode in [OpenMode::ReadOnly, OpenMode::ReadOnce] {
            let database = open(server, &DatabaseOptions::default(), mode).await;
            let insert = "INSERT INTO things (id) VALUES (1)";
            let alone = database.rows(insert, &[]).await.unwrap_err();
            let mut work = database.begin(Purpose::Note).await.unwrap();
            for error in [alone, work.rows(insert, &[]).await.unwrap_err()] {
                assert_eq!(error.kind, DatabaseErrorKind::ReadOnly, "{error}");
            }
            assert_eq!(database.rows("SELECT id FROM things", &[]).await.unwrap().len(), 0);
        }
    }
}

#[tokio::test]
async fn there_are_no_more_connections_than_configured() {
    let who = ["SELECT pg_backend_pid() FROM pg_sleep(0.2)", "SELECT CONNECTION_ID() + SLEEP(0.2)"];
    for (server, who) in servers().into_iter().zip(who) {
        let options = DatabaseOptions { max_connections: 3, ..DatabaseOptions::default() };
        let database = open(server, &options, OpenMode::Existing).await;
        let asked = futures_util::future::join_all((0..12).map(|_| database.rows(who, &[]))).await;
        let seen: BTreeSet<i64> =
            asked.into_iter().map(|rows| rows.unwrap().pop().unwrap().int().unwrap()).collect();
        assert_eq!(seen.len(), 3, "{seen:?}");
    }
}
