//! Services behind a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use callgate::forward::{
    BreakerLimits, CallOutcome, CallerHeaders, Forward, ForwardLimits, IdFormat, header_name,
};
use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

use crate::forward::failures::{failure_message, without_tls};
use crate::forward::fake_web_socket::{FakeWebSocket, Peer};
use callgate_test_support::fake_service::{FakeResponse, FakeService, unused_address};
use callgate_test_support::tls;

use crate::forward::{ForwardApp, limits, options};

#[tokio::test]
async fn all_calls_share_one_connection() {
    let fake = FakeWebSocket::start(|_, peer| peer.echo()).await;
    let app = ForwardApp::new(&fake.url());
    let calls = (0..200).map(|id| app.invoke("order.get", json!({"id": id})));
    for (id, (status, body)) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!((status, body), (200, json!({"result": {"id": id}})));
    }
    assert_eq!((fake.log.connections(), app.count(CallOutcome::Result)), (1, 200));
    let request = &fake.log.requests()[0];
    assert_eq!((&request["jsonrpc"], &request["method"]), (&json!("2.0"), &json!("order.get")));
    assert!(request["id"].as_str().unwrap().starts_with("mcp_"));
    drop(app);
    fake.log.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn replies_are_matched_to_calls_in_any_order_and_other_messages_are_ignored() {
    let fake = FakeWebSocket::start(|_, mut peer| async move {
        let mut requests = Vec::new();
        while requests.len() < 3 {
            requests.extend(peer.next().await);
        }
        peer.send(json!({"jsonrpc": "2.0", "method": "news", "params": [1]})).await;
        peer.send(json!({"jsonrpc": "2.0", "method": "ping", "id": requests[0]["id"]})).await;
        peer.send(json!({"jsonrpc": "2.0", "result": "whose?", "id": "mcp_0"})).await;
        peer.send(json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "?"}, "id": null}))
            .await;
        peer.send(json!("hello")).await;
        for request in requests.iter().rev() {
            let reply =
                json!({"result": request["params"]["id"], "error": null, "id": request["id"]});
            // Some services send binary messages.
            peer.socket.send(Message::binary(reply.to_string())).await.unwrap();
        }
        peer.echo().await;
    })
    .await;
    for ids in [IdFormat::String, IdFormat::Number] {
        let mut options = options(&fake.url());
        options.id_format = ids;
        let app = ForwardApp::with(options);
        let calls = (1..4).map(|id| app.invoke("order.get", json!({"id": id})));
        let results: Vec<Value> = join_all(calls).await.into_iter().map(|(_, body)| body).collect();
        assert_eq!(results, [1, 2, 3].map(|id| json!({"result": id})), "{ids:?}");
    }
}

#[tokio::test]
async fn an_error_without_an_id_is_matched_to_the_only_call() {
    let fake = FakeWebSocket::start(|_, mut peer| async move {
        peer.next().await;
        let error = json!({"code": -32600, "message": "Invalid Request"});
        peer.send(json!({"jsonrpc": "2.0", "error": error, "id": null})).await;
        peer.echo().await;
    })
    .await;
    let app = ForwardApp::new(&fake.url());
    let (text, _) = app.text("order_get", json!({"id": 1})).await;
    assert_eq!(text, "Invalid Request (code -32600)");
}

#[tokio::test]
async fn the_handshake_contains_the_configured_headers_and_the_path() {
    let fake = FakeWebSocket::start(|_, peer| peer.echo()).await;
    let options = options(&fake.url())
        .basic("gate", "s3cret")
        .unwrap()
        .header("X-Team", "blue")
        .unwrap()
        .header("Sec-WebSocket-Extensions", "permessage-deflate")
        .unwrap();
    let app = ForwardApp::with(options);
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 200);
    let (path, headers) = &fake.log.upgrade_requests()[0];
    assert_eq!(path, "/rpc?key=1");
    assert_eq!(headers["authorization"], "Basic Z2F0ZTpzM2NyZXQ=");
    assert_eq!(headers["x-team"], "blue");
    assert_eq!(headers["host"], fake.address.to_string());
    assert!(!headers.contains_key("sec-websocket-extensions"), "extensions are not supported");
}

#[tokio::test]
async fn pings_are_answered() {
    let fake = FakeWebSocket::start(|_, mut peer| async move {
        let request = peer.next().await.unwrap();
        peer.socket.send(Message::Ping("are you there?".into())).await.unwrap();
        let pong = peer.socket.next().await.unwrap().unwrap();
        peer.result(&request, json!(pong.to_text().unwrap())).await;
        peer.echo().await;
    })
    .await;
    let app = ForwardApp::new(&fake.url());
    let (_, body) = app.invoke("order.get", json!({"id": 1})).await;
    assert_eq!(body, json!({"result": "are you there?"}));
}

#[tokio::test]
async fn a_service_over_tls_is_called_only_if_its_certificate_is_trusted() {
    let (acceptor, authority) = tls::localhost(&["h2", "http/1.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("wss://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            tokio::spawn(async move {
                while let Some(Ok(Message::Text(text))) = socket.next().await {
                    let request: Value = serde_json::from_str(&text).unwrap();
                    let reply = json!({"jsonrpc": "2.0", "result": "safe", "id": request["id"]});
                    socket.send(Message::text(reply.to_string())).await.unwrap();
                }
            });
        }
    });
    let app = ForwardApp::with(options(&url).ca_certificates(authority.as_bytes()).unwrap());
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": "safe"}));
    let app_without_authority = ForwardApp::new(&url);
    assert_eq!(app_without_authority.invoke("order.get", json!({"id": 1})).await.0, 500);
    assert_eq!(app_without_authority.count(CallOutcome::Untrusted), 1);
}

#[tokio::test]
async fn failed_websocket_handshakes_are_classified() {
    let accept = "HTTP/1.1 101 Some\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n";
    let responses = [
        (CallOutcome::Refused, FakeResponse::text(401, "text/html", "<h1>Who?</h1>")),
        (CallOutcome::NoWebSocket, FakeResponse::text(404, "text/html", "<h1>Where?</h1>")),
        (CallOutcome::NoWebSocket, FakeResponse::text(200, "application/json", "{}")),
        (CallOutcome::NoWebSocket, FakeResponse::raw(accept)),
        (
            CallOutcome::Redirected,
            FakeResponse::raw("HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"),
        ),
        (CallOutcome::NoHttp, FakeResponse::raw("220 mail.example ESMTP\r\n").and_close()),
    ];
    let mut table = String::new();
    for (outcome, response) in responses {
        let response = std::sync::Mutex::new(Some(response));
        let fake = FakeService::start(move |_| response.lock().unwrap().take().unwrap()).await;
        let app = ForwardApp::new(&format!("ws://{}/rpc", fake.address));
        table.push_str(&failure_message(&app, outcome).await);
    }
    let silent = FakeService::start(|_| FakeResponse::close()).await;
    let app = ForwardApp::new(&format!("ws://{}/rpc", silent.address));
    table.push_str(&failure_message(&app, CallOutcome::Unreachable).await);
    let app = ForwardApp::new(&format!("wss://{}/", without_tls().await));
    table.push_str(&failure_message(&app, CallOutcome::Untrusted).await);
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn a_handshake_without_a_response_fails_all_waiting_calls() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let limits = ForwardLimits { connect: Duration::from_millis(300), ..limits() };
    let app = ForwardApp::with(options(&format!("ws://{}/", fake.address)).limits(limits));
    let calls = (0..3).map(|id| app.text("order_delete", json!({"id": id})));
    for (text, _) in join_all(calls).await {
        assert!(text.contains("cannot be reached. Nothing was run"), "{text}");
    }
    assert_eq!((app.count(CallOutcome::Unreachable), fake.log.requests().len()), (3, 1));
}

#[tokio::test]
async fn readyz_names_an_unreachable_websocket_service_until_it_recovers() {
    let address = unused_address().await;
    let breaker = BreakerLimits { failures: 2, pause: Duration::ZERO };
    let limits = ForwardLimits { breaker, ..limits() };
    let app = ForwardApp::with(options(&format!("ws://{address}/")).limits(limits));
    for _ in 0..2 {
        assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.0, 500);
    }
    assert_eq!((app.count(CallOutcome::Unreachable), app.retries()), (2, 2));
    assert_eq!(app.ready().await["upstreams_down"], json!(["shop"]));
    let listener = TcpListener::bind(address).await.unwrap();
    let _fake = FakeWebSocket::on(listener, |_, peer| peer.echo());
    assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.0, 200);
    assert_eq!(app.ready().await.get("upstreams_down"), None);
}

/// Starts a service that replies from the second connection on. The first connection ends after a request was read.
async fn breaking() -> FakeWebSocket {
    FakeWebSocket::start(|number, mut peer: Peer| async move {
        if number > 0 {
            return peer.echo().await;
        }
        peer.next().await;
    })
    .await
}

#[tokio::test]
async fn after_a_broken_connection_only_read_only_requests_are_retried() {
    let fake = breaking().await;
    let app = ForwardApp::new(&fake.url());
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": {"id": 1}}));
    assert_eq!((fake.log.requests().len(), app.retries()), (2, 1));

    let fake = breaking().await;
    let app = ForwardApp::new(&fake.url());
    insta::assert_snapshot!(failure_message(&app, CallOutcome::Broken).await, @"broken: The service behind this tool closed the connection without a response. The method may have run: check before you try again. (error id ID)");
    assert_eq!((fake.log.requests().len(), app.retries()), (1, 0));
    assert_eq!(
        app.invoke("order.delete", json!({"id": 2})).await.0,
        200,
        "the next call opens another connection"
    );
}

#[tokio::test]
async fn a_connection_that_closed_while_idle_does_not_fail_a_call() {
    let fake = FakeWebSocket::start(|_, mut peer| async move {
        let request = peer.next().await.unwrap();
        peer.result(&request, json!(1)).await;
        peer.socket.close(None).await.unwrap();
        // Waits for the client's close message, which it sends after it has dropped the connection.
        peer.next().await;
    })
    .await;
    let app = ForwardApp::new(&fake.url());
    for id in 0..10 {
        assert_eq!(app.invoke("order.delete", json!({"id": id})).await.0, 200, "{id}");
        fake.log.wait_for_disconnects(id + 1).await;
    }
    assert_eq!((fake.log.requests().len(), fake.log.connections()), (10, 10), "each call ran once");
    assert_eq!(app.retries(), 0);
}

/// Starts a service that replies to the first two requests together, in their order.
async fn late() -> FakeWebSocket {
    FakeWebSocket::start(|_, mut peer: Peer| async move {
        let (first, second) = (peer.next().await.unwrap(), peer.next().await.unwrap());
        peer.result(&first, json!("late")).await;
        peer.result(&second, json!("mine")).await;
        peer.echo().await;
    })
    .await
}

#[tokio::test]
async fn a_late_reply_is_ignored() {
    let fake = late().await;
    let app = ForwardApp::with_timeout(&fake.url(), Duration::from_millis(500));
    let (text, _) = app.text("order_get", json!({"id": 1})).await;
    assert!(text.contains("did not respond within 500ms"), "{text}");
    assert_eq!(app.invoke("order.get", json!({"id": 2})).await.1, json!({"result": "mine"}));
    assert_eq!(app.count(CallOutcome::TimedOut), 1);
    assert_eq!((fake.log.connections(), app.retries()), (1, 0));
}

#[tokio::test]
async fn dropping_a_call_does_not_affect_other_calls() {
    let fake = late().await;
    let app = Arc::new(ForwardApp::new(&fake.url()));
    let calling = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.invoke("order.delete", json!({"id": 1})).await }
    });
    fake.log.wait_for_requests(1).await;
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    assert_eq!(app.invoke("order.get", json!({"id": 2})).await.1, json!({"result": "mine"}));
    assert_eq!(app.count(CallOutcome::Cancelled), 1);
    assert_eq!(fake.log.connections(), 1);
}

#[tokio::test]
async fn a_reply_beyond_the_limit_closes_the_connection() {
    let fake = FakeWebSocket::start(|number, mut peer: Peer| async move {
        let count = 1 + number % 2;
        for _ in 0..count {
            peer.next().await;
        }
        peer.send(json!("7".repeat(1001))).await;
        peer.next().await;
    })
    .await;
    let app = ForwardApp::new(&fake.url());
    let mut table = failure_message(&app, CallOutcome::TooLarge).await;
    fake.log.wait_for_disconnects(1).await;
    let calls = (0..2).map(|id| app.text("order_delete", json!({"id": id})));
    for (text, _) in join_all(calls).await {
        table.push_str(&text);
        table.push('\n');
    }
    insta::assert_snapshot!(table);
    assert_eq!((fake.log.requests().len(), app.count(CallOutcome::Broken)), (3, 2));
}

#[tokio::test]
async fn replies_are_read_while_the_service_does_not_read_requests() {
    // The service reads the second request only after its first reply is sent. Until then, the buffers of both sides
    // are full.
    let fake = FakeWebSocket::start(|_, mut peer: Peer| async move {
        let first = peer.next().await.unwrap();
        let noise = json!({"jsonrpc": "2.0", "method": "noise", "params": ["x".repeat(900_000)]});
        for _ in 0..20 {
            peer.send(noise.clone()).await;
        }
        peer.result(&first, json!("read")).await;
        peer.echo().await;
    })
    .await;
    let limits = ForwardLimits { result_bytes: 1_000_000, ..limits() };
    let app = ForwardApp::with(options(&fake.url()).limits(limits));
    let note = "n".repeat(900_000);
    let calls = (0..20).map(|id| app.invoke("order.get", json!({"id": id, "note": note})));
    let replies = join_all(calls).await;
    assert!(replies.iter().all(|(status, _)| *status == 200));
}

#[tokio::test]
async fn a_connection_that_closes_within_a_reply_is_reported_as_broken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            socket.next().await;
            let mut stream = socket.into_inner();
            // A frame that is cut off.
            tokio::io::AsyncWriteExt::write_all(&mut stream, &[0x81, 100, b'{']).await.unwrap();
            tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    let app = ForwardApp::new(&url);
    failure_message(&app, CallOutcome::Broken).await;
}

#[test]
fn options_that_need_a_request_per_call_are_rejected() {
    let websocket = || options("ws://localhost/");
    let user_id = Some(header_name("X-User-Id").unwrap());
    let caller = CallerHeaders { user_id, ..CallerHeaders::default() };
    let mut http2 = websocket();
    http2.http2 = true;
    let problems: Vec<String> =
        [websocket().caller_headers(caller).unwrap(), websocket().batch(), http2]
            .into_iter()
            .map(|options| Forward::new("shop", options).unwrap_err().to_string())
            .collect();
    insta::assert_debug_snapshot!(problems);
}
