//! Messages if there is no token, and how often a token is requested then.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use callgate::forward::{CallOutcome, ForwardLimits, InMemoryRefreshToken};
use serde_json::json;
use tokio::net::TcpListener;

use super::{
    SECRET, advance_clock, call, call_error, client, secret, service, token_response, with_oauth,
};
use crate::forward::{ForwardApp, limits, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

#[tokio::test]
async fn a_rejected_client_is_reported_and_not_retried_for_each_call() {
    let issuer =
        FakeService::start(|_| FakeResponse::json(401, json!({"error": "invalid_client"}))).await;
    let service = service().await;
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    let message = call_error(&app).await;
    assert_eq!(call_error(&app).await, message);
    insta::assert_snapshot!(message);
    assert_eq!((issuer.log.requests().len(), service.log.requests().len()), (1, 0));
    assert_eq!(app.count(CallOutcome::NoToken), 2);
    advance_clock(2).await;
    call_error(&app).await;
    assert_eq!(issuer.log.requests().len(), 2);
    advance_clock(1).await;
    // The second pause is longer than the first.
    call_error(&app).await;
    assert_eq!(issuer.log.requests().len(), 2);
}

#[tokio::test]
async fn a_rejected_refresh_token_is_reported() {
    let issuer =
        FakeService::start(|_| FakeResponse::json(400, json!({"error": "invalid_grant"}))).await;
    let service = service().await;
    let store = Arc::new(InMemoryRefreshToken::new(secret("r")));
    let app =
        ForwardApp::with(options(&service.url("/rpc")).oauth(client(&issuer).refresh_token(store)));
    insta::assert_snapshot!(call_error(&app).await);
}

#[tokio::test]
async fn an_unreachable_authorization_server_is_requested_again_after_a_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let service = service().await;
    let url = format!("http://{address}/token");
    let oauth = callgate::forward::OAuthClient::new(&url).unwrap().client("a", Some(secret("b")));
    let app = ForwardApp::with(options(&service.url("/rpc")).oauth(oauth));
    insta::assert_snapshot!(call_error(&app).await);
    let listener = TcpListener::bind(address).await.unwrap();
    let issuer =
        FakeService::on(listener, |_| FakeResponse::json(200, token_response("token", 100)));
    call_error(&app).await;
    assert_eq!(issuer.log.requests().len(), 0);
    advance_clock(2).await;
    assert_eq!(call(&app).await, "Bearer token");
}

#[tokio::test]
async fn calls_use_a_valid_token_while_the_authorization_server_is_unreachable() {
    let is_unavailable = Arc::new(AtomicBool::new(false));
    let unavailable = Arc::clone(&is_unavailable);
    let issuer = FakeService::start(move |request| {
        if unavailable.load(Ordering::SeqCst) {
            FakeResponse::text(503, "text/html", "<h1>Maintenance</h1>")
        } else {
            FakeResponse::json(200, token_response(&format!("token-{}", request.number), 100))
        }
    })
    .await;
    let service = service().await;
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    assert_eq!(call(&app).await, "Bearer token-0");
    is_unavailable.store(true, Ordering::SeqCst);
    advance_clock(82).await;
    for _ in 0..20 {
        assert_eq!(call(&app).await, "Bearer token-0");
    }
    issuer.log.wait_for_requests(2).await;
    advance_clock(10).await;
    insta::assert_snapshot!(call_error(&app).await);
    is_unavailable.store(false, Ordering::SeqCst);
    advance_clock(60).await;
    let token = call(&app).await;
    assert_ne!(token, "Bearer token-0");
    assert!(issuer.log.requests().len() <= 5, "{}", issuer.log.requests().len());
}

#[tokio::test]
async fn invalid_token_responses_are_logged() {
    let (log, _guard) = crate::log::capture_logs();
    let huge = format!("{{\"access_token\":\"{}\"}}", "x".repeat(100_000));
    let responses: [(&str, FakeResponse); 5] = [
        ("not a JSON object", FakeResponse::text(200, "text/html", "<h1>Welcome</h1>")),
        ("longer than 64 KiB", FakeResponse::text(200, "application/json", &huge)),
        (
            "a redirect",
            FakeResponse::raw("HTTP/1.1 302 F\r\nLocation: /t\r\nContent-Length: 0\r\n\r\n"),
        ),
        (
            "`token_type`",
            FakeResponse::json(200, json!({"access_token": "t", "token_type": "mac"})),
        ),
        ("not HTTP", FakeResponse::raw("220 smtp.example ready\r\n").and_close()),
    ];
    for (expected, response) in responses {
        let response = std::sync::Mutex::new(Some(response));
        let issuer = FakeService::start(move |_| {
            response.lock().unwrap().take().unwrap_or_else(FakeResponse::close)
        })
        .await;
        let service = service().await;
        let message = call_error(&ForwardApp::with(with_oauth(&issuer, &service))).await;
        assert!(message.contains("sends invalid responses"), "{message}");
        assert!(log.text().contains(expected), "{expected}: {}", log.text());
        assert_eq!((issuer.log.requests().len(), service.log.requests().len()), (1, 0));
    }
}

#[tokio::test]
async fn a_silent_token_endpoint_times_out_before_the_call() {
    let (issuer, service) = (FakeService::start(|_| FakeResponse::hang()).await, service().await);
    let timeout = Duration::from_millis(300);
    let limits = ForwardLimits { timeout, ..limits() };
    let app = ForwardApp::with(with_oauth(&issuer, &service).limits(limits));
    insta::assert_snapshot!(call_error(&app).await);
    issuer.log.wait_for_disconnects(1).await;
    assert_eq!(app.count(CallOutcome::NoToken), 1);
}

#[tokio::test]
async fn secrets_of_oauth_are_in_no_log_and_no_error() {
    let (log, _guard) = crate::log::capture_logs();
    let description = format!("bad secret {SECRET}");
    let responses = [
        json!({"error": "invalid_client", "error_description": description}),
        json!({"error": "invalid_grant", "error_description": "expired", "hint": "r3fresh"}),
        json!({"token_type": "Bearer", "access_token": "t0ken", "refresh_token": "r3fresh-2"}),
    ];
    let issuer = FakeService::start(move |request| {
        let number = request.number;
        let response = responses.get(number).cloned().unwrap_or_default();
        FakeResponse::json(if number == 2 { 200 } else { 400 }, response)
    })
    .await;
    let service = FakeService::start(|_| FakeResponse::text(401, "text/plain", "no")).await;
    let store = Arc::new(InMemoryRefreshToken::new(secret("r3fresh")));
    let options = options(&service.url("/rpc")).oauth(client(&issuer).refresh_token(store));
    let mut output = format!("{options:?}");
    let app = ForwardApp::with(options);
    for _ in 0..4 {
        output.push_str(&call_error(&app).await);
        write!(output, "{:?}", app.forward).unwrap();
        advance_clock(40).await;
    }
    output.push_str(&log.text());
    assert!(log.text().contains("expired"), "{output}");
    for secret in [SECRET, "r3fresh", "t0ken", "s3cret+of"] {
        assert!(!output.contains(secret), "{secret} in {output}");
    }
    assert_eq!(service.log.requests().len(), 2);
}
