//! Messages if there is no token, and how often a token is requested then.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use callgate::forward::{CallOutcome, ForwardLimits, InMemoryRefreshToken};
use serde_json::json;
use tokio::net::TcpListener;

use super::{SECRET, call, client, failing, granted, later, secret, service, with_oauth};
use crate::forward::{App, limits, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

#[tokio::test]
async fn a_rejected_client_is_reported_and_not_retried_for_each_call() {
    let issuer =
        FakeService::start(|_| FakeResponse::json(401, json!({"error": "invalid_client"}))).await;
    let service = service().await;
    let app = App::with(with_oauth(&issuer, &service));
    let told = failing(&app).await;
    assert_eq!(failing(&app).await, told);
    insta::assert_snapshot!(told);
    assert_eq!((issuer.log.requests().len(), service.log.requests().len()), (1, 0));
    assert_eq!(app.count(CallOutcome::NoToken), 2);
    later(2).await;
    failing(&app).await;
    assert_eq!(issuer.log.requests().len(), 2);
    later(1).await;
    // The second pause is longer than the first.
    failing(&app).await;
    assert_eq!(issuer.log.requests().len(), 2);
}

#[tokio::test]
async fn a_rejected_refresh_token_is_reported() {
    let issuer =
        FakeService::start(|_| FakeResponse::json(400, json!({"error": "invalid_grant"}))).await;
    let service = service().await;
    let store = Arc::new(InMemoryRefreshToken::new(secret("r")));
    let app = App::with(options(&service.url("/rpc")).oauth(client(&issuer).refresh_token(store)));
    insta::assert_snapshot!(failing(&app).await);
}

#[tokio::test]
async fn an_unreachable_authorization_server_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let service = service().await;
    let url = format!("http://{address}/token");
    let oauth = callgate::forward::OAuthClient::new(&url).unwrap().client("a", Some(secret("b")));
    let app = App::with(options(&service.url("/rpc")).oauth(oauth));
    insta::assert_snapshot!(failing(&app).await);
    let listener = TcpListener::bind(address).await.unwrap();
    let issuer = FakeService::on(listener, |_| FakeResponse::json(200, granted("token", 100)));
    failing(&app).await;
    assert_eq!(issuer.log.requests().len(), 0);
    later(2).await;
    assert_eq!(call(&app).await, "Bearer token");
}

#[tokio::test]
async fn calls_use_a_valid_token_while_the_authorization_server_is_unreachable() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let issuer = FakeService::start(move |seen| {
        if away.load(Ordering::SeqCst) {
            FakeResponse::text(503, "text/html", "<h1>Maintenance</h1>")
        } else {
            FakeResponse::json(200, granted(&format!("token-{}", seen.number), 100))
        }
    })
    .await;
    let service = service().await;
    let app = App::with(with_oauth(&issuer, &service));
    assert_eq!(call(&app).await, "Bearer token-0");
    is_away.store(true, Ordering::SeqCst);
    later(82).await;
    for _ in 0..20 {
        assert_eq!(call(&app).await, "Bearer token-0");
    }
    issuer.log.wait_for_requests(2).await;
    later(10).await;
    insta::assert_snapshot!(failing(&app).await);
    is_away.store(false, Ordering::SeqCst);
    later(60).await;
    let after = call(&app).await;
    assert_ne!(after, "Bearer token-0");
    assert!(issuer.log.requests().len() <= 5, "{}", issuer.log.requests().len());
}

#[tokio::test]
async fn invalid_token_responses_are_logged() {
    let (log, _guard) = crate::log::log_everything();
    let huge = format!("{{\"access_token\":\"{}\"}}", "x".repeat(100_000));
    let answers: [(&str, FakeResponse); 5] = [
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
    for (words, answer) in answers {
        let answer = std::sync::Mutex::new(Some(answer));
        let issuer = FakeService::start(move |_| {
            answer.lock().unwrap().take().unwrap_or_else(FakeResponse::close)
        })
        .await;
        let service = service().await;
        let told = failing(&App::with(with_oauth(&issuer, &service))).await;
        assert!(told.contains("sends invalid responses"), "{told}");
        assert!(log.text().contains(words), "{words}: {}", log.text());
        assert_eq!((issuer.log.requests().len(), service.log.requests().len()), (1, 0));
    }
}

#[tokio::test]
async fn a_silent_token_endpoint_times_out_before_the_call() {
    let (issuer, service) = (FakeService::start(|_| FakeResponse::hang()).await, service().await);
    let timeout = Duration::from_millis(300);
    let limits = ForwardLimits { timeout, ..limits() };
    let app = App::with(with_oauth(&issuer, &service).limits(limits));
    insta::assert_snapshot!(failing(&app).await);
    issuer.log.wait_for_disconnects(1).await;
    assert_eq!(app.count(CallOutcome::NoToken), 1);
}

#[tokio::test]
async fn secrets_of_oauth_are_in_no_log_and_no_error() {
    let (log, _guard) = crate::log::log_everything();
    let said = format!("bad secret {SECRET}");
    let refusals = [
        json!({"error": "invalid_client", "error_description": said}),
        json!({"error": "invalid_grant", "error_description": "expired", "hint": "r3fresh"}),
        json!({"token_type": "Bearer", "access_token": "t0ken", "refresh_token": "r3fresh-2"}),
    ];
    let issuer = FakeService::start(move |seen| {
        let number = seen.number;
        let refusal = refusals.get(number).cloned().unwrap_or_default();
        FakeResponse::json(if number == 2 { 200 } else { 400 }, refusal)
    })
    .await;
    let service = FakeService::start(|_| FakeResponse::text(401, "text/plain", "no")).await;
    let store = Arc::new(InMemoryRefreshToken::new(secret("r3fresh")));
    let options = options(&service.url("/rpc")).oauth(client(&issuer).refresh_token(store));
    let mut shown = format!("{options:?}");
    let app = App::with(options);
    for _ in 0..4 {
        shown.push_str(&failing(&app).await);
        write!(shown, "{:?}", app.forward).unwrap();
        later(40).await;
    }
    shown.push_str(&log.text());
    assert!(log.text().contains("expired"), "{shown}");
    for secret in [SECRET, "r3fresh", "t0ken", "s3cret+of"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert_eq!(service.log.requests().len(), 2);
}
