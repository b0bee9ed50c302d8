//! The modern era: every request has metadata, and headers repeat parts of it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::bridge::{BridgeClient, TIMEOUT, modern, wait_until};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

fn tools() -> Value {
    json!([{"name": "route", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "shard": {"type": "integer", "x-mcp-header": "Shard"},
    }}}])
}

#[tokio::test]
async fn headers_repeat_method_name_and_revision_of_the_body() {
    let server =
        FakeService::start(|request| request.result(json!({"resultType": "complete"}))).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "tools/call", modern(json!({"name": "größe"}))).await;
    client.answer(1).await;
    client.request(2, "resources/read", modern(json!({"uri": "file:///a b"}))).await;
    client.answer(2).await;
    client.request(3, "tasks/get", modern(json!({"taskId": "t1"}))).await;
    client.answer(3).await;
    client.request(4, "tools/list", modern(json!({}))).await;
    client.answer(4).await;
    let requests = server.log.requests();
    let names: Vec<Option<&str>> =
        requests.iter().map(|request| request.header("mcp-name")).collect();
    assert_eq!(names, [Some("=?base64?Z3LDtsOfZQ==?="), Some("file:///a b"), Some("t1"), None]);
    for request in &requests {
        assert_eq!(request.header("mcp-method"), Some(request.method()));
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn annotated_arguments_are_repeated_in_headers_after_tools_list() {
    let server = FakeService::start(|request| match request.method() {
        "tools/list" => request.result(json!({"tools": tools()})),
        _ => request.result(json!({})),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "tools/list", modern(json!({}))).await;
    client.answer(1).await;
    let arguments = json!({"region": "eu", "shard": 7});
    client.request(2, "tools/call", modern(json!({"name": "route", "arguments": arguments}))).await;
    client.answer(2).await;
    let call = &server.log.requests_for("tools/call")[0];
    assert_eq!(call.header("mcp-param-region"), Some("eu"));
    assert_eq!(call.header("mcp-param-shard"), Some("7"));
}

#[tokio::test]
async fn a_header_mismatch_makes_the_bridge_list_the_tools_and_retry_once() {
    let server = FakeService::start(|request| match request.method() {
        "tools/list" if request.body["params"].get("cursor").is_none() => {
            request.result(json!({"tools": [], "nextCursor": "more"}))
        }
        "tools/list" => request.result(json!({"tools": tools()})),
        _ if request.header("mcp-param-region") == Some("eu") => request.result(json!({})),
        _ => request.error(
            400,
            json!({"code": -32020, "message": "the header `mcp-param-region` is missing"}),
        ),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    let call = |region: &str| modern(json!({"name": "route", "arguments": {"region": region}}));
    client.request(1, "tools/call", call("eu")).await;
    assert!(client.answer(1).await.get("result").is_some());
    assert_eq!(server.log.requests_for("tools/list").len(), 2);
    assert_eq!(
        server.log.requests_for("tools/list")[0].body["params"]["_meta"],
        call("eu")["_meta"]
    );
    client.request(2, "tools/call", call("us")).await;
    assert_eq!(client.answer(2).await["error"]["code"], -32020, "after one retry");
    assert_eq!(server.log.requests_for("tools/call").len(), 4);
}

#[tokio::test]
async fn a_modern_cancellation_closes_the_connection() {
    for method in ["tools/call", "subscriptions/listen"] {
        let (stream, response) = FakeResponse::stream();
        let response = Mutex::new(Some(response));
        let server = FakeService::start(move |request| match request.method() {
            "server/discover" => request.result(json!({})),
            _ => response.lock().unwrap().take().unwrap(),
        })
        .await;
        let mut client = BridgeClient::start(&server.url("/mcp"));
        client.request("x", method, modern(json!({"name": "n"}))).await;
        let notification =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        stream.send(format!("data: {notification}\n\n")).await.unwrap();
        assert_eq!(client.next().await, notification);
        client.notify("notifications/cancelled", json!({"requestId": "x"})).await;
        tokio::time::timeout(TIMEOUT, stream.closed()).await.expect("the stream is closed");
        client.request(2, "server/discover", modern(json!({}))).await;
        client.answer(2).await;
        assert!(client.close().await.is_empty());
        assert!(server.log.requests_for("notifications/cancelled").is_empty());
    }
}

#[tokio::test]
async fn the_end_of_the_input_ends_subscriptions_at_once() {
    let (stream, response) = FakeResponse::stream();
    let response = Mutex::new(Some(response));
    let server = FakeService::start(move |_| response.lock().unwrap().take().unwrap()).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "subscriptions/listen", modern(json!({}))).await;
    wait_until("it listens", || server.log.requests().len() == 1).await;
    let started = std::time::Instant::now();
    client.close().await;
    assert!(started.elapsed() < std::time::Duration::from_secs(2));
    tokio::time::timeout(TIMEOUT, stream.closed()).await.expect("the stream is closed");
}

#[tokio::test]
async fn a_modern_stream_that_breaks_is_an_error_and_not_resumed() {
    let is_first = AtomicBool::new(true);
    let server = FakeService::start(move |request| {
        if is_first.swap(false, Ordering::SeqCst) {
            return FakeResponse::events("id: 1\ndata:\n\n");
        }
        request.result(json!({}))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "tools/call", modern(json!({"name": "x"}))).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("ended before the response"), "{message}");
    assert_eq!(server.log.requests().len(), 1);
}
