//! Waiting times: operations that an import does not delay, the time limit of a statement, and connections that a
//! router has dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callgate::Mask;
use callgate_registry::{
    DatabaseErrorKind, DatabaseOptions, NewKey, NewToken, SqlStore, Store as _, StoreError,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::databases::{Kind, Place};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_mins(1);

fn options() -> DatabaseOptions {
    DatabaseOptions { statement_timeout: Duration::from_secs(2), ..DatabaseOptions::default() }
}

fn token(number: u32) -> NewToken {
    let (name, digest) = ("t".to_owned(), format!("{number:064}"));
    NewToken { id_user: 1, name, digest, expires_at: None }
}

/// Checks that writes of tokens and keys do not wait for an import.
async fn while_somebody_imports<C>(kind: Kind)
where
    C: sqlx::Connection,
    for<'c> &'c mut C: sqlx::Executor<'c, Database = C::Database>,
{
    use sqlx::Executor as _;
    let database = kind.server().database();
    let url = database.url.parse().unwrap();
    SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
    let store = SqlStore::open(&url, &options(), None).await.unwrap();
    let mut import = C::connect(&database.url).await.unwrap();
    import.execute("BEGIN").await.unwrap();
    let counters =
        "SELECT * FROM callgate_revisions WHERE name IN ('access', 'catalog') FOR UPDATE";
    import.execute(counters).await.unwrap();
    let id = store.add_token(&token(1)).await.unwrap();
    for number in 2..5 {
        store.add_token(&token(number)).await.unwrap();
    }
    store.record_token_uses(&[(id, 1_000)]).await.unwrap();
    store.revoke_token(id).await.unwrap();
    assert_eq!(store.revoke_tokens_named("t").await.unwrap(), 3);
    assert!(store.add_key(&NewKey::first().unwrap()).await.unwrap());
    store.remove_keys_before("session", 1).await.unwrap();
    let error = store.add_section("s", "S", Mask::Read).await.unwrap_err();
    let StoreError::Database(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind, DatabaseErrorKind::Busy, "the import still holds its lock");
    import.execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn an_import_into_postgres_holds_no_token_up() {
    while_somebody_imports::<sqlx::PgConnection>(Kind::Postgres).await;
}

#[tokio::test]
async fn an_import_into_mariadb_holds_no_token_up() {
    while_somebody_imports::<sqlx::MySqlConnection>(Kind::MariaDb).await;
}

/// Another program has locked the second of two rows and waits for the first. This program has locked the first row and
/// waits for the second. The other program has changed more rows, or waits longer, so the database aborts the
/// transaction of this program.
async fn in_each_others_way<C>(kind: Kind, begin: &str, waiting: &'static str)
where
    C: sqlx::Connection,
    for<'c> &'c mut C: sqlx::Executor<'c, Database = C::Database>,
{
    use sqlx::{AssertSqlSafe, Executor as _};
    let server = kind.server();
    let database = server.database();
    let url = database.url.parse().unwrap();
    let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
    for number in 0..20 {
        store.add_token(&token(number)).await.unwrap();
    }
    let mut ids: Vec<i64> = store.tokens().await.unwrap().iter().map(|row| row.id).collect();
    let first = ids.remove(0);
    let uses = [(first, 1_000), (ids[0], 1_000)];
    let mut other = C::connect(&database.url).await.unwrap();
    other.execute(sqlx::raw_sql(AssertSqlSafe(begin.to_owned()))).await.unwrap();
    for id in ids {
        let change = format!("UPDATE callgate_tokens SET name = 'other' WHERE id = {id}");
        other.execute(AssertSqlSafe(change)).await.unwrap();
    }
    let store = Arc::new(store);
    let noting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.record_token_uses(&uses).await }
    });
    let name = database.name.clone();
    let until_it_waits =
        tokio::task::spawn_blocking(move || while server.sql(&name, waiting).trim() == "0" {});
    tokio::time::timeout(PATIENCE, until_it_waits).await.unwrap().unwrap();
    let change = format!("UPDATE callgate_tokens SET name = 'other' WHERE id = {first}");
    other.execute(AssertSqlSafe(change)).await.unwrap();
    other.execute("COMMIT").await.unwrap();
    noting.await.unwrap().unwrap();
    let noted = store.tokens().await.unwrap();
    let noted = noted.iter().filter(|row| row.last_used_at == Some(1_000) && row.name == "other");
    assert_eq!(noted.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_to_give_way_to_another_program_of_postgres_tries_again() {
    in_each_others_way::<sqlx::PgConnection>(
        Kind::Postgres,
        "SET deadlock_timeout = '1min'; BEGIN",
        "SELECT COUNT(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_to_give_way_to_another_program_of_mariadb_tries_again() {
    in_each_others_way::<sqlx::MySqlConnection>(
        Kind::MariaDb,
        "BEGIN",
        "SELECT COUNT(*) FROM information_schema.innodb_trx t \
         JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
         WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'",
    )
    .await;
}

/// Creates a view whose rows are slow to read.
async fn slow(kind: Kind, view: &str) -> String {
    let place = kind.place().await;
    place.migrate(None).await.unwrap();
    let store = SqlStore::open(&place.url, &options(), None).await.unwrap();
    store.set_meta("a", "b").await.unwrap();
    place.sql(&format!("ALTER TABLE callgate_meta RENAME TO facts; {view}")).await;
    let error = store.meta("a").await.unwrap_err();
    place.sql("DROP VIEW callgate_meta; ALTER TABLE facts RENAME TO callgate_meta").await;
    assert_eq!(store.meta("a").await.unwrap().as_deref(), Some("b"));
    let StoreError::Database(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind, DatabaseErrorKind::Unavailable, "{error}");
    error.message
}

#[tokio::test]
async fn postgres_ends_a_statement_that_takes_too_long() {
    let view = "CREATE VIEW callgate_meta AS SELECT name, value FROM facts, pg_sleep(60)";
    let said = slow(Kind::Postgres, view).await;
    assert!(said.contains("statement timeout"), "{said}");
}

#[tokio::test]
async fn mariadb_ends_a_statement_that_takes_too_long() {
    let view = "CREATE VIEW callgate_meta AS SELECT name, value FROM facts WHERE SLEEP(60) = 0";
    let said = slow(Kind::MariaDb, view).await;
    assert!(said.contains("max_statement_time"), "{said}");
}

/// A proxy that can drop connections silently, as routers do: data is neither delivered nor refused.
struct Router {
    address: SocketAddr,
    /// Number of times that the proxy has dropped all connections.
    forgotten: Arc<AtomicUsize>,
    passed: Arc<AtomicUsize>,
}

impl Router {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (forgotten, passed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let router =
            Self { address, forgotten: Arc::clone(&forgotten), passed: Arc::clone(&passed) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.unwrap();
                passed.fetch_add(1, Ordering::SeqCst);
                let (client, server) = (client.into_split(), server.into_split());
                tokio::spawn(pass(client.0, server.1, Arc::clone(&forgotten)));
                tokio::spawn(pass(server.0, client.1, Arc::clone(&forgotten)));
            }
        });
        router
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    forgotten: Arc<AtomicUsize>,
) {
    let since = forgotten.load(Ordering::SeqCst);
    let mut bytes = vec![0; 16_384];
    while let Ok(count) = from.read(&mut bytes).await
        && count > 0
    {
        if forgotten.load(Ordering::SeqCst) == since && to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}

async fn forgotten_on_the_way(kind: Kind) {
    let server = kind.server();
    let database = server.database();
    let router = Router::to(server.address()).await;
    let url = server.url(&database.name, router.address).parse().unwrap();
    SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
    let store = SqlStore::open(&url, &DatabaseOptions::default(), None).await.unwrap();
    let before = router.passed.load(Ordering::SeqCst);
    // Several at once, so that the pool keeps several connections.
    let (one, two, three) =
        tokio::join!(store.catalog_rows(), store.access_rows(), store.catalog_rows());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert!(router.passed.load(Ordering::SeqCst) > before, "the proxy is in use");
    router.forgotten.fetch_add(1, Ordering::SeqCst);
    for _ in 0..4 {
        store.change_counters().await.unwrap();
    }
}

#[tokio::test]
async fn connections_to_postgres_that_were_forgotten_on_the_way_are_replaced() {
    forgotten_on_the_way(Kind::Postgres).await;
}

#[tokio::test]
async fn connections_to_mariadb_that_were_forgotten_on_the_way_are_replaced() {
    forgotten_on_the_way(Kind::MariaDb).await;
}

/// Inserts PostgreSQL's `infinity` with plain SQL.
#[tokio::test]
async fn times_of_postgres_without_an_end_are_far_ones() {
    let registry = Kind::Postgres.registry().await;
    let (store, place): (&SqlStore, &Place) = (&registry.store, &registry.place);
    let digests = ["a", "b", "c"].map(|digit| digit.repeat(64));
    let [never, over, plain] = &digests;
    place
        .sql(&format!(
            "INSERT INTO callgate_tokens
                 (id_user, name, digest, created_at, expires_at, last_used_at)
             VALUES (1, 'never', '{never}', '-infinity', 'infinity', 'infinity'),
                    (1, 'over', '{over}', now(), '-infinity', NULL),
                    (1, 'plain', '{plain}', now(), NULL, NULL);
             INSERT INTO callgate_credentials (id_user, upstream, secret, set_at)
             VALUES (1, 'shop', 's', 'infinity');
             INSERT INTO callgate_keys (purpose, secret, created_at, active_from)
             VALUES ('session', 'aa', '-infinity', 'infinity')"
        ))
        .await;
    let last = 253_402_300_799;
    let tokens = store.tokens().await.unwrap();
    let ends: Vec<_> = tokens.iter().map(|token| token.expires_at).collect();
    assert_eq!(ends, [Some(last), Some(0), None]);
    assert_eq!((tokens[0].created_at, tokens[0].last_used_at), (0, Some(last)));
    assert_eq!(store.tokens_by_digest(&digests).await.unwrap().len(), 3);
    assert_eq!(store.access_rows().await.unwrap().credentials.len(), 1);
    assert_eq!(store.keys("session").await.unwrap()[0].active_from, last);
    store.record_token_uses(&[(tokens[0].id, 1_000), (tokens[2].id, 1_000)]).await.unwrap();
    let used: Vec<_> = store.tokens().await.unwrap().iter().map(|row| row.last_used_at).collect();
    assert_eq!(used, [Some(last), None, Some(1_000)]);
}
