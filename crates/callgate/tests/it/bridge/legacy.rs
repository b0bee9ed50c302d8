//! The legacy era: sessions, and how lost sessions are restored.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::bridge::{Client, PATIENCE, until};
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

const VERSION: &str = "2025-06-18";

/// Replies like a server with sessions. The reply is `lost` unless `is_known` accepts the session id of the request.
fn with_sessions(
    seen: &ReceivedRequest,
    sessions: &AtomicUsize,
    is_known: impl Fn(&str) -> bool,
    lost: FakeResponse,
) -> FakeResponse {
    match (seen.http_method(), seen.method()) {
        ("POST", "initialize") => {
            let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            let result = json!({"protocolVersion": VERSION, "capabilities": {}});
            seen.result(result).with("mcp-session-id", format!("s{number}"))
        }
        ("GET", _) => FakeResponse::empty(405),
        ("DELETE", _) => FakeResponse::empty(204),
        _ if !seen.header("mcp-session-id").is_some_and(is_known) => lost,
        _ if seen.body.get("id").is_none() || seen.body.get("method").is_none() => {
            FakeResponse::empty(202)
        }
        _ => seen.result(json!({"session": seen.header("mcp-session-id")})),
    }
}

#[tokio::test]
async fn messages_of_a_session_carry_its_id_its_revision_and_the_token() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| {
        with_sessions(seen, &sessions, |_| true, FakeResponse::empty(404))
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    client.request(1, "tools/list", json!({})).await;
    client.answer(1).await;
    let seen: Vec<ReceivedRequest> =
        server.log.requests().into_iter().filter(|seen| seen.http_method() == "POST").collect();
    let order: Vec<&str> = seen.iter().map(ReceivedRequest::method).collect();
    assert_eq!(order, ["initialize", "notifications/initialized", "tools/list"]);
    for (index, seen) in seen.iter().enumerate() {
        let expected = (index > 0).then_some(("s1", VERSION));
        assert_eq!(seen.header("mcp-session-id"), expected.map(|(id, _)| id));
        assert_eq!(seen.header("mcp-protocol-version"), expected.map(|(_, version)| version));
        assert_eq!(seen.header("authorization"), Some("Bearer cg_never_to_be_seen"));
        assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!(seen.header("mcp-method"), None);
    }
}

#[tokio::test]
async fn messages_that_follow_initialize_at_once_are_sent_in_its_session() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| {
        with_sessions(seen, &sessions, |_| true, FakeResponse::empty(404))
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.request(0, "initialize", json!({"protocolVersion": VERSION})).await;
    client.notify("notifications/initialized", json!({})).await;
    client.request(1, "tools/list", json!({})).await;
    client.answer(0).await;
    assert_eq!(client.answer(1).await["result"]["session"], "s1");
    let seen = server.log.requests();
    let posts = seen.iter().filter(|seen| seen.http_method() == "POST");
    let order: Vec<&str> = posts.map(ReceivedRequest::method).collect();
    assert_eq!(order, ["initialize", "notifications/initialized", "tools/list"]);
}

/// Checks what happens when the first session is lost.
async fn lost_session(lost: fn(&ReceivedRequest) -> FakeResponse) {
    let sessions = AtomicUsize::new(0);
    let renewed = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| {
        let is_call = seen.method() == "tools/call";
        let is_lost = is_call || renewed.load(Ordering::SeqCst) > 0;
        if is_lost && seen.header("mcp-session-id") == Some("s1") {
            renewed.store(1, Ordering::SeqCst);
            return lost(seen);
        }
        with_sessions(seen, &sessions, |_| true, FakeResponse::empty(404))
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    client.request("kept", "tools/list", json!({})).await;
    assert_eq!(client.answer("kept").await["result"]["session"], "s1");
    for id in 1..=5 {
        client.request(id, "tools/call", json!({"name": "x"})).await;
    }
    let mut ids = Vec::new();
    for _ in 1..=5 {
        let answer = client.next().await;
        assert_eq!(answer["result"]["session"], "s2", "{answer}");
        ids.push(answer["id"].as_i64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    assert_eq!(server.log.requests_for("initialize").len(), 2, "the calls share one new session");
    assert_eq!(
        server.log.requests_for("initialize")[0].body["params"],
        server.log.requests_for("initialize")[1].body["params"]
    );
    assert_eq!(server.log.requests_for("notifications/initialized").len(), 2);
    assert_eq!(
        server.log.requests_for("tools/list").len(),
        1,
        "the server replied to this request, so it is sent only once"
    );
    client.leave().await;
    assert_eq!(server.log.requests().pop().unwrap().header("mcp-session-id"), Some("s2"));
}

#[tokio::test]
async fn a_lost_session_is_renewed_once_and_only_the_rejected_request_is_sent_again() {
    lost_session(|_| FakeResponse::text(404, "text/plain", "no such session")).await;
}

#[tokio::test]
async fn http_400_can_mean_a_lost_session() {
    lost_session(|seen| {
        seen.error(
            400,
            json!({"code": -32000, "message": "Bad Request: No valid session ID provided"}),
        )
    })
    .await;
}

#[tokio::test]
async fn a_new_session_of_another_revision_is_refused() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| match seen.method() {
        "initialize" => {
            let number = sessions.fetch_add(1, Ordering::SeqCst);
            let version = ["2025-06-18", "2025-03-26"][number.min(1)];
            let result = json!({"protocolVersion": version});
            seen.result(result).with("mcp-session-id", format!("s{number}"))
        }
        "notifications/initialized" => FakeResponse::empty(202),
        _ if seen.http_method() == "GET" => FakeResponse::empty(405),
        _ => FakeResponse::empty(404),
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.initialize("2025-06-18").await;
    client.request(1, "tools/list", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("2025-03-26 instead of 2025-06-18"), "{message}");
    assert_eq!(server.log.requests_for("tools/list").len(), 1);
}

#[tokio::test]
async fn a_new_session_restores_log_level_and_subscriptions() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| {
        let is_lost = seen.method() == "tools/call" && seen.header("mcp-session-id") == Some("s1");
        if seen.body["params"]["uri"] == "refused:" {
            return seen.error(200, json!({"code": -32002, "message": "no such resource"}));
        }
        with_sessions(seen, &sessions, |_| !is_lost, FakeResponse::empty(404))
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    for (id, method, params) in [
        (1, "logging/setLevel", json!({"level": "error"})),
        (2, "logging/setLevel", json!({"level": "debug"})),
        (3, "resources/subscribe", json!({"uri": "a:"})),
        (4, "resources/subscribe", json!({"uri": "b:"})),
        (5, "resources/subscribe", json!({"uri": "refused:"})),
        (6, "resources/unsubscribe", json!({"uri": "a:"})),
        (7, "tools/call", json!({"name": "x"})),
    ] {
        client.request(id, method, params).await;
        client.answer(id).await;
    }
    let again: Vec<_> = server
        .log
        .requests()
        .into_iter()
        .filter(|seen| seen.header("mcp-session-id") == Some("s2") && seen.http_method() == "POST")
        .map(|seen| (seen.method().to_owned(), seen.body["params"].clone()))
        .collect();
    let expected = [
        ("logging/setLevel", json!({"level": "debug"})),
        ("resources/subscribe", json!({"uri": "b:"})),
        ("tools/call", json!({"name": "x"})),
    ];
    assert_eq!(again[1..], expected.map(|(method, params)| (method.to_owned(), params)));
    assert!(client.leave().await.is_empty());
}

#[tokio::test]
async fn a_session_that_is_lost_twice_is_an_error() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| {
        let is_told = seen.method() == "notifications/initialized";
        with_sessions(seen, &sessions, |_| is_told, FakeResponse::empty(404))
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    client.request(1, "tools/list", json!({})).await;
    assert_eq!(client.answer(1).await["error"]["data"]["status"], 404);
    assert_eq!(server.log.requests_for("initialize").len(), 2);
}

#[tokio::test]
async fn a_legacy_cancellation_is_a_message_without_a_response() {
    let (stream, opened) = FakeResponse::stream();
    let opened = Mutex::new(Some(opened));
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| match seen.method() {
        "tools/call" => opened.lock().unwrap().take().unwrap(),
        _ => with_sessions(seen, &sessions, |_| true, FakeResponse::empty(404)),
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    client.request(7, "tools/call", json!({"name": "x"})).await;
    until("it is under way", || server.log.requests_for("tools/call").len() == 1).await;
    client.notify("notifications/cancelled", json!({"requestId": 7})).await;
    until("the server is told", || server.log.requests_for("notifications/cancelled").len() == 1)
        .await;
    assert_eq!(
        server.log.requests_for("notifications/cancelled")[0].body["params"]["requestId"],
        7
    );
    // The server does not reply, and some servers never close the stream.
    tokio::time::timeout(PATIENCE, stream.closed()).await.expect("the bridge closes the stream");
    client.request(8, "ping", json!({})).await;
    client.answer(8).await;
    assert!(client.leave().await.is_empty());
}

#[tokio::test]
async fn one_of_a_batch_is_cancelled_and_the_others_are_answered() {
    let (stream, opened) = FakeResponse::stream();
    let opened = Mutex::new(Some(opened));
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |seen| match &seen.body {
        serde_json::Value::Array(_) => opened.lock().unwrap().take().unwrap(),
        _ => with_sessions(seen, &sessions, |_| true, FakeResponse::empty(404)),
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    client.initialize("2025-03-26").await;
    let request = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    client.send(json!([request(1), request(2)])).await;
    client.notify("notifications/cancelled", json!({"requestId": 1})).await;
    until("the server is told", || server.log.requests_for("notifications/cancelled").len() == 1)
        .await;
    for id in [1, 2] {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        stream.send(format!("data: {answer}\n\n")).await.unwrap();
    }
    client.answer(2).await;
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_cancelled_locally() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let mut client = Client::start(&url);
    client.request(1, "initialize", json!({})).await;
    client.notify("notifications/cancelled", json!({"requestId": 1})).await;
    client.send_text("nonsense").await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    assert!(client.leave().await.is_empty());
}

#[tokio::test]
async fn a_legacy_client_gets_the_versions_of_a_modern_server() {
    let server = FakeService::start(|seen| {
        let data = json!({"supported": ["2026-07-28"], "requested": VERSION});
        let error = json!({"code": -32022, "message": "unsupported", "data": data});
        FakeResponse::json(400, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
    })
    .await;
    let mut client = Client::start(&server.url("/mcp"));
    let params = json!({"protocolVersion": VERSION, "capabilities": {}});
    client.request(1, "initialize", params).await;
    let error = client.answer(1).await["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(VERSION) && message.contains("2026-07-28"), "{message}");
    assert_eq!(error["data"]["supported"], json!(["2026-07-28"]));
    assert_eq!(error["code"], -32022);
}
