//! Lines that a client may write, and lines that it reads.

use serde_json::{Value, json};

use crate::bridge::{BridgeClient, TIMEOUT};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

#[tokio::test]
async fn an_invalid_message_is_answered_and_later_messages_are_sent() {
    let server = FakeService::start(|request| request.result(json!({}))).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.send_text("nonsense").await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    client.send_text(r#"{"jsonrpc":"2.0","id":7,"method":5}"#).await;
    let refused = client.answer(7).await;
    assert_eq!(refused["error"]["code"], -32600);
    client.send_text("\n\n  ").await;
    client.request("a", "ping", json!({})).await;
    client.answer("a").await;
    assert_eq!(client.close().await, [Value::Null; 0]);
    assert_eq!(server.log.requests().len(), 1);
}

#[tokio::test]
async fn a_line_beyond_the_limit_is_answered_with_an_error() {
    let server = FakeService::start(|request| request.result(json!({}))).await;
    let options = callgate::bridge::Options::new(server.url("/mcp").parse().unwrap());
    let limits = callgate::bridge::Limits { line_bytes: 100, ..Default::default() };
    let mut client = BridgeClient::with(options.limits(limits));
    let long = "x".repeat(5000);
    client.request(1, "ping", json!({"long": long})).await;
    let first = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"ping","params":"{long}"}}"#);
    client.send_text(&first).await;
    let last = format!(r#"{{"method":"ping","params":"{long}","jsonrpc":"2.0","id":"3"}}"#);
    client.send_text(&last).await;
    client.send_text(&long).await;
    for id in [json!(1), json!(2), json!("3"), Value::Null] {
        assert_eq!(client.answer(id).await["error"]["code"], -32600);
    }
    client.request(2, "ping", json!({})).await;
    client.answer(2).await;
}

#[tokio::test]
async fn pretty_printed_replies_are_written_as_one_line() {
    let server = FakeService::start(|request| {
        let result =
            json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {"a b": [1, "c\n d"]}});
        let pretty = serde_json::to_string_pretty(&result).unwrap();
        match request.body["id"].as_i64() {
            Some(1) => FakeResponse::text(200, "application/json; charset=utf-8", pretty),
            _ => {
                let data: Vec<String> =
                    pretty.lines().map(|line| format!("data: {line}\r\n")).collect();
                FakeResponse::events(format!("event: message\r\n{}\r\n", data.concat()))
            }
        }
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    for id in [1, 2] {
        client.request(id, "ping", json!({})).await;
        let answer = client.answer(id).await;
        assert_eq!(answer["result"], json!({"a b": [1, "c\n d"]}));
    }
    assert_eq!(client.received_lines[0].replace("\"id\":1", "\"id\":2"), client.received_lines[1]);
}

#[tokio::test]
async fn at_the_end_of_input_requests_finish_and_the_session_is_deleted() {
    let (stream, response) = FakeResponse::stream();
    let response = std::sync::Mutex::new(Some(response));
    let server =
        FakeService::start(move |request| match (request.http_method(), request.method()) {
            ("POST", "initialize") => {
                let result = json!({"protocolVersion": "2025-06-18"});
                request.result(result).with("mcp-session-id", "one")
            }
            ("POST", "tools/call") => response.lock().unwrap().take().unwrap(),
            ("DELETE", _) => FakeResponse::empty(204),
            ("GET", _) => FakeResponse::empty(405),
            _ => FakeResponse::empty(202),
        })
        .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.initialize("2025-06-18").await;
    client.request(1, "tools/call", json!({"name": "x"})).await;
    crate::bridge::wait_until("it is under way", || {
        server.log.requests_for("tools/call").len() == 1
    })
    .await;
    let closing = tokio::spawn(client.close());
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"late": true}});
    stream.send(format!("data: {answer}\n\n")).await.unwrap();
    drop(stream);
    assert_eq!(closing.await.unwrap(), [answer]);
    let last = server.log.requests().pop().unwrap();
    assert_eq!((last.http_method(), last.header("mcp-session-id")), ("DELETE", Some("one")));
}

#[tokio::test]
async fn an_endless_request_does_not_delay_shutdown() {
    let (stream, response) = FakeResponse::stream();
    let response = std::sync::Mutex::new(Some(response));
    let server = FakeService::start(move |_| response.lock().unwrap().take().unwrap()).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.request(1, "tools/call", json!({"name": "x"})).await;
    crate::bridge::wait_until("it is under way", || server.log.requests().len() == 1).await;
    let unread = client.close().await;
    assert_eq!((unread.len(), &unread[0]["id"]), (1, &json!(1)), "{unread:?}");
    let message = unread[0]["error"]["message"].to_string();
    assert!(message.contains("did not respond within 2s"), "{message}");
    tokio::time::timeout(TIMEOUT, stream.closed()).await.expect("the connection is closed");
}

#[tokio::test]
async fn a_request_that_waits_for_a_server_is_answered_before_shutdown() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let mut client = BridgeClient::start(&url);
    client.request(1, "initialize", json!({})).await;
    let unread = client.close().await;
    assert_eq!((unread.len(), &unread[0]["id"]), (1, &json!(1)), "{unread:?}");
    let message = unread[0]["error"]["message"].to_string();
    assert!(message.contains("cannot reach") && message.contains("refused"), "{message}");
}

#[tokio::test]
async fn a_client_that_no_longer_reads_ends_the_bridge() {
    let server = FakeService::start(|request| request.result(json!({}))).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    let output = std::mem::replace(&mut client.output, {
        use tokio::io::AsyncBufReadExt as _;
        tokio::io::BufReader::new(tokio::io::duplex(1).0).lines()
    });
    drop(output);
    client.request(1, "ping", json!({})).await;
    let result = tokio::time::timeout(TIMEOUT, client.bridge).await.unwrap().unwrap();
    assert!(result.is_err(), "the input is still open");
}

#[tokio::test]
async fn requests_beyond_the_limit_are_rejected() {
    let (_stream, response) = FakeResponse::stream();
    let response = std::sync::Mutex::new(Some(response));
    let server = FakeService::start(move |_| response.lock().unwrap().take().unwrap()).await;
    let options = callgate::bridge::Options::new(server.url("/mcp").parse().unwrap());
    let limits = callgate::bridge::Limits { in_flight: 1, ..Default::default() };
    let mut client = BridgeClient::with(options.limits(limits));
    client.request(1, "tools/call", json!({})).await;
    client.request(2, "tools/call", json!({})).await;
    let refused = client.answer(2).await;
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("more than 1 requests are in flight"),
        "{refused}"
    );
}
