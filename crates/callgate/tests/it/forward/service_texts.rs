//! Responses that are not JSON-RPC replies: how the log and the message for agents show their text and the remedy.

use std::fmt::Write as _;

use callgate::forward::CallOutcome;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::forward::{ForwardApp, options};
use crate::log::capture_logs;
use callgate_test_support::fake_service::{FakeResponse, FakeService};

/// Returns the log entry of a failed call.
fn log_entry(log: &str) -> String {
    let start = "upstream `shop`: ";
    let line =
        log.lines().find_map(|line| line.split_once(start)).unwrap_or_else(|| panic!("{log}"));
    line.1.strip_suffix('"').unwrap().replace("\\\"", "\"")
}

fn responses() -> Vec<(&'static str, FakeResponse)> {
    let page =
        "<!DOCTYPE html><html><head><title>404 Not Found</title></head>\n<body></body></html>";
    let conflict = "<h1>409: Conflict</h1><p>Your request had an invalid session-id header.</p>";
    vec![
        ("litecoind", FakeResponse::text(500, "text/html", "Work queue depth exceeded")),
        ("a failure", FakeResponse::text(500, "text/plain", "disk\r\n full\u{202e}\u{0}!")),
        ("a long text", FakeResponse::text(500, "text/plain", "0123456789".repeat(30))),
        ("no text", FakeResponse::empty(502)),
        ("a wrong path", FakeResponse::text(404, "text/html", page)),
        ("only GET", FakeResponse::empty(405)),
        ("a limit", FakeResponse::text(429, "text/plain", "1 request per second")),
        ("maintenance", FakeResponse::text(503, "text/html", "<h1>Back soon</h1>")),
        ("WebSocket", FakeResponse::text(426, "text/plain", "Upgrade Required")),
        ("TLS", FakeResponse::empty(426).with("Upgrade", "TLS/1.2, HTTP/1.1")),
        (
            "Transmission without a session",
            FakeResponse::text(409, "text/html", conflict).with("X-Transmission-Session-Id", "a1"),
        ),
        ("a conflict", FakeResponse::text(409, "text/plain", "edited meanwhile")),
        ("Basic", FakeResponse::empty(401).with("WWW-Authenticate", "Basic realm=\"jsonrpc\"")),
        ("Digest", FakeResponse::empty(401).with("WWW-Authenticate", "Digest qop=\"auth\"")),
        ("Bearer", FakeResponse::empty(401).with("WWW-Authenticate", "Bearer")),
        ("a login", FakeResponse::text(401, "text/plain", "Unauthorized")),
        ("Transmission", FakeResponse::json(200, json!({"result": "success", "arguments": {}}))),
        ("a result alone", FakeResponse::json(200, json!({"result": 1}))),
        (
            "XML-RPC",
            FakeResponse::text(200, "text/xml", "<?xml version=\"1.0\"?><methodResponse/>"),
        ),
        (
            "an error of PHP",
            FakeResponse::text(
                200,
                "text/html",
                "<br />\n<b>Fatal error</b>:  Uncaught Error: no Pet in <b>/srv/pets.php</b> on line <b>3</b><br />",
            ),
        ),
        (
            "a warning of PHP before the reply",
            FakeResponse::text(
                200,
                "application/json",
                "\nWarning: Undefined variable $id in /srv/pets.php on line 4\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}",
            ),
        ),
        ("a page", FakeResponse::text(200, "text/html", "<html><h1>Welcome</h1></html>")),
    ]
}

#[tokio::test]
async fn the_message_for_a_wrong_path_advises_against_trying_again() {
    let fake = FakeService::start(|_| FakeResponse::empty(404)).await;
    let (text, _) =
        ForwardApp::with(options(&fake.url("/"))).text("order_get", json!({"id": 1})).await;
    assert!(text.contains("Do not try again"), "{text}");
}

#[tokio::test(flavor = "current_thread")]
async fn each_response_is_explained_in_the_log_and_to_the_agent() {
    let mut table = String::new();
    for (name, response) in responses() {
        let (log, guard) = capture_logs();
        let fake = FakeService::start(move |_| response.clone()).await;
        let app = ForwardApp::new(&fake.url("/rpc"));
        let (text, is_error) = app.text("order_delete", json!({"id": 1})).await;
        drop(guard);
        assert!(is_error, "{name}");
        writeln!(table, "{name}\n  log: {}\n  agent: {text}", log_entry(&log.text())).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn the_text_of_a_trusted_service_is_passed_on_to_agents() {
    let fake = FakeService::start(|_| FakeResponse::text(500, "text/plain", "disk full")).await;
    let mut options = options(&fake.url("/rpc"));
    options.trust_errors = true;
    let (text, _) = ForwardApp::with(options).text("order_delete", json!({"id": 1})).await;
    insta::assert_snapshot!(text, @r#"The service behind this tool responded with HTTP 500. The method may have run: check before you try again. The service responded: "disk full" (error id ID)"#);
}

#[tokio::test]
async fn a_request_that_the_service_discarded_is_retried() {
    let fake = FakeService::start(|request| match request.number {
        0 => FakeResponse::text(500, "text/html", "Work queue depth exceeded"),
        _ => request.result(7),
    })
    .await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.1, json!({"result": 7}));
    assert_eq!((fake.log.requests().len(), app.retries()), (2, 1));

    // If a reply contains other text beside the message, the method may have run.
    let run = FakeService::start(|request| {
        let message = "saved, but failed to send `Work queue depth exceeded`";
        request.error(500, json!({"code": -1, "message": message}))
    })
    .await;
    ForwardApp::new(&run.url("/rpc")).invoke("order.delete", json!({"id": 1})).await;
    assert_eq!(run.log.requests().len(), 1);

    let full =
        FakeService::start(|_| FakeResponse::text(503, "text/html", "Work queue depth exceeded"))
            .await;
    let app = ForwardApp::new(&full.url("/rpc"));
    let (text, _) = app.text("order_delete", json!({"id": 1})).await;
    assert!(text.contains("Nothing was run: try again later."), "{text}");
    assert_eq!((full.log.requests().len(), app.count(CallOutcome::Status)), (2, 1));
}

#[tokio::test(flavor = "current_thread")]
async fn an_error_page_in_another_encoding_is_logged() {
    let (log, _guard) = capture_logs();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 500 X\r\nContent-Length: 8\r\n\r\ngro\xdf zu!").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let app = ForwardApp::new(&url);
    app.text("order_delete", json!({"id": 1})).await;
    assert_eq!(
        log_entry(&log.text()),
        "HTTP 500 without a JSON-RPC error: \"gro\u{fffd} zu!\"",
        "{}",
        log.text()
    );
    assert_eq!(app.count(CallOutcome::Status), 1);
}
