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

use crate::databases::{Kind, Place};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns short time limits, so that a test does not wait long for a reply that never comes.
fn impatient() -> DatabaseOptions {
    DatabaseOptions {
        connect_timeout: Duration::from_secs(1),
        statement_timeout: Duration::from_secs(2),
        ..DatabaseOptions::default()
    }
}

async fn migrated(place: &Place) -> SqlStore {
    place.migrate(None).await.unwrap();
    SqlStore::open(&place.url, &impatient(), None).await.unwrap()
}

fn kind(error: &StoreError) -> Option<DatabaseErrorKind> {
    error.database().map(|error| error.kind)
}

/// Waits for a notification.
async fn told(store: &SqlStore) {
    tokio::time::timeout(PATIENCE, store.changed()).await.unwrap();
}

#[tokio::test]
async fn postgres_tells_of_each_kind_of_change_also_after_its_connection_was_lost() {
    let registry = Kind::Postgres.registry().await;
    let (store, place) = (&registry.store, &registry.place);
    told(store).await;
    place.sql("INSERT INTO settings (name, value) VALUES ('a', 'b')").await;
    told(store).await;
    store.post_message("aa", "{}").await.unwrap();
    told(store).await;
    let listeners = "SELECT pid FROM pg_stat_activity \
                     WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let listener = place.sql(listeners).await;
    assert_eq!(listener.lines().count(), 1);
    place.sql(&format!("SELECT pg_terminate_backend({listener})")).await;
    // Notifications may have been missed before the reconnect, so the reconnect counts as a change.
    told(store).await;
    let listens_again = async {
        loop {
            let other = place.sql(listeners).await;
            if other != listener && !other.is_empty() {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, listens_again).await.unwrap();
    place.sql("UPDATE settings SET value = 'c'").await;
    told(store).await;
}

#[tokio::test]
async fn a_notice_that_comes_while_nobody_waits_is_kept_and_many_are_one() {
    let registry = Kind::Postgres.registry().await;
    let (store, place) = (&registry.store, &registry.place);
    told(store).await;
    let burst = "UPDATE callgate_revisions SET value = value + 1 WHERE name = 'keys';".repeat(50);
    place.sql(&burst).await;
    told(store).await;
    let mut notices = 1;
    // Counts later notifications. Fewer than 50 arrive, because several changes count as one.
    while tokio::time::timeout(Duration::from_secs(1), store.changed()).await.is_ok() {
        notices += 1;
    }
    assert!(notices < 50, "{notices}");
}

/// Closes every connection of this program to a database.
async fn cut(kind: Kind, place: &Place) {
    if kind == Kind::Postgres {
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name = 'callgate'";
        place.sql(cut).await;
        return;
    }
    let ours = "SELECT id FROM information_schema.processlist \
                WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    for id in place.sql(ours).await.lines() {
        // The connection may have closed by itself.
        let _ = place.try_sql(&format!("KILL {id}")).await;
    }
}

async fn cut_in_the_middle(kind: Kind) {
    let place = kind.place().await;
    let store = Arc::new(migrated(&place).await);
    store.add_section("s", "S", Mask::Execute).await.unwrap();
    let was_cut = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, was_cut) = (Arc::clone(&store), Arc::clone(&was_cut));
            tokio::spawn(async move {
                let mut written = Vec::new();
                // Repeats until a writer has noticed that its connection was closed.
                for number in (0..).take_while(|n| *n < 20 || !was_cut.load(Ordering::SeqCst)) {
                    let id = format!("m{writer}.{number}");
                    let row = MethodRow { rpc_method: id.clone(), ..MethodRow::default() };
                    match store.add_method(&row, &[("s".to_owned(), Mask::Read)]).await {
                        Ok(()) => written.push(id),
                        Err(error) => {
                            assert_eq!(self::kind(&error), Some(DatabaseErrorKind::Unavailable));
                            was_cut.store(true, Ordering::SeqCst);
                        }
                    }
                }
                written
            })
        })
        .collect();
    let cutting = async {
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            cut(kind, &place).await;
            tokio::task::yield_now().await;
        }
        // The last closed connection may be noticed only by its next user.
        loop {
            match store.catalog_rows().await {
                Ok(rows) => break rows,
                Err(error) => assert_eq!(self::kind(&error), Some(DatabaseErrorKind::Unavailable)),
            }
        }
    };
    let rows = tokio::time::timeout(PATIENCE, cutting).await.unwrap();
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
async fn of_transactions_that_postgres_cuts_off_nothing_stays() {
    cut_in_the_middle(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_transactions_that_mariadb_cuts_off_nothing_stays() {
    cut_in_the_middle(Kind::MariaDb).await;
}

/// Polls until the store responds.
async fn answers(store: &SqlStore) {
    let asking = async { while store.change_counters().await.is_err() {} };
    tokio::time::timeout(PATIENCE, asking).await.unwrap();
}

async fn away_and_back(server: &'static DatabaseServer) {
    let place = Place::from(server);
    let store = migrated(&place).await;
    let section = |name: &'static str| store.add_section(name, "S", Mask::Read);
    server.suspend();
    for error in [store.change_counters().await.map(drop), section("a").await] {
        assert_eq!(kind(&error.unwrap_err()), Some(DatabaseErrorKind::Unavailable));
    }
    server.resume();
    answers(&store).await;
    section("b").await.unwrap();
    server.kill();
    assert_eq!(
        kind(&store.change_counters().await.unwrap_err()),
        Some(DatabaseErrorKind::Unavailable)
    );
    assert_eq!(kind(&section("c").await.unwrap_err()), Some(DatabaseErrorKind::Unavailable));
    server.restart();
    answers(&store).await;
    section("d").await.unwrap();
    let names: Vec<String> =
        store.sections().await.unwrap().into_iter().map(|row| row.ident).collect();
    assert!(names.ends_with(&["b".to_owned(), "d".to_owned()]), "{names:?}");
}

fn own(server: DatabaseServer) -> &'static DatabaseServer {
    Box::leak(Box::new(server))
}

#[tokio::test]
async fn postgres_is_given_up_when_it_does_not_answer_and_found_again() {
    away_and_back(own(Engine::Postgres.start(Path::new(env!("CARGO_TARGET_TMPDIR"))))).await;
}

#[tokio::test]
async fn mariadb_is_given_up_when_it_does_not_answer_and_found_again() {
    away_and_back(own(Engine::MariaDb.start(Path::new(env!("CARGO_TARGET_TMPDIR"))))).await;
}

async fn somebody_in_the_way(kind: Kind, sleep: &str) {
    let place = kind.place().await;
    let store = migrated(&place).await;
    let hold = format!("BEGIN; SELECT * FROM callgate_revisions FOR UPDATE; {sleep}; COMMIT;");
    let holding = place.in_background(&hold);
    let mut number = 0;
    let error = loop {
        number += 1;
        if let Err(error) = store.add_section(&format!("s{number}"), "S", Mask::Read).await {
            break error;
        }
    };
    assert_eq!(self::kind(&error), Some(DatabaseErrorKind::Busy), "{error}");
    store.change_counters().await.unwrap();
    holding.join().unwrap();
    store.add_section("after", "S", Mask::Read).await.unwrap();
}

#[tokio::test]
async fn who_waits_too_long_for_another_writer_of_postgres_is_told() {
    somebody_in_the_way(Kind::Postgres, "SELECT pg_sleep(6)").await;
}

#[tokio::test]
async fn who_waits_too_long_for_another_writer_of_mariadb_is_told() {
    somebody_in_the_way(Kind::MariaDb, "SELECT SLEEP(6)").await;
}

#[tokio::test]
async fn what_is_wrong_is_told_without_the_password() {
    let mut told = Vec::new();
    for (kind, tls) in [(Kind::Postgres, "sslmode=require"), (Kind::MariaDb, "ssl-mode=REQUIRED")] {
        let server = kind.server();
        let database = server.database();
        let url = &database.url;
        let wrong = [
            url.replace("s3cret", "an0ther"),
            url.replace(&database.name, "elsewhere"),
            url.replace(&server.address().port().to_string(), "1"),
            format!("{url}?{tls}"),
            format!("{url}?password=s3cret"),
        ];
        for url in wrong {
            let opened = SqlStore::open(&url.parse().unwrap(), &impatient(), None).await;
            let error = opened.unwrap_err();
            let words = format!("{error} {error:?}");
            assert!(!words.contains("s3cret") && !words.contains("an0ther"), "{words}");
            told.push((error.to_string(), error.database().map(|error| error.kind)));
        }
        let store = SqlStore::migrate(&url.parse().unwrap(), &impatient(), None).await.unwrap().0;
        assert!(!format!("{store:?}").contains("s3cret"));
    }
    insta::assert_debug_snapshot!(told);
}
