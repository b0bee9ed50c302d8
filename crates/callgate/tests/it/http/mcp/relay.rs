//! Several servers with the same sessions: messages that arrive at the wrong server.

use std::net::SocketAddr;
use std::sync::Mutex;

use axum::extract::ConnectInfo;
use callgate::mcp::{Nonce, Relay, SessionChange, SessionEdit, SessionState, SessionStore};

use super::asking::{accept, answer, methods};
use super::*;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The store and the relay that the servers share.
#[derive(Debug, Default)]
struct Office {
    servers: Mutex<Vec<Arc<Mcp>>>,
    states: Mutex<HashMap<Nonce, SessionState>>,
    posted: Mutex<Vec<String>>,
    is_shut: AtomicBool,
}

impl Relay for Office {
    fn post(&self, session: Nonce, message: String) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            if self.is_shut.load(Ordering::SeqCst) {
                return Err("database `password=hunter2` is away".into());
            }
            for server in self.servers.lock().unwrap().iter() {
                server.deliver(session, &message);
            }
            self.posted.lock().unwrap().push(message);
            Ok(())
        })
    }
}

impl SessionStore for Office {
    fn update(
        &self,
        nonce: Nonce,
        edit: SessionEdit,
        ends_at: u64,
    ) -> BoxFuture<'_, Result<SessionState, Failure>> {
        let mut states = self.states.lock().unwrap();
        let state = states.entry(nonce).or_default();
        edit.apply(state);
        let state = state.clone();
        for server in self.servers.lock().unwrap().iter() {
            server.apply_change(SessionChange { nonce, state: state.clone(), ends_at });
        }
        Box::pin(async { Ok(state) })
    }
}

/// Returns two servers with the same tools, keys and shared state.
fn two() -> (App, App, Arc<Office>, Slow) {
    let (office, slow) = (Arc::new(Office::default()), Slow::new());
    let server = || {
        let sessions = Sessions::new([SessionKey::new(&[7; 32])])
            .with_store(Arc::clone(&office) as _)
            .with_relay(Arc::clone(&office) as _);
        let (mut local, _) = methods();
        let waits = slow.clone();
        local.method(method("slow"), move |_, _: Value| {
            let slow = waits.clone();
            async move {
                let _dropped = OnDrop(Arc::clone(&slow.dropped));
                slow.started.add_permits(1);
                slow.go.acquire().await.unwrap().forget();
                Ok::<_, Error>("done")
            }
        });
        let options = options(|options| options.max_body_bytes = 8 << 20);
        let app = App::with_sessions(local, options, sessions, Services::default());
        office.servers.lock().unwrap().push(Arc::clone(&app.mcp));
        app
    };
    let (one, other) = (server(), server());
    (one, other, office, slow)
}

/// Returns the same client, connected to another server.
fn at<'a>(app: &'a App, client: &Client<'a>) -> Client<'a> {
    Client { session: client.session.clone(), ..app.client(client.caller, client.revision) }
}

fn cancelled(id: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

async fn opened<'a>(app: &'a App, revision: &'a str) -> Client<'a> {
    opened_by(app, "reader", revision).await
}

async fn opened_by<'a>(app: &'a App, caller: &'a str, revision: &'a str) -> Client<'a> {
    app.client(caller, revision).offering(json!({"elicitation": {}})).await
}

/// Returns how many messages this number of sessions of a caller can send.
async fn taken(app: &App, caller: &str, sessions: usize, message: &Value) -> usize {
    let mut taken = 0;
    for _ in 0..sessions {
        let client = opened_by(app, caller, "2025-11-25").await;
        while client.send(message).await.status == 202 {
            taken += 1;
        }
    }
    taken
}

/// Returns an answer with a million letters to a question of another server.
fn long_answer() -> Value {
    let question = json!({"id": "AAAAAAAAAAAAAAAAAAAAAAAA"});
    answer(&question, accept(&"x".repeat(1_000_000)))
}

#[tokio::test]
async fn an_answer_finds_its_call_on_another_server() {
    let (one, other, office, _) = two();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = opened(&one, revision).await;
        let mut stream = at(&other, &client).stream("tools/call", json!({"name": "greet"})).await;
        let question = stream.next().await.unwrap();
        assert_eq!(client.send(&answer(&question, accept("Ada"))).await.status, 202);
        let result = stream.next().await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], r#""Hello" "Ada"!"#, "{revision}");
    }
    assert_eq!(office.posted.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_refusal_and_an_answer_in_a_batch_find_their_call_too() {
    let (one, other, _, _) = two();
    let client = opened(&one, "2025-03-26").await;
    let there = at(&other, &client);
    let mut stream = there.stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    let error = json!({"code": -1, "message": "No \"thanks\""});
    let refusal = json!([{"jsonrpc": "2.0", "id": question["id"], "error": error}]);
    assert_eq!(client.send(&refusal).await.status, 202);
    let text = &stream.next().await.unwrap()["result"]["content"][0]["text"];
    assert_eq!(text, "the client did not answer: No \"thanks\" (code -1)");
}

#[tokio::test]
async fn a_cancellation_is_relayed_to_the_server_of_the_call() {
    let (one, other, _, slow) = two();
    let client = opened(&one, "2025-06-18").await;
    let stranger = opened(&one, "2025-06-18").await;
    let there = at(&other, &client);
    let call = there.ask("tools/call", json!({"name": "slow"}));
    let rest = async {
        slow.until_started().await;
        assert_eq!(stranger.send(&cancelled(json!(1))).await.status, 202);
        assert_eq!(slow.counts(), (0, 0), "the call is of another session");
        assert_eq!(client.send(&cancelled(json!(1))).await.status, 202);
    };
    let (reply, ()) = tokio::join!(call, rest);
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (200, ""), "the reply is empty");
    assert_eq!(slow.counts(), (0, 1));
}

#[tokio::test]
async fn a_session_that_ends_on_one_server_ends_on_the_others() {
    let (one, other, _, slow) = two();
    let client = opened(&one, "2025-06-18").await;
    let there = at(&other, &client);
    let session = client.session.clone().unwrap();
    let listen = request("GET", "reader", "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session);
    let mut stream = Stream::of(other.respond(listen.body(Body::empty()).unwrap()).await);
    let call = there.ask("tools/call", json!({"name": "slow"}));
    let end = async {
        slow.until_started().await;
        let end = request("DELETE", "reader", "/mcp").header("mcp-session-id", &session);
        assert_eq!(one.send(end.body(Body::empty()).unwrap()).await.status, 204);
    };
    let (reply, ()) = tokio::join!(call, end);
    assert_eq!((reply.text.as_str(), slow.counts()), ("", (0, 1)));
    assert!(stream.next().await.is_none(), "streams end with their session");
    assert_eq!(there.error("ping", json!({})).await, (404, -32600));
}

#[tokio::test]
async fn what_cannot_be_brought_to_its_call_is_refused_and_not_lost() {
    let (one, other, office, _) = two();
    let client = opened(&one, "2025-11-25").await;
    let mut stream = at(&other, &client).stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    let long = answer(&question, accept(&"x".repeat(1 << 20)));
    let reply = client.send(&long).await;
    assert_eq!(code(&reply), (413, -32600));
    insta::assert_json_snapshot!("too_long", reply.json());
    office.is_shut.store(true, Ordering::SeqCst);
    let reply = client.send(&answer(&question, accept("Ada"))).await;
    assert_eq!(code(&reply), (503, -32603));
    insta::assert_json_snapshot!("away", reply.json());
    assert_eq!(code(&client.send(&cancelled(json!(1))).await), (503, -32603));
    // At the right server, no message has to be relayed.
    assert_eq!(at(&other, &client).send(&long).await.status, 202);
    assert!(stream.next().await.unwrap()["result"]["content"].is_array());
}

#[tokio::test]
async fn one_session_cannot_post_without_end() {
    let (one, _, office, _) = two();
    let client = opened(&one, "2025-11-25").await;
    let mut refused = None;
    for id in 0..200 {
        let reply = client.send(&cancelled(json!(id))).await;
        if reply.status != 202 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!((code(&refused), refused.header("retry-after")), ((429, -32600), "60"));
    insta::assert_json_snapshot!("too_many", refused.json());
    let posted = office.posted.lock().unwrap().len();
    assert!((1..200).contains(&posted), "{posted}");
    let another = opened(&one, "2025-11-25").await;
    assert_eq!(
        another.send(&cancelled(json!(1))).await.status,
        202,
        "other sessions are not limited"
    );
}

#[tokio::test]
async fn one_user_cannot_post_without_end_in_many_sessions() {
    let (one, other, _, _) = two();
    assert_eq!(taken(&one, "reader", 9, &cancelled(json!(1))).await, 1024);
    assert_eq!(
        taken(&one, "admin", 1, &cancelled(json!(1))).await,
        128,
        "other users are not limited"
    );
    assert_eq!(taken(&other, "reader", 1, &long_answer()).await, 4, "4 MiB of a session");
    assert_eq!(taken(&other, "reader", 4, &long_answer()).await, 12, "16 MiB of a user");
}

#[tokio::test]
async fn a_few_sessions_without_a_user_hold_up_no_others() {
    let (one, other, _, _) = two();
    assert_eq!(taken(&one, "", 9, &cancelled(json!(1))).await, 9 * 128);
    assert_eq!(taken(&other, "", 17, &long_answer()).await, 67, "64 MiB without a user");
    assert_eq!(taken(&other, "reader", 1, &long_answer()).await, 4, "users have their own limit");
}

#[tokio::test]
async fn one_address_cannot_post_without_end_in_many_sessions() {
    let (one, _, _, _) = two();
    let message = cancelled(json!(1));
    let taken = async |address: [u8; 4], sessions: usize| {
        let mut taken = 0;
        for _ in 0..sessions {
            let client = opened_by(&one, "", "2025-11-25").await;
            let send = async || {
                let peer = ConnectInfo(SocketAddr::from((address, 1)));
                let request = client.builder(&message).extension(peer);
                one.send(request.body(message.to_string().into()).unwrap()).await
            };
            while send().await.status == 202 {
                taken += 1;
            }
        }
        taken
    };
    assert_eq!(taken([192, 0, 2, 1], 9).await, 1024);
    assert_eq!(taken([192, 0, 2, 2], 1).await, 128, "other addresses are not limited");
}

#[tokio::test]
async fn one_address_cannot_store_sessions_without_end() {
    let (one, _, office, _) = two();
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "info"}});
    let set = async |address: [u8; 4]| {
        let client = opened_by(&one, "", "2025-11-25").await;
        let peer = ConnectInfo(SocketAddr::from((address, 1)));
        let request = client.builder(&level).extension(peer);
        one.send(request.body(level.to_string().into()).unwrap()).await
    };
    let mut refused = None;
    while refused.is_none() && office.states.lock().unwrap().len() < 1_500 {
        refused = Some(set([192, 0, 2, 1]).await).filter(|reply| reply.status != 200);
    }
    let refused = refused.unwrap();
    assert_eq!(refused.status, 429);
    assert!(matches!(refused.header("retry-after"), "1" | "2"), "{:?}", refused.headers);
    assert!(refused.text.contains("changes of sessions per caller is 30/min"), "{}", refused.text);
    assert_eq!(set([192, 0, 2, 2]).await.status, 200, "other addresses are not limited");
}

#[tokio::test]
async fn only_what_could_concern_a_call_of_a_good_session_is_posted() {
    let (one, _, office, _) = two();
    let client = opened(&one, "2025-11-25").await;
    let question = |id: Value| answer(&json!({"id": id}), accept("Eve"));
    let note =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    for message in [
        question(json!(7)),
        question(json!("question-1")),
        note("notifications/initialized", json!({})),
        note("notifications/cancelled", json!({})),
        note("notifications/cancelled", json!({"requestId": {"a": 1}})),
    ] {
        assert_eq!(client.send(&message).await.status, 202, "{message}");
    }
    let could_be = question(json!("AAAAAAAAAAAAAAAAAAAAAAAA"));
    let nobody = Client { session: None, ..at(&one, &client) };
    assert_eq!(nobody.send(&could_be).await.status, 202);
    let thief = Client { caller: "admin", ..at(&one, &client) };
    assert_eq!(thief.send(&could_be).await.status, 404);
    assert!(office.posted.lock().unwrap().is_empty());
    assert_eq!(client.send(&could_be).await.status, 202);
    assert_eq!(client.send(&cancelled(json!("a\"b"))).await.status, 202);
    let posted: Vec<Value> = {
        let posted = office.posted.lock().unwrap();
        posted.iter().map(|message| serde_json::from_str(message).unwrap()).collect()
    };
    assert_eq!(posted, [could_be, cancelled(json!("a\"b"))]);
}

#[tokio::test]
async fn what_is_delivered_and_means_nothing_has_no_effect() {
    let (one, other, office, _) = two();
    let client = opened(&one, "2025-11-25").await;
    let mut stream = at(&other, &client).stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    for message in ["", "null", "[]", "{", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#] {
        other.mcp.deliver(Nonce::default(), message);
    }
    other.mcp.deliver(Nonce::default(), &answer(&question, accept("Eve")).to_string());
    assert!(office.posted.lock().unwrap().is_empty());
    assert_eq!(client.send(&answer(&question, accept("Ada"))).await.status, 202);
    let result = stream.next().await.unwrap();
    assert_eq!(result["result"]["content"][0]["text"], r#""Hello" "Ada"!"#);
}

#[tokio::test]
async fn a_request_state_is_valid_on_other_servers() {
    let (one, other, _, _) = two();
    let client = one.client("reader", MODERN).offering(json!({"elicitation": {}})).await;
    let there = other.client("reader", MODERN).offering(json!({"elicitation": {}})).await;
    let asks = client.call("greet", json!({"greeting": "Hi"})).await;
    let params = json!({
        "name": "greet",
        "arguments": {"greeting": "Hi"},
        "inputResponses": {"name": accept("Ada")},
        "requestState": asks["requestState"],
    });
    let result = there.result("tools/call", params).await;
    assert_eq!(result["content"][0]["text"], r#""Hi" "Ada"!"#);
}
