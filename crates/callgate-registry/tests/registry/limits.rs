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

use crate::databases::{Kind, TestDatabase};

/// Longer than any step takes.
const TIMEOUT: Duration = Duration::from_mins(1);

fn options() -> DatabaseOptions {
    DatabaseOptions { statement_timeout: Duration::from_secs(2), ..DatabaseOptions::default() }
}

fn token(number: u32) -> NewToken {
    let (name, digest) = ("t".to_owned(), format!("{number:064}"));
    NewToken { id_user: 1, name, digest, expires_at: None }
}

/// Checks that writes of tokens and keys do not wait for an import.
async fn writes_during_an_import<C>(kind: Kind)
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
async fn an_import_does_not_delay_writes_of_tokens_and_keys_on_postgres() {
    writes_during_an_import::<sqlx::PgConnection>(Kind::Postgres).await;
}

#[tokio::test]
async fn an_import_does_not_delay_writes_of_tokens_and_keys_on_mariadb() {
    writes_during_an_import::<sqlx::MySqlConnection>(Kind::MariaDb).await;
}

/// Another program has locked the second of two rows and waits for the first. This program has locked the first row and
/// waits for the second. The other program has changed more rows, or waits longer, so the database aborts the
/// transaction of this program.
async fn record_token_uses_in_a_deadlock<C>(kind: Kind, begin: &str, count_waiting: &'static str)
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
    let recording = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.record_token_uses(&uses).await }
    });
    let name = database.name.clone();
    let wait_for_lock =
        tokio::task::spawn_blocking(
            move || while server.sql(&name, count_waiting).trim() == "0" {},
        );
    tokio::time::timeout(TIMEOUT, wait_for_lock).await.unwrap().unwrap();
    let change = format!("UPDATE callgate_tokens SET name = 'other' WHERE id = {first}");
    other.execute(AssertSqlSafe(change)).await.unwrap();
    other.execute("COMMIT").await.unwrap();
    recording.await.unwrap().unwrap();
    let recorded = store.tokens().await.unwrap();
    let recorded =
        recorded.iter().filter(|row| row.last_used_at == Some(1_000) && row.name == "other");
    assert_eq!(recorded.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn token_uses_are_recorded_despite_a_deadlock_on_postgres() {
    record_token_uses_in_a_deadlock::<sqlx::PgConnection>(
        Kind::Postgres,
        "SET deadlock_timeout = '1min'; BEGIN",
        "SELECT COUNT(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_uses_are_recorded_despite_a_deadlock_on_mariadb() {
    record_token_uses_in_a_deadlock::<sqlx::MySqlConnection>(
        Kind::MariaDb,
        "BEGIN",
        "SELECT COUNT(*) FROM information_schema.innodb_trx t \
         JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
         WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'",
    )
    .await;
}

/// Creates a view whose rows are slow to read.
async fn slow_statement_error(kind: Kind, view: &str) -> String {
    let database = kind.database().await;
    database.migrate(None).await.unwrap();
    let store = SqlStore::open(&database.url, &options(), None).await.unwrap();
    store.set_meta("a", "b").await.unwrap();
    database.sql(&format!("ALTER TABLE callgate_meta RENAME TO facts; {view}")).await;
    let error = store.meta("a").await.unwrap_err();
    database.sql("DROP VIEW callgate_meta; ALTER TABLE facts RENAME TO callgate_meta").await;
    assert_eq!(store.meta("a").await.unwrap().as_deref(), Some("b"));
    let StoreError::Database(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind, DatabaseErrorKind::Unavailable, "{error}");
    error.message
}

#[tokio::test]
async fn postgres_aborts_a_statement_at_its_time_limit() {
    let view = "CREATE VIEW callgate_meta AS SELECT name, value FROM facts, pg_sleep(60)";
    let message = slow_statement_error(Kind::Postgres, view).await;
    assert!(message.contains("statement timeout"), "{message}");
}

#[tokio::test]
async fn mariadb_aborts_a_statement_at_its_time_limit() {
    let view = "CREATE VIEW callgate_meta AS SELECT name, value FROM facts WHERE SLEEP(60) = 0";
    let message = slow_statement_error(Kind::MariaDb, view).await;
    assert!(message.contains("max_statement_time"), "{message}");
}

/// A proxy that can drop connections silently, as routers do: data is neither delivered nor refused.
struct DroppingProxy {
    address: SocketAddr,
    /// Number of times that the proxy has dropped all connections.
    drops: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl DroppingProxy {
    async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (drops, connections) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let proxy =
            Self { address, drops: Arc::clone(&drops), connections: Arc::clone(&connections) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                let (client, server) = (client.into_split(), server.into_split());
                tokio::spawn(forward(client.0, server.1, Arc::clone(&drops)));
                tokio::spawn(forward(server.0, client.1, Arc::clone(&drops)));
            }
        });
        proxy
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    drops: Arc<AtomicUsize>,
) {
    let drops_before = drops.load(Ordering::SeqCst);
    let mut bytes = vec![0; 16_384];
    while let Ok(count) = from.read(&mut bytes).await
        && count > 0
    {
        if drops.load(Ordering::SeqCst) == drops_before
            && to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}

async fn replaces_dropped_connections(kind: Kind) {
    let server = kind.server();
    let database = server.database();
    let proxy = DroppingProxy::start(server.address()).await;
    let url = server.url(&database.name, proxy.address).parse().unwrap();
    SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
    let store = SqlStore::open(&url, &DatabaseOptions::default(), None).await.unwrap();
    let before = proxy.connections.load(Ordering::SeqCst);
    // Several at once, so that the pool keeps several connections.
    let (first, second, third) =
        tokio::join!(store.catalog_rows(), store.access_rows(), store.catalog_rows());
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert!(proxy.connections.load(Ordering::SeqCst) > before, "the proxy is in use");
    proxy.drops.fetch_add(1, Ordering::SeqCst);
    for _ in 0..4 {
        store.change_counters().await.unwrap();
    }
}

#[tokio::test]
async fn silently_dropped_connections_to_postgres_are_replaced() {
    replaces_dropped_connections(Kind::Postgres).await;
}

#[tokio::test]
async fn silently_dropped_connections_to_mariadb_are_replaced() {
    replaces_dropped_connections(Kind::MariaDb).await;
}

/// Inserts PostgreSQL's `infinity` with plain SQL.
#[tokio::test]
async fn infinite_times_of_postgres_become_the_earliest_and_latest_times() {
    let registry = Kind::Postgres.registry().await;
    let (store, database): (&SqlStore, &TestDatabase) = (&registry.store, &registry.database);
    let digests = ["a", "b", "c"].map(|digit| digit.repeat(64));
    let [never, expired, plain] = &digests;
    database
        .sql(&format!(
            "INSERT INTO callgate_tokens
                 (id_user, name, digest, created_at, expires_at, last_used_at)
             VALUES (1, 'never', '{never}', '-infinity', 'infinity', 'infinity'),
                    (1, 'over', '{expired}', now(), '-infinity', NULL),
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
