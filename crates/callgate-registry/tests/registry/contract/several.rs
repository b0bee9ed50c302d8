//! Several servers on one registry: concurrent writes, and messages between servers.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use callgate::Mask;
use callgate_registry::{
    DatabaseOptions, Dialect, GrantHolder, Import, ImportChange, ImportRow, MethodRow, NewKey,
    NewToken, SessionRow, SqlStore, Store as _, StoreError,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::databases::{Kind, Registry};

const WRITERS: i64 = 8;
const ROUNDS: i64 = 3;

/// Runs this task several times concurrently, and returns when all have finished. The SQL Server emulator supports one
/// transaction at a time.
async fn run_concurrently<F>(registry: &Arc<Registry>, task: impl Fn(Arc<Registry>, i64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        tasks.spawn(task(Arc::clone(registry), writer));
        if registry.database.url.dialect() == Dialect::SqlServer {
            tasks.join_next().await.unwrap().unwrap();
        }
    }
    tasks.join_all().await;
}

fn token(id_user: i64, number: i64) -> NewToken {
    let digest = format!("{number:064x}");
    NewToken { id_user, name: "t".to_owned(), digest, expires_at: None }
}

pub(crate) async fn concurrent_writers_lose_no_rows(registry: Registry) {
    let registry = Arc::new(registry);
    run_concurrently(&registry, |registry, writer| async move {
        let store = &registry.store;
        for round in 0..ROUNDS {
            let name = format!("{writer}-{round}");
            store.ensure_sections(&["shared".to_owned(), name.clone()]).await.unwrap();
            let id = store.add_user(&name, Some("everybody")).await.unwrap();
            store.grant(GrantHolder::User(id), "shared", Mask::Read).await.unwrap();
            let row = MethodRow { rpc_method: name.clone(), ..MethodRow::default() };
            store.add_method(&row, &[("shared".to_owned(), Mask::Read)]).await.unwrap();
            store.add_token(&token(id, writer * ROUNDS + round)).await.unwrap();
            store.set_setting("mcp_server_name", &name).await.unwrap();
            store.add_key(&NewKey::first().unwrap()).await.unwrap();
        }
    })
    .await;
    let count = usize::try_from(WRITERS * ROUNDS).unwrap();
    let (catalog, access) =
        (registry.store.catalog_rows().await.unwrap(), registry.store.access_rows().await.unwrap());
    assert_eq!((catalog.methods.len(), catalog.actions.len()), (count, count));
    assert_eq!((access.users.len(), access.roles.len()), (count, 1));
    assert_eq!((access.sections.len(), access.user_grants.len()), (count + 1, count));
    let tokens = registry.store.tokens().await.unwrap();
    let owners: BTreeSet<i64> = tokens.iter().map(|token| token.id_user).collect();
    assert_eq!((tokens.len(), owners.len(), catalog.settings.len()), (count, count, 1));
    assert_eq!(registry.store.keys("session").await.unwrap().len(), 1);
}

/// Returns a statement after which a transaction with the login `fault` ends in the middle: SQLite rolls it back by
/// itself, as if the disk were full, and the servers refuse a statement.
fn fault(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => {
            "CREATE TRIGGER fault BEFORE INSERT ON users WHEN NEW.login = 'fault'
             BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END"
        }
        Kind::Postgres | Kind::MariaDb | Kind::SqlServer => {
            "ALTER TABLE users ADD CONSTRAINT fault CHECK (login <> 'fault')"
        }
    }
}

pub(crate) async fn aborted_transactions_are_rolled_back_and_release_their_connections(kind: Kind) {
    let Registry { mut store, database } = kind.registry().await;
    database.sql(fault(kind)).await;
    let mut logins = vec!["fault"];
    if let Some(address) = database.address() {
        let url = database.url_at(cutting_proxy(address, "lost").await);
        store = SqlStore::open(&url, &DatabaseOptions::default(), None).await.unwrap();
        logins.push("lost");
    }
    let registry = Arc::new(Registry { store, database });
    for login in logins {
        run_concurrently(&registry, |registry, _| async move {
            registry.store.add_user(login, Some("nobody")).await.unwrap_err();
        })
        .await;
    }
    run_concurrently(&registry, |registry, writer| async move {
        registry.store.add_user(&writer.to_string(), None).await.unwrap();
        registry.store.access_rows().await.unwrap();
    })
    .await;
    let access = registry.store.access_rows().await.unwrap();
    assert_eq!((i64::try_from(access.users.len()).unwrap(), access.roles.len()), (WRITERS, 0));
}

/// Starts a proxy that closes a connection instead of passing on a request with this text.
async fn cutting_proxy(server: SocketAddr, text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // SQL Server's protocol encodes text in UTF-16.
    let patterns =
        [text.into(), text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()];
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let patterns = patterns.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await?;
                let ((mut requests, mut to_client), (mut replies, mut to_server)) =
                    (client.split(), server.split());
                let pass_on_requests = async {
                    let mut buffer = vec![0; 1 << 16];
                    loop {
                        let count = requests.read(&mut buffer).await?;
                        let read = &buffer[..count];
                        let contains = |pattern: &Vec<u8>| {
                            read.windows(pattern.len()).any(|window| window == pattern)
                        };
                        if count == 0 || patterns.iter().any(contains) {
                            return io::Result::Ok(0);
                        }
                        to_server.write_all(read).await?;
                    }
                };
                tokio::select! {
                    end = pass_on_requests => end,
                    end = tokio::io::copy(&mut replies, &mut to_client) => end,
                }
            });
        }
    });
    address
}

/// Increments the number in the title of a method, based on the row that was read.
async fn increment_title(registry: &Registry) -> Result<(), StoreError> {
    let store = &registry.store;
    let rows = store.catalog_rows().await?;
    let row = rows.methods.first().cloned().unwrap_or_default();
    let number: i64 = row.title.as_deref().map_or(0, |title| title.parse().unwrap());
    let row = MethodRow {
        rpc_method: "counter".to_owned(),
        title: Some((number + 1).to_string()),
        ..row
    };
    let note = ImportRow {
        upstream: "default".to_owned(),
        rpc_method: "counter".to_owned(),
        source: "test".to_owned(),
        written: "{}".to_owned(),
    };
    let change = ImportChange::Write { row: Box::new(row), needs: None, note };
    let import =
        Import { change_counter: rows.change_counter, changes: vec![change], ..Import::default() };
    store.import(&import).await
}

pub(crate) async fn concurrent_imports_from_outdated_rows_are_refused(registry: Registry) {
    let registry = Arc::new(registry);
    run_concurrently(&registry, |registry, _| async move {
        for _ in 0..ROUNDS {
            while let Err(error) = increment_title(&registry).await {
                assert!(matches!(error, StoreError::Conflict), "{error}");
            }
        }
    })
    .await;
    let rows = registry.store.methods_with_id("counter").await.unwrap();
    let total = (WRITERS * ROUNDS).to_string();
    assert_eq!((rows.len(), rows[0].title.as_ref()), (1, Some(&total)));
}

pub(crate) async fn concurrent_messages_and_session_changes_get_distinct_numbers(
    registry: Registry,
) {
    let registry = Arc::new(registry);
    run_concurrently(&registry, |registry, writer| async move {
        for round in 0..ROUNDS {
            let session = format!("{writer:02x}");
            registry.store.post_message(&session, &format!("{{\"n\":{round}}}")).await.unwrap();
            let (nonce, change) =
                (format!("{round:02x}"), |row: &mut SessionRow| row.ended = writer == 0);
            registry.store.update_session(&nonce, 1_000 + writer, &change).await.unwrap();
        }
    })
    .await;
    let store = &registry.store;
    let messages = store.messages_after(0).await.unwrap();
    let numbers: Vec<i64> = messages.iter().map(|message| message.number).collect();
    assert_eq!(numbers, (1..=WRITERS * ROUNDS).collect::<Vec<_>>());
    let of_session = messages.iter().filter(|message| message.session == "05");
    let texts: Vec<&str> = of_session.map(|message| message.message.as_str()).collect();
    assert_eq!(texts, [r#"{"n":0}"#, r#"{"n":1}"#, r#"{"n":2}"#], "in order");
    let change_counters = store.change_counters().await.unwrap();
    assert_eq!((change_counters.messages, change_counters.sessions), (24, 24));
    assert_eq!(store.messages_after(numbers[9]).await.unwrap(), messages[10..]);
    let sessions = store.sessions_after(0).await.unwrap();
    assert_eq!(sessions.len(), 3);
    assert!(sessions.iter().all(|session| session.ended), "ended sessions stay ended");
    store.delete_messages(3600).await.unwrap();
    assert_eq!(store.messages_after(0).await.unwrap().len(), messages.len(), "they are recent");
    store.delete_messages(-3600).await.unwrap();
    assert_eq!(store.messages_after(0).await.unwrap(), []);
    store.post_message("05", "{}").await.unwrap();
    assert_eq!(store.messages_after(0).await.unwrap()[0].number, 25, "no number comes twice");
}

pub(crate) async fn messages_are_read_in_parts_of_100(registry: Registry) {
    let store = &registry.store;
    for number in 0..105 {
        store.post_message("aa", &number.to_string()).await.unwrap();
    }
    let first = store.messages_after(0).await.unwrap();
    let rest = store.messages_after(first.last().unwrap().number).await.unwrap();
    assert_eq!((first.len(), rest.len(), rest[4].message.as_str()), (100, 5, "104"));
}

pub(crate) async fn tokens_are_found_by_many_digests(registry: Registry) {
    let store = &registry.store;
    let ada = store.add_user("ada", None).await.unwrap();
    for number in 0..3 {
        // The last token belongs to a user who does not exist.
        let owner = if number == 2 { 999 } else { ada };
        store.add_token(&token(owner, number)).await.unwrap();
    }
    // More digests than one statement accepts. Most of them are unknown.
    let list_len = registry.database.scale().list_len;
    let digests: Vec<String> = (1..list_len).map(|number| format!("{number:064x}")).collect();
    let mut found = store.tokens_by_digest(&digests).await.unwrap();
    found.sort_by(|a, b| a.digest.cmp(&b.digest));
    let owners: Vec<_> =
        found.iter().map(|token| (token.id_user, token.login.as_deref())).collect();
    assert_eq!(owners, [(ada, Some("ada")), (999, None)]);
    assert_eq!(found, store.tokens().await.unwrap()[1..]);
    assert_eq!(store.tokens_by_digest(&[]).await.unwrap(), []);
}

pub(crate) async fn keys_become_active_after_their_delay_and_old_keys_can_be_removed(
    registry: Registry,
) {
    let store = &registry.store;
    let add = async |purpose: &str, secret: &str, active_in| {
        let (purpose, secret) = (purpose.to_owned(), secret.to_owned());
        let key = NewKey { purpose, secret, active_in, min_age: Some(0) };
        assert!(store.add_key(&key).await.unwrap());
    };
    for (secret, active_in) in [("aa", 5), ("bb", 10), ("cc", 4_102_444_801)] {
        add("session", secret, active_in).await;
    }
    add("other", "dd", 5).await;
    let keys = store.keys("session").await.unwrap();
    let secrets: Vec<_> = keys.iter().map(|key| key.secret.as_str()).collect();
    assert_eq!(secrets, ["cc", "bb", "aa"], "the newest first");
    let delays: Vec<_> = keys.iter().map(|key| key.active_from - key.created_at).collect();
    assert_eq!(delays[..2], [4_102_444_801, 10]);
    assert_eq!(keys[2].active_from, 0, "the first one signs at once");
    assert!(!format!("{keys:?}").contains("bb"), "they are secrets");
    store.remove_keys_before("session", keys[0].id).await.unwrap();
    assert_eq!(store.keys("session").await.unwrap(), keys[..1]);
    assert_eq!(store.keys("other").await.unwrap().len(), 1);
}
