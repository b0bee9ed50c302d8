//! Servers that are unreachable, not running yet, or not MCP servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use callgate::bridge::{Limits, Options};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::bridge::{BridgeClient, modern, wait_until};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

/// Returns a port on which no process listens.
async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn the_first_request_waits_for_a_server_that_is_not_running() {
    for (method, params) in [
        ("initialize", json!({"protocolVersion": "2025-06-18"})),
        ("server/discover", modern(json!({}))),
    ] {
        let port = free_port().await;
        let mut client = BridgeClient::start(&format!("http://127.0.0.1:{port}/"));
        client.request(1, method, params).await;
        client.send_text("nonsense").await;
        assert_eq!(client.next().await["error"]["code"], -32700, "it replies while it waits");
        // Until now, no process listened, so at least one attempt to send the request was refused.
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let server = FakeService::on(listener, |request| request.result(json!({"late": true})));
        assert_eq!(client.answer(1).await["result"]["late"], true);
        assert_eq!(server.log.requests_for(method).len(), 1);
    }
}

#[tokio::test]
async fn the_first_request_is_retried_while_a_proxy_cannot_reach_the_server() {
    let count = AtomicUsize::new(0);
    let server = FakeService::start(move |request| match count.fetch_add(1, Ordering::SeqCst) {
        0 => FakeResponse::text(502, "text/html", "<h1>Bad Gateway</h1>"),
        1 => FakeResponse::text(503, "text/html", "<h1>Unavailable</h1>"),
        2 => FakeResponse::close(),
        _ => request.result(json!({})),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "server/discover", modern(json!({}))).await;
    assert!(client.answer(1).await.get("result").is_some());
}

#[tokio::test]
async fn an_unreachable_server_is_reported_with_advice() {
    let port = free_port().await;
    let mut client =
        BridgeClient::with_short_waits(&format!("http://127.0.0.1:{port}/mcp?key=secret"));
    for (id, method) in [(1, "initialize"), (2, "tools/call"), (3, "tools/list")] {
        client.request(id, method, json!({"name": "x"})).await;
        let error = client.answer(id).await["error"].clone();
        assert_eq!(error["code"], -32603);
        let url = format!("http://127.0.0.1:{port}/mcp");
        assert_eq!(error["data"]["url"], url);
        assert_eq!(
            error["message"],
            format!(
                "callgate bridge: cannot reach {url}: connection refused. Is the server running? Check \
                 the URL"
            )
        );
    }
}

#[tokio::test]
async fn after_the_first_wait_requests_to_an_unreachable_server_fail_at_once() {
    let port = free_port().await;
    let first_request_wait = Duration::from_millis(200);
    let request_wait = Duration::from_hours(1);
    let limits = Limits { first_request_wait, request_wait, ..Limits::default() };
    let url = format!("http://127.0.0.1:{port}/mcp");
    let mut client = BridgeClient::with(Options::new(url.parse().unwrap()).limits(limits));
    for (id, method) in [(1, "server/discover"), (2, "initialize"), (3, "tools/list")] {
        client.request(id, method, json!({})).await;
        let message = client.answer(id).await["error"]["message"].to_string();
        assert!(message.contains("connection refused"), "{method}: {message}");
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let _server = FakeService::on(listener, |request| request.result(json!({"late": true})));
    client.request(4, "server/discover", modern(json!({}))).await;
    assert_eq!(client.answer(4).await["result"]["late"], true);
}

#[tokio::test]
async fn only_read_only_requests_are_retried() {
    let server = FakeService::start(|_| FakeResponse::close()).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    for (id, method, attempts) in
        [(1, "tools/call", 1), (2, "tools/list", 2), (3, "prompts/get", 2)]
    {
        client.request(id, method, json!({"name": "x"})).await;
        let message = client.answer(id).await["error"]["message"].to_string();
        assert!(message.contains("may have been executed"), "{message}");
        assert_eq!(server.log.requests_for(method).len(), attempts, "{method}");
    }
}

#[tokio::test]
async fn no_request_is_retried_after_a_timeout() {
    let server =
        FakeService::start(|_| FakeResponse::text(504, "text/html", "<h1>Gateway Timeout</h1>"))
            .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "tools/list", json!({})).await;
    assert_eq!(client.answer(1).await["error"]["data"]["status"], 504);
    assert_eq!(server.log.requests().len(), 1);
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_retried_until_it_is_sent() {
    let port = free_port().await;
    let mut client = BridgeClient::start(&format!("http://127.0.0.1:{port}/"));
    client.request(1, "tools/call", json!({"name": "x"})).await;
    client.send_text("nonsense").await;
    client.next().await;
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let server = FakeService::on(listener, |request| request.result(json!({})));
    client.answer(1).await;
    assert_eq!(server.log.requests().len(), 1);
}

#[tokio::test]
async fn http_errors_are_reported_with_advice() {
    let server = FakeService::start(|request| match request.body["params"]["case"].as_i64() {
        Some(status @ (301 | 308)) => {
            let response = FakeResponse::empty(u16::try_from(status).unwrap());
            response.with("location", "https://example.com/mcp?key=secret")
        }
        Some(200) => FakeResponse::text(200, "text/html", "<h1>Welcome</h1>"),
        Some(202) => FakeResponse::empty(202),
        Some(status) => FakeResponse::text(u16::try_from(status).unwrap(), "text/plain", "no"),
        None => FakeResponse::empty(500),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    for (status, expected) in [
        (401, "rejected the token (from the program's options): it may be revoked, expired"),
        (403, "CALLGATE_TOKEN"),
        (404, "HTTP 404 Not Found. Is that an MCP server? Check the path of the URL"),
        (405, "Is that an MCP server? Check the path of the URL"),
        (501, "Is that an MCP server? Check the path of the URL"),
        (308, "to https://example.com/mcp. Redirects are not followed"),
        (500, "server's log"),
        (200, "neither JSON nor a stream"),
        (202, "neither JSON nor a stream"),
    ] {
        client.request(status, "tools/call", json!({"case": status})).await;
        let error = client.answer(status).await["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(expected) && !message.contains("secret"), "{status}: {message}");
        assert_eq!(error["data"]["status"], status);
    }
}

#[tokio::test]
async fn a_response_that_is_not_mcp_is_reported_as_a_wrong_path() {
    for status in [400, 404, 405, 415, 501] {
        for media in ["text/html", "application/json"] {
            let server =
                FakeService::start(move |_| FakeResponse::text(status, media, "{\"no\": 1}")).await;
            let mut client = BridgeClient::start(&server.url("/mcp"));
            client.request(1, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
            let message = client.answer(1).await["error"]["message"].to_string();
            assert!(
                message.contains("Is that an MCP server? Check the path of the URL"),
                "{message}"
            );
            assert!(!message.contains("era"), "{message}");
        }
    }
    let server = FakeService::start(|_| FakeResponse::json(200, json!({"hello": "world"}))).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("Is that an MCP server? Check the path of the URL"), "{message}");
}

#[tokio::test]
async fn method_not_found_for_initialize_is_explained() {
    let server = FakeService::start(|request| {
        request.error(404, json!({"code": -32601, "message": "unknown method"}))
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    let error = client.answer(1).await["error"].clone();
    assert_eq!(error["code"], -32601);
    assert!(error["message"].to_string().contains("does not accept `initialize`"), "{error}");
}

#[tokio::test]
async fn a_401_without_a_token_names_the_variable_for_the_token() {
    let server = FakeService::start(|_| FakeResponse::empty(401)).await;
    let mut client = BridgeClient::with(Options::new(server.url("/mcp").parse().unwrap()));
    client.request(1, "initialize", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("needs a token: set CALLGATE_TOKEN"), "{message}");
}

#[tokio::test]
async fn json_rpc_errors_are_passed_on_with_the_id_of_the_request() {
    let server = FakeService::start(|request| {
        let mut body = json!({"jsonrpc": "2.0", "error": {"code": -32001, "message": "no"}});
        match request.method() {
            "a" => body["id"] = Value::Null,
            "b" => {}
            _ => body["id"] = request.body["id"].clone(),
        }
        FakeResponse::json(400, &body)
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    for method in ["a", "b", "c"] {
        client.request(method, method, json!({})).await;
        assert_eq!(client.answer(method).await["error"]["code"], -32001);
    }
}

#[tokio::test]
async fn a_response_without_a_reply_to_the_request_is_an_error() {
    let server = FakeService::start(|request| match request.method() {
        "other" => {
            FakeResponse::json(200, json!({"jsonrpc": "2.0", "id": "another", "result": {}}))
        }
        "cut" => FakeResponse::text(200, "application/json", r#"{"jsonrpc":"2.0","#),
        _ => FakeResponse::events("data: not json\n\n"),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    for method in ["other", "cut", "stream"] {
        client.request(method, method, json!({})).await;
        assert_eq!(client.answer(method).await["error"]["code"], -32603);
    }
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn replies_and_events_beyond_the_size_limit_are_errors() {
    let server = FakeService::start(|request| {
        let result =
            json!({"jsonrpc": "2.0", "id": request.body["id"], "result": "x".repeat(2000)});
        match request.method() {
            "json" => FakeResponse::json(200, &result),
            _ => FakeResponse::events(format!("data: {result}\n\n")),
        }
    })
    .await;
    let limits = Limits { body_bytes: 1000, event_bytes: 1000, ..Limits::default() };
    let mut client =
        BridgeClient::with(Options::new(server.url("/mcp").parse().unwrap()).limits(limits));
    for method in ["json", "events"] {
        client.request(method, method, json!({})).await;
        let message = client.answer(method).await["error"]["message"].to_string();
        assert!(message.contains("longer than 1000 bytes"), "{message}");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let server =
        FakeService::start(|request| request.result(json!({})).with("connection", "close")).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    for id in 1..=20 {
        client.request(id, "tools/call", json!({})).await;
        assert!(client.answer(id).await.get("result").is_some());
    }
}

#[tokio::test]
async fn one_way_messages_are_sent_in_order() {
    let server = FakeService::start(|request| match request.method() {
        "ping" => request.result(json!({})),
        _ => FakeResponse::empty(202),
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    for number in 0..50 {
        client.notify("notifications/progress", json!({"n": number})).await;
    }
    client.notify("notifications/initialized", json!({})).await;
    client.request(1, "ping", json!({})).await;
    client.answer(1).await;
    let numbers: Vec<i64> = server
        .log
        .requests_for("notifications/progress")
        .iter()
        .map(|request| request.body["params"]["n"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    assert_eq!(server.log.requests().last().unwrap().method(), "ping", "after the notifications");
}

#[tokio::test]
async fn an_unanswered_notification_delays_requests_only_until_its_timeout() {
    let (_stream, response) = FakeResponse::stream();
    let response = std::sync::Mutex::new(Some(response));
    let server = FakeService::start(move |request| match request.method() {
        "ping" => request.result(json!({})),
        _ => response.lock().unwrap().take().unwrap(),
    })
    .await;
    let limits = Limits { send_timeout: Duration::from_millis(50), ..Limits::default() };
    let mut client =
        BridgeClient::with(Options::new(server.url("/mcp").parse().unwrap()).limits(limits));
    let started = Instant::now();
    client.notify("notifications/initialized", json!({})).await;
    client.request(1, "ping", json!({})).await;
    client.answer(1).await;
    assert!(started.elapsed() < Duration::from_secs(10));
    wait_until("both were seen", || server.log.requests().len() == 2).await;
}
