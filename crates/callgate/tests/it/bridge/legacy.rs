//! The legacy era: sessions, and how lost sessions are restored.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::bridge::{BridgeClient, TIMEOUT, wait_until};
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

const VERSION: &str = "2025-06-18";

/// Replies like a server with sessions. The reply is `rejection` unless `is_valid` accepts the session id of the
/// request.
fn with_sessions(
    request: &ReceivedRequest,
    sessions: &AtomicUsize,
    is_valid: impl Fn(&str) -> bool,
    rejection: FakeResponse,
) -> FakeResponse {
    match (request.http_method(), request.method()) {
        ("POST", "initialize") => {
            let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            let result = json!({"protocolVersion": VERSION, "capabilities": {}});
            request.result(result).with("mcp-session-id", format!("s{number}"))
        }
        ("GET", _) => FakeResponse::empty(405),
        ("DELETE", _) => FakeResponse::empty(204),
        _ if !request.header("mcp-session-id").is_some_and(is_valid) => rejection,
        _ if request.body.get("id").is_none() || request.body.get("method").is_none() => {
            FakeResponse::empty(202)
        }
        _ => request.result(json!({"session": request.header("mcp-session-id")})),
    }
}

#[tokio::test]
async fn messages_of_a_session_carry_its_id_its_revision_and_the_token() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |request| {
        with_sessions(request, &sessions, |_| true, FakeResponse::empty(404))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    client.request(1, "tools/list", json!({})).await;
    client.answer(1).await;
    let requests: Vec<ReceivedRequest> = server
        .log
        .requests()
        .into_iter()
        .filter(|request| request.http_method() == "POST")
        .collect();
    let methods: Vec<&str> = requests.iter().map(ReceivedRequest::method).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list"]);
    for (index, request) in requests.iter().enumerate() {
        let expected = (index > 0).then_some(("s1", VERSION));
        assert_eq!(request.header("mcp-session-id"), expected.map(|(id, _)| id));
        assert_eq!(request.header("mcp-protocol-version"), expected.map(|(_, version)| version));
        assert_eq!(request.header("authorization"), Some("Bearer cg_never_to_be_seen"));
        assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("mcp-method"), None);
    }
}

#[tokio::test]
async fn messages_that_directly_follow_initialize_are_sent_in_its_session() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |request| {
        with_sessions(request, &sessions, |_| true, FakeResponse::empty(404))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(0, "initialize", json!({"protocolVersion": VERSION})).await;
    client.notify("notifications/initialized", json!({})).await;
    client.request(1, "tools/list", json!({})).await;
    client.answer(0).await;
    assert_eq!(client.answer(1).await["result"]["session"], "s1");
    let requests = server.log.requests();
    let posts = requests.iter().filter(|request| request.http_method() == "POST");
    let methods: Vec<&str> = posts.map(ReceivedRequest::method).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list"]);
}

/// Checks what happens when the first session is lost.
async fn check_lost_session(rejection: fn(&ReceivedRequest) -> FakeResponse) {
    let sessions = AtomicUsize::new(0);
    let renewed = AtomicUsize::new(0);
    let server = FakeService::start(move |request| {
        let is_call = request.method() == "tools/call";
        let is_lost = is_call || renewed.load(Ordering::SeqCst) > 0;
        if is_lost && request.header("mcp-session-id") == Some("s1") {
            renewed.store(1, Ordering::SeqCst);
            return rejection(request);
        }
        with_sessions(request, &sessions, |_| true, FakeResponse::empty(404))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
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
    client.close().await;
    assert_eq!(server.log.requests().pop().unwrap().header("mcp-session-id"), Some("s2"));
}

#[tokio::test]
async fn a_lost_session_is_renewed_once_and_only_the_rejected_request_is_sent_again() {
    check_lost_session(|_| FakeResponse::text(404, "text/plain", "no such session")).await;
}

#[tokio::test]
async fn an_http_400_about_the_session_id_renews_the_session() {
    check_lost_session(|request| {
        request.error(
            400,
            json!({"code": -32000, "message": "Bad Request: No valid session ID provided"}),
        )
    })
    .await;
}

#[tokio::test]
async fn a_new_session_of_another_revision_is_refused() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |request| match request.method() {
        "initialize" => {
            let number = sessions.fetch_add(1, Ordering::SeqCst);
            let version = ["2025-06-18", "2025-03-26"][number.min(1)];
            let result = json!({"protocolVersion": version});
            request.result(result).with("mcp-session-id", format!("s{number}"))
        }
        "notifications/initialized" => FakeResponse::empty(202),
        _ if request.http_method() == "GET" => FakeResponse::empty(405),
        _ => FakeResponse::empty(404),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize("2025-06-18").await;
    client.request(1, "tools/list", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("2025-03-26 instead of 2025-06-18"), "{message}");
    assert_eq!(server.log.requests_for("tools/list").len(), 1);
}

#[tokio::test]
async fn a_new_session_restores_log_level_and_subscriptions() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |request| {
        let is_lost =
            request.method() == "tools/call" && request.header("mcp-session-id") == Some("s1");
        if request.body["params"]["uri"] == "refused:" {
            return request.error(200, json!({"code": -32002, "message": "no such resource"}));
        }
        with_sessions(request, &sessions, |_| !is_lost, FakeResponse::empty(404))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
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
    let restored: Vec<_> = server
        .log
        .requests()
        .into_iter()
        .filter(|request| {
            request.header("mcp-session-id") == Some("s2") && request.http_method() == "POST"
        })
        .map(|request| (request.method().to_owned(), request.body["params"].clone()))
        .collect();
    let expected = [
        ("logging/setLevel", json!({"level": "debug"})),
        ("resources/subscribe", json!({"uri": "b:"})),
        ("tools/call", json!({"name": "x"})),
    ];
    assert_eq!(restored[1..], expected.map(|(method, params)| (method.to_owned(), params)));
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn a_renewed_session_that_is_lost_too_is_an_error() {
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |request| {
        let is_initialized = request.method() == "notifications/initialized";
        with_sessions(request, &sessions, |_| is_initialized, FakeResponse::empty(404))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    client.request(1, "tools/list", json!({})).await;
    assert_eq!(client.answer(1).await["error"]["data"]["status"], 404);
    assert_eq!(server.log.requests_for("initialize").len(), 2);
}

#[tokio::test]
async fn a_legacy_cancellation_is_sent_as_a_notification_and_closes_the_stream() {
    let (stream, response) = FakeResponse::stream();
    let response = Mutex::new(Some(response));
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |request| match request.method() {
        "tools/call" => response.lock().unwrap().take().unwrap(),
        _ => with_sessions(request, &sessions, |_| true, FakeResponse::empty(404)),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize(VERSION).await;
    client.request(7, "tools/call", json!({"name": "x"})).await;
    wait_until("it is under way", || server.log.requests_for("tools/call").len() == 1).await;
    client.notify("notifications/cancelled", json!({"requestId": 7})).await;
    wait_until("the server is told", || {
        server.log.requests_for("notifications/cancelled").len() == 1
    })
    .await;
    assert_eq!(
        server.log.requests_for("notifications/cancelled")[0].body["params"]["requestId"],
        7
    );
    // The server does not reply, and some servers never close the stream.
    tokio::time::timeout(TIMEOUT, stream.closed()).await.expect("the bridge closes the stream");
    client.request(8, "ping", json!({})).await;
    client.answer(8).await;
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn cancelling_a_request_of_a_batch_does_not_affect_the_other_requests() {
    let (stream, response) = FakeResponse::stream();
    let response = Mutex::new(Some(response));
    let sessions = AtomicUsize::new(0);
    let server = FakeService::start(move |received| match &received.body {
        serde_json::Value::Array(_) => response.lock().unwrap().take().unwrap(),
        _ => with_sessions(received, &sessions, |_| true, FakeResponse::empty(404)),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize("2025-03-26").await;
    let request = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    client.send(json!([request(1), request(2)])).await;
    client.notify("notifications/cancelled", json!({"requestId": 1})).await;
    wait_until("the server is told", || {
        server.log.requests_for("notifications/cancelled").len() == 1
    })
    .await;
    for id in [1, 2] {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        stream.send(format!("data: {answer}\n\n")).await.unwrap();
    }
    client.answer(2).await;
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_cancelled_locally() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let mut client = BridgeClient::start(&url);
    client.request(1, "initialize", json!({})).await;
    client.notify("notifications/cancelled", json!({"requestId": 1})).await;
    client.send_text("nonsense").await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn a_legacy_client_gets_the_versions_of_a_modern_server() {
    let server = FakeService::start(|request| {
        let data = json!({"supported": ["2026-07-28"], "requested": VERSION});
        let error = json!({"code": -32022, "message": "unsupported", "data": data});
        FakeResponse::json(400, json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    let params = json!({"protocolVersion": VERSION, "capabilities": {}});
    client.request(1, "initialize", params).await;
    let error = client.answer(1).await["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(VERSION) && message.contains("2026-07-28"), "{message}");
    assert_eq!(error["data"]["supported"], json!(["2026-07-28"]));
    assert_eq!(error["code"], -32022);
}
