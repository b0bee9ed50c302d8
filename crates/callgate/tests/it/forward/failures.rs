//! Each kind of failure, through the real client: its message for the agent, and its counter.

use std::net::SocketAddr;
use std::time::Duration;

use callgate::forward::{CallOutcome, ForwardLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::forward::{ForwardApp, limits, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService, unused_address};

/// Returns the message that an agent gets. Checks that only this outcome is counted.
pub(crate) async fn failure_message(app: &ForwardApp, outcome: CallOutcome) -> String {
    let (text, is_error) = app.text("order_delete", json!({"id": 1})).await;
    assert!(is_error);
    for other in CallOutcome::ALL {
        assert_eq!(
            app.count(*other),
            u64::from(*other == outcome),
            "{outcome:?} {other:?}: {text}"
        );
    }
    format!("{}: {text}\n", outcome.name())
}

#[tokio::test]
async fn wrong_responses_are_classified() {
    let chunk = "7".repeat(600);
    let responses: [(CallOutcome, FakeResponse); 11] = [
        (CallOutcome::Refused, FakeResponse::text(401, "text/html", "<h1>Who?</h1>")),
        (CallOutcome::Status, FakeResponse::text(503, "text/plain", "later")),
        (
            CallOutcome::Redirected,
            FakeResponse::raw(
                "HTTP/1.1 301 Moved\r\nLocation: /login?s3cret\r\nContent-Length: 0\r\n\r\n",
            ),
        ),
        (CallOutcome::ContentType, FakeResponse::text(200, "text/html", "<html>")),
        (CallOutcome::NotJson, FakeResponse::text(200, "application/json", "{\"jsonrpc\":")),
        (CallOutcome::Empty, FakeResponse::raw("HTTP/1.1 204 None\r\n\r\n")),
        (CallOutcome::NotRpc, FakeResponse::text(200, "application/json", "[1,2]")),
        (
            CallOutcome::WrongId,
            FakeResponse::json(200, json!({"jsonrpc": "2.0", "result": 1, "id": "other"})),
        ),
        (
            CallOutcome::Truncated,
            FakeResponse::raw("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"jsonrpc\"")
                .and_close(),
        ),
        (CallOutcome::TooLarge, FakeResponse::text(200, "application/json", "7".repeat(1001))),
        (
            CallOutcome::TooLarge,
            FakeResponse::raw(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n258\r\n{chunk}\r\n258\r\n{chunk}\r\n"
            )),
        ),
    ];
    let mut table = String::new();
    for (outcome, response) in responses {
        let response = std::sync::Mutex::new(Some(response));
        let fake = FakeService::start(move |_| response.lock().unwrap().take().unwrap()).await;
        table.push_str(&failure_message(&ForwardApp::new(&fake.url("/rpc")), outcome).await);
    }
    insta::assert_snapshot!(table);
}

/// Starts a server that replies to any data, and does not speak TLS.
pub(crate) async fn without_tls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    address
}

#[tokio::test]
async fn failed_connections_are_classified() {
    let mut table = failure_message(
        &ForwardApp::new(&format!("http://{}/", unused_address().await)),
        CallOutcome::Unreachable,
    )
    .await;
    let silent = FakeService::start(|_| FakeResponse::close()).await;
    table.push_str(
        &failure_message(&ForwardApp::new(&silent.url("/rpc")), CallOutcome::Broken).await,
    );
    let other =
        FakeService::start(|_| FakeResponse::raw("220 mail.example ESMTP\r\n").and_close()).await;
    table.push_str(
        &failure_message(&ForwardApp::new(&other.url("/rpc")), CallOutcome::NoHttp).await,
    );
    let url = format!("https://{}/", without_tls().await);
    table.push_str(&failure_message(&ForwardApp::new(&url), CallOutcome::Untrusted).await);
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn a_call_without_a_response_times_out() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let app = ForwardApp::with_timeout(&fake.url("/rpc"), Duration::from_millis(500));
    insta::assert_snapshot!(failure_message(&app, CallOutcome::TimedOut).await, @"timed_out: The service behind this tool did not respond within 500ms. The method may have run: check before you try again. (error id ID)");
    // The request does not continue in the background.
    fake.log.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_and_then_fail_as_busy() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let limits = ForwardLimits { timeout: Duration::from_secs(1), concurrent: 1, ..limits() };
    let app = ForwardApp::with(options(&fake.url("/rpc")).limits(limits));
    let first = app.text("order_delete", json!({"id": 1}));
    let second = async {
        fake.log.wait_for_requests(1).await;
        app.text("order_delete", json!({"id": 2})).await
    };
    let third = async {
        fake.log.wait_for_requests(1).await;
        app.invoke("order.delete", json!({"id": 3})).await
    };
    let fourth = async {
        fake.log.wait_for_requests(1).await;
        let params = json!({"id": 4});
        let call = json!({"jsonrpc": "2.0", "id": 4, "method": "order.delete", "params": params});
        app.post("/jsonrpc", call).await
    };
    let ((first, _), (second, _), third, fourth) = tokio::join!(first, second, third, fourth);
    assert!(first.contains("did not respond within 1s"), "{first}");
    insta::assert_snapshot!(second, @"The service behind this tool is busy: it has too many concurrent calls, and none ended within 500ms. Nothing was run. Try again in 2 seconds.");
    for (status, body) in [third, fourth] {
        assert_eq!(status, 429, "{body}");
        assert!(body["error"]["message"].as_str().unwrap().ends_with(&second), "{body}");
    }
    assert_eq!(fake.log.requests().len(), 1);
    assert_eq!((app.count(CallOutcome::Busy), app.count(CallOutcome::TimedOut)), (3, 1));
}
