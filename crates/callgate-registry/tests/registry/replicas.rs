//! Several servers on one registry, and clients that send each request to a different server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use axum::body::Body;
use axum::http::Request;
use callgate::access::{RateLimit, RateLimits};
use callgate::ask::Elicit;
use callgate::local::Error;
use callgate::local::Local;
use callgate::mcp::LogLevel;
use callgate::model::{Method, Safety};
use callgate::{Callgate, Content, Context, Mask};
use callgate_registry::{
    Following, GrantHolder, NewKey, NewToken, Registry, SESSION_KEYS, Store as _, Token,
    signing_key,
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::databases::Kind;

/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
    "protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},
    "clientInfo":{"name":"test","version":"1"}}}"#;
const MODERN: &str = "2026-07-28";

/// Creates each of these tests for each kind of database. The SQL Server emulator is not included, because it loses one
/// of two concurrent transactions.
macro_rules! fleets {
    ($($name:ident),* $(,)?) => {
        fleets! { @ on_sqlite: Kind::Sqlite; $($name),* }
        fleets! { @ on_postgres: Kind::Postgres; $($name),* }
        fleets! { @ on_mariadb: Kind::MariaDb; $($name),* }
    };
    (@ $module:ident: $kind:expr; $($name:ident),*) => {
        mod $module {
            use crate::databases::Kind;

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name($kind).await;
                }
            )*
        }
    };
}

fleets! {
    an_answer_reaches_its_call_on_another_server,
    a_cancellation_reaches_only_its_call_on_another_server,
    a_session_that_ends_on_one_server_ends_on_all_servers,
    a_log_level_that_is_set_on_one_server_applies_on_the_others,
    clients_are_notified_of_changes_by_each_server,
    a_revoked_token_is_refused_by_all_servers,
    a_new_server_ignores_earlier_messages_and_messages_are_deleted_by_age,
    no_session_is_lost_while_keys_are_replaced,
}

fn method(id: &str) -> Method {
    Method::new(id.parse().unwrap()).description(format!("Does {id}.")).safety(Safety::ReadOnly)
}

fn methods(cancelled: &Arc<AtomicUsize>) -> Local {
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let mut local = Local::default();
    local.content_method(method("greet"), async |context: Context, _: Value| {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let reply = context.client.ask("name", Elicit::form("Who are you?", schema)).await?;
        Ok(Content::text(format!("Hello, {}!", reply.content["name"])))
    });
    local.content_method(method("log"), async |context: Context, _: Value| {
        context.client.log(LogLevel::Debug, "test", "heard");
        Ok(Content::text("logged"))
    });
    let cancelled = Arc::clone(cancelled);
    local.method(method("wait"), move |_, _: Value| {
        let guard = OnDrop(Arc::clone(&cancelled));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok::<_, Error>(())
        }
    });
    local.method(method("secret").requires("secrets", Mask::Read), async |_, _: Value| {
        Ok::<_, Error>(7)
    });
    local
}

/// Servers, each with its own connections to the same registry, and a user with a token.
struct Fleet {
    registry: crate::databases::Registry,
    gateways: Vec<(Callgate, Following)>,
    token: Token,
    token_id: i64,
    user: i64,
    turn: AtomicUsize,
    cancelled: Arc<AtomicUsize>,
}

impl Fleet {
    async fn new(kind: Kind, count: usize) -> Self {
        let registry = kind.registry().await;
        let user = registry.store.add_user("ada", None).await.unwrap();
        let token = Token::generate().unwrap();
        let new = NewToken {
            id_user: user,
            name: "test".to_owned(),
            digest: token.stored_digest(),
            expires_at: None,
        };
        let token_id = registry.store.add_token(&new).await.unwrap();
        let (gateways, turn, cancelled) = (Vec::new(), AtomicUsize::new(0), Arc::default());
        let mut fleet = Self { registry, gateways, token, token_id, user, turn, cancelled };
        for _ in 0..count {
            fleet.start().await;
        }
        fleet
    }

    async fn start(&mut self) {
        let registry = Registry::new(Arc::new(self.registry.database.open(None).await.unwrap()));
        let gateway = Callgate::builder()
            .local(methods(&self.cancelled))
            .authenticate(registry.authenticator())
            .sessions(registry.sessions().await.unwrap())
            // Some tests send as many requests as they can within seconds.
            .rate_limits(RateLimits {
                per_caller: Some(RateLimit::Unlimited),
                ..RateLimits::default()
            })
            .build()
            .unwrap();
        let following = registry.follow(&gateway).await.unwrap();
        self.gateways.push((gateway, following));
    }

    /// Returns the index of the server whose turn it is.
    fn next(&self) -> usize {
        self.turn.fetch_add(1, Ordering::SeqCst) % self.gateways.len()
    }

    /// Sends a request to one of the servers.
    async fn send(&self, server: usize, verb: &str, session: Option<&str>, body: String) -> Reply {
        let mut request = Request::builder()
            .method(verb)
            .uri("/mcp")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token.expose()))
            .header("accept", "text/event-stream, application/json");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        self.respond(server, request.body(Body::from(body)).unwrap()).await
    }

    async fn respond(&self, server: usize, request: Request<Body>) -> Reply {
        let router = self.gateways.get(server).unwrap().0.router();
        let response = router.oneshot(request).await.unwrap();
        let session = response.headers().get("mcp-session-id");
        let session = session.map(|id| id.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        Reply { status, session, body: response.into_body(), text: String::new() }
    }

    /// Opens a notification stream of a modern client.
    async fn listen(&self, server: usize) -> Reply {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        let body = request("subscriptions/listen", &params);
        let request = Request::post("/mcp")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token.expose()))
            .header("accept", "text/event-stream, application/json")
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", "subscriptions/listen");
        let mut reply = self.respond(server, request.body(Body::from(body)).unwrap()).await;
        let acknowledged = reply.next().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        reply
    }

    async fn initialize(&self, server: usize) -> String {
        self.send(server, "POST", None, INITIALIZE.to_owned()).await.session.unwrap()
    }

    /// Starts a call. Its stream is open, so the call is running.
    async fn call(&self, server: usize, session: &str, name: &str) -> Reply {
        let reply =
            self.send(server, "POST", Some(session), request("tools/call", &json!({"name": name})));
        let reply = reply.await;
        assert_eq!(reply.status, 200);
        reply
    }

    async fn status(&self, server: usize, session: &str) -> u16 {
        self.send(server, "POST", Some(session), request("ping", &json!({}))).await.status
    }
}

fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

fn answer(question: &Value, name: &str) -> String {
    let result = json!({"action": "accept", "content": {"name": name}});
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()
}

fn cancellation() -> String {
    let params = json!({"requestId": 1});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

/// A reply whose stream is read in parts.
struct Reply {
    status: u16,
    session: Option<String>,
    body: Body,
    text: String,
}

impl Reply {
    /// Returns the next message, or `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(TIMEOUT, self.message()).await.unwrap()
    }

    async fn message(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                match event.strip_prefix("event: message\ndata: ") {
                    Some(data) => return Some(serde_json::from_str(data).unwrap()),
                    None => continue,
                }
            }
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&frame).unwrap());
        }
    }
}

/// Polls until the condition holds.
async fn wait_until(name: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < TIMEOUT, "never: {name}");
        tokio::task::yield_now().await;
    }
}

fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

async fn an_answer_reaches_its_call_on_another_server(kind: Kind) {
    let fleet = Fleet::new(kind, 3).await;
    for name in ["Ada", "Grace", "Łukasz 🚀"] {
        let session = fleet.initialize(fleet.next()).await;
        let mut call = fleet.call(fleet.next(), &session, "greet").await;
        let question = call.next().await.unwrap();
        assert_eq!(question["method"], "elicitation/create");
        let sent = fleet.send(fleet.next(), "POST", Some(&session), answer(&question, name)).await;
        assert_eq!(sent.status, 202);
        let result = call.next().await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], format!("Hello, \"{name}\"!"));
        // Another server starts the next round.
        fleet.next();
    }
}

async fn a_cancellation_reaches_only_its_call_on_another_server(kind: Kind) {
    let fleet = Fleet::new(kind, 2).await;
    let (cancelled_session, other_session) = (fleet.initialize(0).await, fleet.initialize(0).await);
    let mut cancelled = fleet.call(1, &cancelled_session, "wait").await;
    let mut greeting = fleet.call(1, &other_session, "greet").await;
    let question = greeting.next().await.unwrap();
    assert_eq!(fleet.send(0, "POST", Some(&cancelled_session), cancellation()).await.status, 202);
    assert!(cancelled.next().await.is_none(), "nothing is sent");
    assert_eq!(fleet.cancelled.load(Ordering::SeqCst), 1);
    fleet.send(0, "POST", Some(&other_session), answer(&question, "Ada")).await;
    assert!(greeting.next().await.unwrap()["result"].is_object(), "the other call continues");
}

async fn a_session_that_ends_on_one_server_ends_on_all_servers(kind: Kind) {
    let mut fleet = Fleet::new(kind, 2).await;
    let session = fleet.initialize(1).await;
    let mut call = fleet.call(1, &session, "wait").await;
    let mut stream = fleet.send(1, "GET", Some(&session), String::new()).await;
    assert_eq!(fleet.send(0, "DELETE", Some(&session), String::new()).await.status, 204);
    assert!(call.next().await.is_none());
    assert!(stream.next().await.is_none());
    assert_eq!(fleet.status(1, &session).await, 404);
    fleet.start().await;
    assert_eq!(fleet.status(2, &session).await, 404, "also at a later server");
}

async fn a_log_level_that_is_set_on_one_server_applies_on_the_others(kind: Kind) {
    let fleet = Fleet::new(kind, 2).await;
    let session = fleet.initialize(0).await;
    let set = request("logging/setLevel", &json!({"level": "debug"}));
    assert_eq!(fleet.send(0, "POST", Some(&session), set).await.status, 200);
    wait_until("the level counts", async || {
        let first = fleet.call(1, &session, "log").await.next().await.unwrap();
        first["method"] == "notifications/message"
    })
    .await;
}

async fn clients_are_notified_of_changes_by_each_server(kind: Kind) {
    let fleet = Fleet::new(kind, 2).await;
    let session = fleet.initialize(0).await;
    let mut listeners = Vec::new();
    for server in [0, 1] {
        listeners.push(fleet.send(server, "GET", Some(&session), String::new()).await);
        listeners.push(fleet.listen(server).await);
    }
    let store = &fleet.registry.store;
    store.grant(GrantHolder::User(fleet.user), "secrets", Mask::Read).await.unwrap();
    for listener in &mut listeners {
        let notification = listener.next().await.unwrap();
        assert_eq!(notification["method"], "notifications/tools/list_changed");
    }
}

async fn a_revoked_token_is_refused_by_all_servers(kind: Kind) {
    let fleet = Fleet::new(kind, 3).await;
    let session = fleet.initialize(0).await;
    let mut listeners = Vec::new();
    for server in 0..3 {
        assert_eq!(fleet.status(server, &session).await, 200);
        listeners.push(fleet.send(server, "GET", Some(&session), String::new()).await);
    }
    fleet.registry.store.revoke_token(fleet.token_id).await.unwrap();
    for server in 0..3 {
        wait_until("it is refused", async || fleet.status(server, &session).await == 401).await;
    }
    for mut listener in listeners {
        assert!(listener.next().await.is_none(), "the stream ends");
    }
}

async fn a_new_server_ignores_earlier_messages_and_messages_are_deleted_by_age(kind: Kind) {
    let mut fleet = Fleet::new(kind, 1).await;
    let session = fleet.initialize(0).await;
    fleet.send(0, "POST", Some(&session), cancellation()).await;
    let store = &fleet.registry.store;
    assert_eq!(store.messages_after(0).await.unwrap().len(), 1);
    fleet.start().await;
    let mut call = fleet.call(1, &session, "greet").await;
    let question = call.next().await.unwrap();
    fleet.send(0, "POST", Some(&session), answer(&question, "Ada")).await;
    assert!(call.next().await.unwrap()["result"].is_object(), "not cancelled by an old message");
    let store = &fleet.registry.store;
    store.delete_messages(60).await.unwrap();
    assert_eq!(store.messages_after(0).await.unwrap().len(), 2, "they are recent");
    store.delete_messages(-60).await.unwrap();
    assert!(store.messages_after(0).await.unwrap().is_empty());
}

async fn no_session_is_lost_while_keys_are_replaced(kind: Kind) {
    let fleet = Fleet::new(kind, 3).await;
    let store = &fleet.registry.store;
    let before = fleet.initialize(0).await;
    let old = store.keys(SESSION_KEYS).await.unwrap();
    let key = NewKey { active_in: 3, ..NewKey::announced(Duration::ZERO).unwrap() };
    assert!(store.add_key(&key).await.unwrap());
    let keys = store.keys(SESSION_KEYS).await.unwrap();
    assert_eq!(signing_key(&keys, unix_time()).map(|key| key.id), old.first().map(|key| key.id));
    let (mut is_replaced, mut rounds) = (false, 0);
    // Continues for some rounds after the new key has begun to sign.
    while !is_replaced || rounds % 100 != 0 {
        is_replaced =
            signing_key(&keys, unix_time() - 1).map(|key| key.id) == keys.first().map(|key| key.id);
        rounds += 1;
        let session = fleet.initialize(fleet.next()).await;
        for _ in 0..2 {
            assert_eq!(fleet.status(fleet.next(), &session).await, 200, "round {rounds}");
        }
        assert_eq!(fleet.status(fleet.next(), &before).await, 200, "round {rounds}");
        tokio::task::yield_now().await;
    }
    // Sessions that the new key signed are valid without the old key. Removing the old key ends the sessions that it
    // signed.
    let after = fleet.initialize(0).await;
    store.remove_keys_before(SESSION_KEYS, keys.first().unwrap().id).await.unwrap();
    for server in 0..3 {
        wait_until("the old key is gone", async || fleet.status(server, &before).await == 404)
            .await;
        assert_eq!(fleet.status(server, &after).await, 200);
    }
}
