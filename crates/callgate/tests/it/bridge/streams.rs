//! Streams: messages in both directions, and resuming after a broken connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::bridge::{BridgeClient, wait_until};
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

fn initialize_response(request: &ReceivedRequest) -> FakeResponse {
    request.result(json!({"protocolVersion": "2025-11-25"})).with("mcp-session-id", "s")
}

#[tokio::test]
async fn messages_pass_unchanged_and_the_client_can_answer_the_server() {
    let (stream, response) = FakeResponse::stream();
    let response = Mutex::new(Some(response));
    let server =
        FakeService::start(move |request| match (request.http_method(), request.method()) {
            ("POST", "initialize") => initialize_response(request),
            ("POST", "tools/call") => response.lock().unwrap().take().unwrap(),
            ("GET", _) => FakeResponse::empty(405),
            _ => FakeResponse::empty(202),
        })
        .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize("2025-11-25").await;
    client.request(1, "tools/call", json!({"name": "x"})).await;
    let progress =
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}});
    stream.send(format!(": hello\n\ndata: {progress}\n\n")).await.unwrap();
    assert_eq!(client.next().await, progress);
    let server_request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}});
    // The event arrives in two parts.
    let event = format!("data: {server_request}\r\n\r\n");
    let (head, tail) = event.split_at(20);
    for part in [head, tail] {
        stream.send(part.to_owned()).await.unwrap();
    }
    assert_eq!(
        client.next().await,
        server_request,
        "although a request of the client has the same id"
    );
    let reply = json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}});
    client.send(reply.clone()).await;
    wait_until("the server has the answer", || {
        server.log.requests().iter().any(|request| request.body == reply)
    })
    .await;
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    stream.send(format!("data: {answer}\n\n")).await.unwrap();
    assert_eq!(client.next().await, answer);
}

#[tokio::test]
async fn a_broken_stream_with_event_ids_is_resumed() {
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"done": true}});
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
    let resumed = AtomicUsize::new(0);
    let (last, middle) = (answer.clone(), notification.clone());
    let server =
        FakeService::start(move |request| match (request.http_method(), request.method()) {
            ("POST", "initialize") => initialize_response(request),
            ("POST", "tools/call") => FakeResponse::events("id: a-1\nretry: 60\ndata:\n\n"),
            ("GET", _) if request.header("last-event-id").is_none() => FakeResponse::empty(405),
            ("GET", _) => match resumed.fetch_add(1, Ordering::SeqCst) {
                0 => FakeResponse::events(format!("id: a-2\ndata: {middle}\n\n")),
                1 => FakeResponse::events(""),
                _ => FakeResponse::events(format!("id: a-3\ndata: {last}\n\n")),
            },
            _ => FakeResponse::empty(202),
        })
        .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize("2025-11-25").await;
    client.request(1, "tools/call", json!({"name": "x"})).await;
    assert_eq!(client.next().await, notification);
    assert_eq!(client.next().await, answer);
    let ids: Vec<String> = server
        .log
        .requests()
        .iter()
        .filter_map(|request| request.header("last-event-id").map(ToOwned::to_owned))
        .collect();
    assert_eq!(ids, ["a-1", "a-2", "a-2"]);
    assert_eq!(server.log.requests_for("tools/call").len(), 1, "the call itself is sent once");
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_is_an_error() {
    let server = FakeService::start(|request| match (request.http_method(), request.method()) {
        ("POST", "initialize") => initialize_response(request),
        ("POST", "tools/call") => FakeResponse::events("id: 1\nretry: 1\ndata:\n\n"),
        ("POST", "tools/list") => FakeResponse::events(": nothing\n\n"),
        ("GET", _) => FakeResponse::empty(405),
        _ => FakeResponse::empty(202),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize("2025-11-25").await;
    for (id, method) in [(1, "tools/call"), (2, "tools/list")] {
        client.request(id, method, json!({})).await;
        let message = client.answer(id).await["error"]["message"].to_string();
        assert!(message.contains("ended before the response"), "{message}");
    }
}

#[tokio::test]
async fn the_stream_of_a_session_is_reopened_with_the_last_event_id() {
    let notification = |number: i64| json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"n": number}});
    let count = AtomicUsize::new(0);
    let server =
        FakeService::start(move |request| match (request.http_method(), request.method()) {
            ("POST", "initialize") => initialize_response(request),
            ("GET", _) => match count.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    FakeResponse::events(format!("id: 7\nretry: 60\ndata: {}\n\n", notification(1)))
                }
                1 => FakeResponse::empty(503),
                2 => FakeResponse::events(format!("data: {}\n\n", notification(2))),
                _ => FakeResponse::empty(405),
            },
            _ => FakeResponse::empty(202),
        })
        .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize("2025-11-25").await;
    assert_eq!(client.next().await, notification(1));
    assert_eq!(client.next().await, notification(2));
    let gets: Vec<ReceivedRequest> = server
        .log
        .requests()
        .into_iter()
        .filter(|request| request.http_method() == "GET")
        .collect();
    assert_eq!(gets[0].header("accept"), Some("text/event-stream"));
    assert_eq!(gets[0].header("last-event-id"), None);
    assert_eq!(gets[2].header("last-event-id"), Some("7"));
    assert_eq!(gets[2].header("mcp-session-id"), Some("s"));
}

#[tokio::test]
async fn no_stream_is_opened_before_the_initialized_notification() {
    let server = FakeService::start(|request| match (request.http_method(), request.method()) {
        ("POST", "initialize") => initialize_response(request),
        ("POST", "ping") => request.result(json!({})),
        ("GET", _) => FakeResponse::empty(405),
        _ => FakeResponse::empty(202),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    client.request(0, "initialize", params).await;
    client.answer(0).await;
    client.request(1, "ping", json!({})).await;
    client.answer(1).await;
    assert!(server.log.requests().iter().all(|request| request.http_method() == "POST"));
    client.notify("notifications/initialized", json!({})).await;
    wait_until("it listens", || {
        server.log.requests().iter().any(|request| request.http_method() == "GET")
    })
    .await;
}
