//! Several servers with the same sessions: messages that arrive at the wrong server.

use std::net::SocketAddr;
use std::sync::Mutex;

use axum::extract::ConnectInfo;
use callgate::mcp::{Nonce, Relay, SessionChange, SessionEdit, SessionState, SessionStore};

use super::questions::{accept, answer, methods};
use super::*;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The store and the relay that the servers share.
#[derive(Debug, Default)]
struct SharedState {
    servers: Mutex<Vec<Arc<Mcp>>>,
    states: Mutex<HashMap<Nonce, SessionState>>,
    posted: Mutex<Vec<String>>,
    is_unavailable: AtomicBool,
}

impl Relay for SharedState {
    fn post(&self, session: Nonce, message: String) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            if self.is_unavailable.load(Ordering::SeqCst) {
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

impl SessionStore for SharedState {
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
fn two_servers() -> (App, App, Arc<SharedState>, Slow) {
    let (shared, slow) = (Arc::new(SharedState::default()), Slow::new());
    let server = || {
        let sessions = Sessions::new([SessionKey::new(&[7; 32])])
            .with_store(Arc::clone(&shared) as _)
            .with_relay(Arc::clone(&shared) as _);
        let (mut local, _) = methods();
        let shared_slow = slow.clone();
        local.method(method("slow"), move |_, _: Value| {
            let slow = shared_slow.clone();
            async move {
                let _dropped = OnDrop(Arc::clone(&slow.dropped));
                slow.started.add_permits(1);
                slow.permits.acquire().await.unwrap().forget();
                Ok::<_, Error>("done")
            }
        });
        let options = options(|options| options.max_body_bytes = 8 << 20);
        let app = App::with_sessions(local, options, sessions, Services::default());
        shared.servers.lock().unwrap().push(Arc::clone(&app.mcp));
        app
    };
    let (first, second) = (server(), server());
    (first, second, shared, slow)
}

/// Returns the same client, connected to another server.
fn client_at<'a>(app: &'a App, client: &Client<'a>) -> Client<'a> {
    Client { session: client.session.clone(), ..app.client(client.caller, client.revision) }
}

fn cancelled(id: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

async fn open_session<'a>(app: &'a App, revision: &'a str) -> Client<'a> {
    open_session_as(app, "reader", revision).await
}

async fn open_session_as<'a>(app: &'a App, caller: &'a str, revision: &'a str) -> Client<'a> {
    app.client(caller, revision).with_capabilities(json!({"elicitation": {}})).await
}

/// Returns how many messages this number of sessions of a caller can send.
async fn count_accepted(app: &App, caller: &str, sessions: usize, message: &Value) -> usize {
    let mut accepted = 0;
    for _ in 0..sessions {
        let client = open_session_as(app, caller, "2025-11-25").await;
        while client.send(message).await.status == 202 {
            accepted += 1;
        }
    }
    accepted
}

/// Returns an answer with a million letters to a question of another server.
fn long_answer() -> Value {
    let question = json!({"id": "AAAAAAAAAAAAAAAAAAAAAAAA"});
    answer(&question, accept(&"x".repeat(1_000_000)))
}

#[tokio::test]
async fn an_answer_is_relayed_to_the_server_of_the_call() {
    let (first, second, shared, _) = two_servers();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = open_session(&first, revision).await;
        let mut stream =
            client_at(&second, &client).stream("tools/call", json!({"name": "greet"})).await;
        let question = stream.next().await.unwrap();
        assert_eq!(client.send(&answer(&question, accept("Ada"))).await.status, 202);
        let result = stream.next().await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], r#""Hello" "Ada"!"#, "{revision}");
    }
    assert_eq!(shared.posted.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_refusal_in_a_batch_is_relayed_to_the_server_of_the_call() {
    let (first, second, _, _) = two_servers();
    let client = open_session(&first, "2025-03-26").await;
    let other_client = client_at(&second, &client);
    let mut stream = other_client.stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    let error = json!({"code": -1, "message": "No \"thanks\""});
    let refusal = json!([{"jsonrpc": "2.0", "id": question["id"], "error": error}]);
    assert_eq!(client.send(&refusal).await.status, 202);
    let text = &stream.next().await.unwrap()["result"]["content"][0]["text"];
    assert_eq!(text, "the client did not answer: No \"thanks\" (code -1)");
}

#[tokio::test]
async fn a_cancellation_is_relayed_to_the_server_of_the_call() {
    let (first, second, _, slow) = two_servers();
    let client = open_session(&first, "2025-06-18").await;
    let other_session = open_session(&first, "2025-06-18").await;
    let other_client = client_at(&second, &client);
    let call = other_client.request("tools/call", json!({"name": "slow"}));
    let rest = async {
        slow.wait_until_started().await;
        assert_eq!(other_session.send(&cancelled(json!(1))).await.status, 202);
        assert_eq!(slow.counts(), (0, 0), "the call is of another session");
        assert_eq!(client.send(&cancelled(json!(1))).await.status, 202);
    };
    let (reply, ()) = tokio::join!(call, rest);
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (200, ""), "the reply is empty");
    assert_eq!(slow.counts(), (0, 1));
}

#[tokio::test]
async fn a_session_that_ends_on_one_server_ends_on_the_other_servers() {
    let (first, second, _, slow) = two_servers();
    let client = open_session(&first, "2025-06-18").await;
    let other_client = client_at(&second, &client);
    let session = client.session.clone().unwrap();
    let listen = request("GET", "reader", "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session);
    let mut stream = Stream::of(second.respond(listen.body(Body::empty()).unwrap()).await);
    let call = other_client.request("tools/call", json!({"name": "slow"}));
    let end = async {
        slow.wait_until_started().await;
        let end = request("DELETE", "reader", "/mcp").header("mcp-session-id", &session);
        assert_eq!(first.send(end.body(Body::empty()).unwrap()).await.status, 204);
    };
    let (reply, ()) = tokio::join!(call, end);
    assert_eq!((reply.text.as_str(), slow.counts()), ("", (0, 1)));
    assert!(stream.next().await.is_none(), "streams end with their session");
    assert_eq!(other_client.error("ping", json!({})).await, (404, -32600));
}

#[tokio::test]
async fn a_message_that_cannot_be_relayed_is_refused() {
    let (first, second, shared, _) = two_servers();
    let client = open_session(&first, "2025-11-25").await;
    let mut stream =
        client_at(&second, &client).stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    let long = answer(&question, accept(&"x".repeat(1 << 20)));
    let reply = client.send(&long).await;
    assert_eq!(code(&reply), (413, -32600));
    insta::assert_json_snapshot!("too_long", reply.json());
    shared.is_unavailable.store(true, Ordering::SeqCst);
    let reply = client.send(&answer(&question, accept("Ada"))).await;
    assert_eq!(code(&reply), (503, -32603));
    insta::assert_json_snapshot!("unavailable", reply.json());
    assert_eq!(code(&client.send(&cancelled(json!(1))).await), (503, -32603));
    // At the right server, no message has to be relayed.
    assert_eq!(client_at(&second, &client).send(&long).await.status, 202);
    assert!(stream.next().await.unwrap()["result"]["content"].is_array());
}

#[tokio::test]
async fn the_relayed_messages_of_a_session_are_limited() {
    let (first, _, shared, _) = two_servers();
    let client = open_session(&first, "2025-11-25").await;
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
    let posted = shared.posted.lock().unwrap().len();
    assert!((1..200).contains(&posted), "{posted}");
    let other_session = open_session(&first, "2025-11-25").await;
    assert_eq!(
        other_session.send(&cancelled(json!(1))).await.status,
        202,
        "other sessions are not limited"
    );
}

#[tokio::test]
async fn the_relayed_messages_of_a_user_are_limited_across_sessions() {
    let (first, second, _, _) = two_servers();
    assert_eq!(count_accepted(&first, "reader", 9, &cancelled(json!(1))).await, 1024);
    assert_eq!(
        count_accepted(&first, "admin", 1, &cancelled(json!(1))).await,
        128,
        "other users are not limited"
    );
    assert_eq!(count_accepted(&second, "reader", 1, &long_answer()).await, 4, "4 MiB of a session");
    assert_eq!(count_accepted(&second, "reader", 4, &long_answer()).await, 12, "16 MiB of a user");
}

#[tokio::test]
async fn sessions_without_a_user_do_not_use_up_the_limits_of_users() {
    let (first, second, _, _) = two_servers();
    assert_eq!(count_accepted(&first, "", 9, &cancelled(json!(1))).await, 9 * 128);
    assert_eq!(count_accepted(&second, "", 17, &long_answer()).await, 67, "64 MiB without a user");
    assert_eq!(
        count_accepted(&second, "reader", 1, &long_answer()).await,
        4,
        "users have their own limit"
    );
}

#[tokio::test]
async fn the_relayed_messages_of_an_address_are_limited_across_sessions() {
    let (first, _, _, _) = two_servers();
    let message = cancelled(json!(1));
    let count_accepted = async |address: [u8; 4], sessions: usize| {
        let mut accepted = 0;
        for _ in 0..sessions {
            let client = open_session_as(&first, "", "2025-11-25").await;
            let send = async || {
                let peer = ConnectInfo(SocketAddr::from((address, 1)));
                let request = client.builder(&message).extension(peer);
                first.send(request.body(message.to_string().into()).unwrap()).await
            };
            while send().await.status == 202 {
                accepted += 1;
            }
        }
        accepted
    };
    assert_eq!(count_accepted([192, 0, 2, 1], 9).await, 1024);
    assert_eq!(count_accepted([192, 0, 2, 2], 1).await, 128, "other addresses are not limited");
}

#[tokio::test]
async fn the_session_changes_of_one_address_are_limited() {
    let (first, _, shared, _) = two_servers();
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "info"}});
    let set = async |address: [u8; 4]| {
        let client = open_session_as(&first, "", "2025-11-25").await;
        let peer = ConnectInfo(SocketAddr::from((address, 1)));
        let request = client.builder(&level).extension(peer);
        first.send(request.body(level.to_string().into()).unwrap()).await
    };
    let mut refused = None;
    while refused.is_none() && shared.states.lock().unwrap().len() < 1_500 {
        refused = Some(set([192, 0, 2, 1]).await).filter(|reply| reply.status != 200);
    }
    let refused = refused.unwrap();
    assert_eq!(refused.status, 429);
    assert!(matches!(refused.header("retry-after"), "1" | "2"), "{:?}", refused.headers);
    assert!(refused.text.contains("changes of sessions per caller is 30/min"), "{}", refused.text);
    assert_eq!(set([192, 0, 2, 2]).await.status, 200, "other addresses are not limited");
}

#[tokio::test]
async fn only_possible_answers_and_cancellations_of_a_valid_session_are_relayed() {
    let (first, _, shared, _) = two_servers();
    let client = open_session(&first, "2025-11-25").await;
    let answer_to = |id: Value| answer(&json!({"id": id}), accept("Eve"));
    let notification =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    for message in [
        answer_to(json!(7)),
        answer_to(json!("question-1")),
        notification("notifications/initialized", json!({})),
        notification("notifications/cancelled", json!({})),
        notification("notifications/cancelled", json!({"requestId": {"a": 1}})),
    ] {
        assert_eq!(client.send(&message).await.status, 202, "{message}");
    }
    let possible_answer = answer_to(json!("AAAAAAAAAAAAAAAAAAAAAAAA"));
    let stateless = Client { session: None, ..client_at(&first, &client) };
    assert_eq!(stateless.send(&possible_answer).await.status, 202);
    let other_user = Client { caller: "admin", ..client_at(&first, &client) };
    assert_eq!(other_user.send(&possible_answer).await.status, 404);
    assert!(shared.posted.lock().unwrap().is_empty());
    assert_eq!(client.send(&possible_answer).await.status, 202);
    assert_eq!(client.send(&cancelled(json!("a\"b"))).await.status, 202);
    let posted: Vec<Value> = {
        let posted = shared.posted.lock().unwrap();
        posted.iter().map(|message| serde_json::from_str(message).unwrap()).collect()
    };
    assert_eq!(posted, [possible_answer, cancelled(json!("a\"b"))]);
}

#[tokio::test]
async fn delivered_messages_that_match_no_question_have_no_effect() {
    let (first, second, shared, _) = two_servers();
    let client = open_session(&first, "2025-11-25").await;
    let mut stream =
        client_at(&second, &client).stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    for message in ["", "null", "[]", "{", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#] {
        second.mcp.deliver(Nonce::default(), message);
    }
    second.mcp.deliver(Nonce::default(), &answer(&question, accept("Eve")).to_string());
    assert!(shared.posted.lock().unwrap().is_empty());
    assert_eq!(client.send(&answer(&question, accept("Ada"))).await.status, 202);
    let result = stream.next().await.unwrap();
    assert_eq!(result["result"]["content"][0]["text"], r#""Hello" "Ada"!"#);
}

#[tokio::test]
async fn a_request_state_is_valid_on_other_servers() {
    let (first, second, _, _) = two_servers();
    let client = first.client("reader", MODERN).with_capabilities(json!({"elicitation": {}})).await;
    let other_client =
        second.client("reader", MODERN).with_capabilities(json!({"elicitation": {}})).await;
    let question = client.call("greet", json!({"greeting": "Hi"})).await;
    let params = json!({
        "name": "greet",
        "arguments": {"greeting": "Hi"},
        "inputResponses": {"name": accept("Ada")},
        "requestState": question["requestState"],
    });
    let result = other_client.result("tools/call", params).await;
    assert_eq!(result["content"][0]["text"], r#""Hi" "Ada"!"#);
}
