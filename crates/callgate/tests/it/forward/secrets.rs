//! Secrets are sent to the service, and appear nowhere else.

use std::time::Duration;

use callgate::forward::ForwardLimits;
use callgate::model::ParamStyle;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::forward::fake_web_socket::{FakeWebSocket, Peer};
use crate::forward::{ForwardApp, limits, options};
use crate::log::{Log, capture_logs};
use callgate_test_support::fake_service::{FakeResponse, FakeService, unused_address};

const SECRET: &str = "s3cret";
/// `gate:s3cret`
const BASIC: &str = "Z2F0ZTpzM2NyZXQ=";

fn app(url: &str) -> ForwardApp {
    let timeout = Duration::from_millis(500);
    let options = options(&format!("{url}?key={SECRET}"))
        .params(ParamStyle::Positional)
        .first_param(&json!(format!("token:{SECRET}")))
        .member("auth", &json!(SECRET))
        .unwrap()
        .basic("gate", SECRET)
        .unwrap()
        .header("X-Key", SECRET)
        .unwrap();
    ForwardApp::with(options.limits(ForwardLimits { timeout, ..limits() }))
}

/// Checks the number of logged failures, and that no secret was logged.
fn check(log: &Log, output: &str, failures: usize) {
    let log = log.text();
    for text in [output, &log] {
        assert!(!text.contains(SECRET) && !text.contains(BASIC), "{text}");
    }
    assert_eq!(log.matches("upstream `shop`: ").count(), failures, "{log}");
}

#[tokio::test(flavor = "current_thread")]
async fn secrets_are_in_no_log_no_debug_output_and_no_reply() {
    let (log, _guard) = capture_logs();
    // The service repeats all data that it receives.
    let fake = FakeService::start(|request| match request.number {
        0 => FakeResponse::text(200, "text/html", format!("{request:?}")),
        1 => FakeResponse::text(500, "application/json", format!("{request:?}")),
        2 => FakeResponse::raw(format!(
            "HTTP/1.1 302 Found\r\nLocation: http://localhost/?key={SECRET}\r\nContent-Length: 0\r\n\r\n"
        )),
        3 => FakeResponse::close(),
        4 => FakeResponse::hang(),
        _ => FakeResponse::json(200, json!({"result": 1, "id": SECRET})),
    })
    .await;
    let app = app(&fake.url("/rpc"));
    let mut output = format!("{:?} {:?}", app.forward, app.gateway);
    for _ in 0..6 {
        output.push_str(&app.text("order_delete", json!({"id": 1})).await.0);
    }
    let refused = self::app(&format!("http://{}/", unused_address().await));
    output.push_str(&refused.text("order_delete", json!({"id": 1})).await.0);
    let requests = fake.log.requests();
    assert_eq!(requests.len(), 6);
    assert!(
        requests
            .iter()
            .all(|request| request.headers["x-key"] == SECRET
                && request.request_line.contains(SECRET))
    );
    check(&log, &output, 7);
}

#[tokio::test(flavor = "current_thread")]
async fn secrets_are_in_no_log_and_no_reply_over_websocket() {
    let (log, _guard) = capture_logs();
    // The service repeats all data that it receives.
    let fake = FakeWebSocket::start(|number, mut peer| async move {
        let request = peer.next().await.unwrap();
        match number {
            0 => {
                let code = CloseCode::Error;
                let reason = format!("{request}").chars().take(120).collect::<String>().into();
                peer.socket.close(Some(CloseFrame { code, reason })).await.unwrap();
            }
            // The message is not a reply, so the call times out.
            _ => peer.send(json!({"method": "echo", "params": request})).await,
        }
        peer.next().await;
    })
    .await;
    let app = app(&format!("ws://{}/", fake.address));
    let mut output = format!("{:?} {:?}", app.forward, app.gateway);
    for _ in 0..2 {
        output.push_str(&app.text("order_delete", json!({"id": 1})).await.0);
    }
    let services = [
        FakeWebSocket::start(|_, peer| answer_with(peer, json!({"echo": SECRET}))).await,
        FakeWebSocket::start(|_, peer| answer_with(peer, json!({"result": "7".repeat(1000)})))
            .await,
    ];
    for service in &services {
        let app = self::app(&format!("ws://{}/", service.address));
        output.push_str(&app.text("order_delete", json!({"id": 1})).await.0);
    }
    let refusing =
        FakeService::start(|request| FakeResponse::text(403, "text/html", format!("{request:?}")))
            .await;
    let refused = self::app(&format!("ws://{}/", refusing.address));
    output.push_str(&refused.text("order_delete", json!({"id": 1})).await.0);
    check(&log, &output, 5);
    assert!(fake.log.requests()[0].to_string().contains(SECRET), "the secret was sent");
}

async fn answer_with(mut peer: Peer, mut reply: Value) {
    while let Some(request) = peer.next().await {
        reply["id"] = request["id"].clone();
        peer.send(reply.clone()).await;
    }
}
