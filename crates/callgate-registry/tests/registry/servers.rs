//! Behaviour of database servers: they can be unavailable, refuse connections, deadlock, and notify of changes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use callgate::Mask;
use callgate_registry::{
    DatabaseErrorKind, DatabaseOptions, MethodRow, SqlStore, Store as _, StoreError,
};
use callgate_test_support::{DatabaseServer, Engine};

use crate::databases::{Kind, TestDatabase};

/// Longer than any step takes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Returns short time limits, so that a test does not wait long for a reply that never comes.
fn short_timeouts() -> DatabaseOptions {
    DatabaseOptions {
        connect_timeout: Duration::from_secs(1),
        statement_timeout: Duration::from_secs(2),
        ..DatabaseOptions::default()
    }
}

async fn migrate_with_short_timeouts(database: &TestDatabase) -> SqlStore {
    database.migrate(None).await.unwrap();
    SqlStore::open(&database.url, &short_timeouts(), None).await.unwrap()
}

fn error_kind(error: &StoreError) -> Option<DatabaseErrorKind> {
    error.database().map(|error| error.kind)
}

/// Waits for a notification.
async fn wait_for_notification(store: &SqlStore) {
    tokio::time::timeout(TIMEOUT, store.changed()).await.unwrap();
}

#[tokio::test]
async fn postgres_notifies_of_each_kind_of_change_even_after_a_lost_connection() {
    let registry = Kind::Postgres.registry().await;
    let (store, database) = (&registry.store, &registry.database);
    wait_for_notification(store).await;
    database.sql("INSERT INTO settings (name, value) VALUES ('a', 'b')").await;
    wait_for_notification(store).await;
    store.post_message("aa", "{}").await.unwrap();
    wait_for_notification(store).await;
    let listeners = "SELECT pid FROM pg_stat_activity \
                     WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let listener = database.sql(listeners).await;
    assert_eq!(listener.lines().count(), 1);
    database.sql(&format!("SELECT pg_terminate_backend({listener})")).await;
    // Notifications may have been missed before the reconnect, so the reconnect counts as a change.
    wait_for_notification(store).await;
    let listens_again = async {
        loop {
            let other = database.sql(listeners).await;
            if other != listener && !other.is_empty() {
                break;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, listens_again).await.unwrap();
    database.sql("UPDATE settings SET value = 'c'").await;
    wait_for_notification(store).await;
}

#[tokio::test]
async fn notifications_are_kept_until_they_are_awaited_and_are_combined() {
    let registry = Kind::Postgres.registry().await;
    let (store, database) = (&registry.store, &registry.database);
    wait_for_notification(store).await;
    let burst = "UPDATE callgate_revisions SET value = value + 1 WHERE name = 'keys';".repeat(50);
    database.sql(&burst).await;
    wait_for_notification(store).await;
    let mut notifications = 1;
    // Counts later notifications. Fewer than 50 arrive, because several changes count as one.
    while tokio::time::timeout(Duration::from_secs(1), store.changed()).await.is_ok() {
        notifications += 1;
    }
    assert!(notifications < 50, "{notifications}");
}

/// Closes every connection of this program to a database.
async fn close_connections(kind: Kind, database: &TestDatabase) {
    if kind == Kind::Postgres {
        let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name = 'callgate'";
        database.sql(terminate).await;
        return;
    }
    let connections = "SELECT id FROM information_schema.processlist \
                WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    for id in database.sql(connections).await.lines() {
        // The connection may have closed by itself.
        let _ = database.try_sql(&format!("KILL {id}")).await;
    }
}

async fn write_while_connections_close(kind: Kind) {
    let database = kind.database().await;
    let store = Arc::new(migrate_with_short_timeouts(&database).await);
    store.add_section("s", "S", Mask::Execute).await.unwrap();
    let was_closed = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, was_closed) = (Arc::clone(&store), Arc::clone(&was_closed));
            tokio::spawn(async move {
                let mut written = Vec::new();
                // Repeats until a writer has noticed that its connection was closed.
                for number in (0..).take_while(|n| *n < 20 || !was_closed.load(Ordering::SeqCst)) {
                    let id = format!("m{writer}.{number}");
                    let row = MethodRow { rpc_method: id.clone(), ..MethodRow::default() };
                    match store.add_method(&row, &[("s".to_owned(), Mask::Read)]).await {
                        Ok(()) => written.push(id),
                        Err(error) => {
                            assert_eq!(error_kind(&error), Some(DatabaseErrorKind::Unavailable));
                            was_closed.store(true, Ordering::SeqCst);
                        }
                    }
                }
                written
            })
        })
        .collect();
    let closing = async {
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            close_connections(kind, &database).await;
            tokio::task::yield_now().await;
        }
        // The last closed connection may be noticed only by its next user.
        loop {
            match store.catalog_rows().await {
                Ok(rows) => break rows,
                Err(error) => assert_eq!(error_kind(&error), Some(DatabaseErrorKind::Unavailable)),
            }
        }
    };
    let rows = tokio::time::timeout(TIMEOUT, closing).await.unwrap();
    let methods: Vec<&str> = rows.methods.iter().map(|row| row.rpc_method.as_str()).collect();
    let protected: Vec<&str> = rows.actions.iter().map(|row| row.method.as_str()).collect();
    assert_eq!(methods, protected, "all of a transaction or nothing");
    for writer in writers {
        for id in writer.await.unwrap() {
            assert!(methods.contains(&id.as_str()), "{id} was written");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_closed_connections_are_rolled_back_on_postgres() {
    write_while_connections_close(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_closed_connections_are_rolled_back_on_mariadb() {
    write_while_connections_close(Kind::MariaDb).await;
}

/// Polls until the store responds.
async fn wait_until_available(store: &SqlStore) {
    let polling = async { while store.change_counters().await.is_err() {} };
    tokio::time::timeout(TIMEOUT, polling).await.unwrap();
}

async fn suspend_and_restart(server: &'static DatabaseServer) {
    let database = TestDatabase::from(server);
    let store = migrate_with_short_timeouts(&database).await;
    let section = |name: &'static str| store.add_section(name, "S", Mask::Read);
    server.suspend();
    for error in [store.change_counters().await.map(drop), section("a").await] {
        assert_eq!(error_kind(&error.unwrap_err()), Some(DatabaseErrorKind::Unavailable));
    }
    server.resume();
    wait_until_available(&store).await;
    section("b").await.unwrap();
    server.kill();
    assert_eq!(
        error_kind(&store.change_counters().await.unwrap_err()),
        Some(DatabaseErrorKind::Unavailable)
    );
    assert_eq!(error_kind(&section("c").await.unwrap_err()), Some(DatabaseErrorKind::Unavailable));
    server.restart();
    wait_until_available(&store).await;
    section("d").await.unwrap();
    let names: Vec<String> =
        store.sections().await.unwrap().into_iter().map(|row| row.ident).collect();
    assert!(names.ends_with(&["b".to_owned(), "d".to_owned()]), "{names:?}");
}

fn leak(server: DatabaseServer) -> &'static DatabaseServer {
    Box::leak(Box::new(server))
}

#[tokio::test]
async fn operations_fail_while_postgres_is_unavailable_and_succeed_after_its_recovery() {
    suspend_and_restart(leak(Engine::Postgres.start(Path::new(env!("CARGO_TARGET_TMPDIR"))))).await;
}

#[tokio::test]
async fn operations_fail_while_mariadb_is_unavailable_and_succeed_after_its_recovery() {
    suspend_and_restart(leak(Engine::MariaDb.start(Path::new(env!("CARGO_TARGET_TMPDIR"))))).await;
}

async fn write_while_locked(kind: Kind, sleep: &str) {
    let database = kind.database().await;
    let store = migrate_with_short_timeouts(&database).await;
    let lock = format!("BEGIN; SELECT * FROM callgate_revisions FOR UPDATE; {sleep}; COMMIT;");
    let locking = database.in_background(&lock);
    let mut number = 0;
    let error = loop {
        number += 1;
        if let Err(error) = store.add_section(&format!("s{number}"), "S", Mask::Read).await {
            break error;
        }
    };
    assert_eq!(error_kind(&error), Some(DatabaseErrorKind::Busy), "{error}");
    store.change_counters().await.unwrap();
    locking.join().unwrap();
    store.add_section("after", "S", Mask::Read).await.unwrap();
}

#[tokio::test]
async fn a_write_that_waits_too_long_fails_as_busy_on_postgres() {
    write_while_locked(Kind::Postgres, "SELECT pg_sleep(6)").await;
}

#[tokio::test]
async fn a_write_that_waits_too_long_fails_as_busy_on_mariadb() {
    write_while_locked(Kind::MariaDb, "SELECT SLEEP(6)").await;
}

#[tokio::test]
async fn connection_errors_do_not_contain_the_password() {
    let mut errors = Vec::new();
    for (kind, tls) in [(Kind::Postgres, "sslmode=require"), (Kind::MariaDb, "ssl-mode=REQUIRED")] {
        let server = kind.server();
        let database = server.database();
        let url = &database.url;
        let invalid_urls = [
            url.replace("s3cret", "an0ther"),
            url.replace(&database.name, "elsewhere"),
            url.replace(&server.address().port().to_string(), "1"),
            format!("{url}?{tls}"),
            format!("{url}?password=s3cret"),
        ];
        for url in invalid_urls {
            let result = SqlStore::open(&url.parse().unwrap(), &short_timeouts(), None).await;
            let error = result.unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("s3cret") && !text.contains("an0ther"), "{text}");
            errors.push((error.to_string(), error.database().map(|error| error.kind)));
        }
        let store =
            SqlStore::migrate(&url.parse().unwrap(), &short_timeouts(), None).await.unwrap().0;
        assert!(!format!("{store:?}").contains("s3cret"));
    }
    insta::assert_debug_snapshot!(errors);
}
