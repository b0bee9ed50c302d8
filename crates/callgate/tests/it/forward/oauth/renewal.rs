//! Tokens are requested, cached and renewed with one request for all calls.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callgate::forward::{CallOutcome, ClientAuth, InMemoryRefreshToken, RefreshTokenFile};
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{
    SECRET, advance_clock, call, client, field, issuer, rotated_response, secret, service,
    service_that_accepts, token_response, with_oauth,
};
use crate::forward::{ForwardApp, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

#[tokio::test]
async fn the_first_call_requests_a_token_and_later_calls_use_it() {
    let (issuer, service) = (issuer().await, service().await);
    let oauth = client(&issuer).scope("content:read content:write");
    let app = ForwardApp::with(options(&service.url("/rpc")).oauth(oauth));
    assert_eq!(issuer.log.requests().len(), 0);
    assert_eq!(call(&app).await, "Bearer token-1");
    assert_eq!(call(&app).await, "Bearer token-1");
    let requests = issuer.log.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].request_line, "POST /token?tenant=1 HTTP/1.1");
    assert_eq!(requests[0].headers["content-type"], "application/x-www-form-urlencoded");
    let basic = STANDARD.encode("call+gate:s3cret+of%2Fcallgate");
    assert_eq!(requests[0].headers["authorization"], format!("Basic {basic}"));
    let form = "grant_type=client_credentials&scope=content%3Aread+content%3Awrite";
    assert_eq!(requests[0].body, form);
}

#[tokio::test]
async fn client_credentials_can_be_sent_in_the_body() {
    let (issuer, service) = (issuer().await, service().await);
    let oauth = client(&issuer).client_auth(ClientAuth::Post);
    call(&ForwardApp::with(options(&service.url("/rpc")).oauth(oauth))).await;
    let requests = issuer.log.requests();
    assert!(!requests[0].headers.contains_key("authorization"));
    let form =
        "grant_type=client_credentials&client_id=call+gate&client_secret=s3cret+of%2Fcallgate";
    assert_eq!(requests[0].body, form);
    let public = client(&issuer)
        .client("public", None)
        .refresh_token(Arc::new(InMemoryRefreshToken::new(secret("r"))));
    call(&ForwardApp::with(options(&service.url("/rpc")).oauth(public))).await;
    let requests = issuer.log.requests();
    assert!(!requests[1].headers.contains_key("authorization"));
    assert_eq!(requests[1].body, "grant_type=refresh_token&refresh_token=r&client_id=public");
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires_without_delaying_calls() {
    let permits = Arc::new(Semaphore::new(0));
    let shared_permits = Arc::clone(&permits);
    let issuer = FakeService::start(move |request| {
        let token = format!("token-{}", request.number + 1);
        let response = FakeResponse::json(200, token_response(&token, 100));
        if request.number == 0 { response } else { response.after(&shared_permits) }
    })
    .await;
    let service = service().await;
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    assert_eq!(call(&app).await, "Bearer token-1");
    advance_clock(79).await;
    assert_eq!(call(&app).await, "Bearer token-1");
    assert_eq!(issuer.log.requests().len(), 1);
    advance_clock(2).await;
    // The renewal is in flight, and its reply is held back.
    assert_eq!(call(&app).await, "Bearer token-1");
    issuer.log.wait_for_requests(2).await;
    assert_eq!(call(&app).await, "Bearer token-1");
    permits.add_permits(1);
    while call(&app).await == "Bearer token-1" {}
    assert_eq!(call(&app).await, "Bearer token-2");
    assert_eq!(issuer.log.requests().len(), 2);
}

#[tokio::test]
async fn a_thousand_calls_at_expiry_make_one_token_request() {
    let (issuer, service) = (issuer().await, service().await);
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    assert_eq!(call(&app).await, "Bearer token-1");
    advance_clock(95).await;
    let all = join_all((0..1000).map(|_| call(&app))).await;
    assert!(all.iter().all(|sent| sent == "Bearer token-2"));
    assert_eq!(issuer.log.requests().len(), 2);
}

#[tokio::test]
async fn after_a_401_the_token_is_renewed_and_the_request_is_sent_once_more() {
    let accepted = Arc::new(Mutex::new(vec!["token-1".to_owned()]));
    let (issuer, service) = (issuer().await, service_that_accepts(Arc::clone(&accepted)).await);
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    assert_eq!(call(&app).await, "Bearer token-1");
    *accepted.lock().unwrap() = vec!["token-2".to_owned()];
    // The request is repeated even if the method has side effects: a 401 means that nothing was run.
    let (status, body) = app.invoke("order.delete", json!({"id": 1})).await;
    assert_eq!((status, &body["result"]), (200, &json!("Bearer token-2")));
    assert_eq!((issuer.log.requests().len(), service.log.requests().len()), (2, 3));
    let ids: Vec<_> =
        service.log.requests().iter().map(|request| request.body["id"].clone()).collect();
    assert_eq!(ids[1], ids[2]);
}

#[tokio::test]
async fn a_service_that_refuses_every_token_causes_only_one_renewal() {
    let (issuer, service) = (issuer().await, service_that_accepts(Arc::default()).await);
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    let (status, _) = app.invoke("order.delete", json!({"id": 1})).await;
    assert_ne!(status, 200);
    assert_eq!((issuer.log.requests().len(), service.log.requests().len()), (2, 2));
    // The token was renewed recently, so the next calls do not request another token.
    for _ in 0..3 {
        app.invoke("order.delete", json!({"id": 1})).await;
    }
    assert_eq!((issuer.log.requests().len(), service.log.requests().len()), (2, 5));
    assert_eq!(app.count(CallOutcome::Refused), 4);
}

#[tokio::test]
async fn concurrently_refused_calls_share_one_renewal() {
    let accepted = Arc::new(Mutex::new(vec!["token-1".to_owned()]));
    let (issuer, service) = (issuer().await, service_that_accepts(Arc::clone(&accepted)).await);
    for options in [with_oauth(&issuer, &service), with_oauth(&issuer, &service).batch()] {
        let app = ForwardApp::with(options);
        let before = issuer.log.requests().len();
        *accepted.lock().unwrap() = vec![format!("token-{}", before + 1)];
        call(&app).await;
        *accepted.lock().unwrap() = vec![format!("token-{}", before + 2)];
        join_all((0..50).map(|_| call(&app))).await;
        assert_eq!(issuer.log.requests().len(), before + 2);
    }
}

#[tokio::test]
async fn queries_are_sent_with_a_token() {
    let accepted = Arc::new(Mutex::new(vec!["token-2".to_owned()]));
    let (issuer, service) = (issuer().await, service_that_accepts(Arc::clone(&accepted)).await);
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    let text = app.forward.get(None).await.unwrap();
    assert!(text.contains("Bearer token-2"), "{text}");
    let params = serde_json::value::to_raw_value(&json!({})).unwrap();
    let result = app.forward.query("rpc.discover", &params).await.unwrap();
    assert_eq!(result.get(), "\"Bearer token-2\"");
    assert_eq!(issuer.log.requests().len(), 2);
}

#[tokio::test]
async fn a_rotated_refresh_token_is_written_to_its_file_before_the_access_token_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("refresh");
    std::fs::write(&path, "refresh-0\n").unwrap();
    let issuer = FakeService::start(|request| {
        let number = request.number;
        let expected = format!("refresh-{number}");
        assert_eq!(field(request, "refresh_token"), Some(expected));
        let (token, refresh) = (format!("token-{}", number + 1), format!("refresh-{}", number + 1));
        FakeResponse::json(200, rotated_response(&token, &refresh))
    })
    .await;
    let file = path.clone();
    let service =
        FakeService::start(move |request| request.result(std::fs::read_to_string(&file).unwrap()))
            .await;
    let oauth = client(&issuer).refresh_token(Arc::new(RefreshTokenFile::new(&path)));
    let app = ForwardApp::with(options(&service.url("/rpc")).oauth(oauth));
    assert_eq!(call(&app).await, "refresh-1\n");
    advance_clock(95).await;
    assert_eq!(call(&app).await, "refresh-2\n");
    // A token that an administrator writes is used from the next renewal on.
    std::fs::write(&path, "refresh-2\n").unwrap();
    advance_clock(95).await;
    assert_eq!(call(&app).await, "refresh-3\n");
}

#[tokio::test]
async fn a_rotated_refresh_token_without_a_file_is_used_and_logged_once() {
    let (log, _guard) = crate::log::capture_logs();
    let issuer = FakeService::start(|request| {
        let number = request.number;
        assert_eq!(field(request, "refresh_token"), Some(format!("refresh-{number}")));
        FakeResponse::json(200, rotated_response("token", &format!("refresh-{}", number + 1)))
    })
    .await;
    let service = service().await;
    let store = Arc::new(InMemoryRefreshToken::new(secret("refresh-0")));
    let app =
        ForwardApp::with(options(&service.url("/rpc")).oauth(client(&issuer).refresh_token(store)));
    for _ in 0..3 {
        call(&app).await;
        advance_clock(95).await;
    }
    let log = log.text();
    assert_eq!(log.matches("to keep it after a restart").count(), 1, "{log}");
    assert!(!log.contains("refresh-1") && !log.contains(SECRET), "{log}");
}

#[tokio::test]
async fn a_call_is_not_sent_again_after_a_401_with_a_json_rpc_reply() {
    let issuer = issuer().await;
    for reply in [json!({"error": {"code": -32001, "message": "No session"}}), json!({"result": 1})]
    {
        let service = FakeService::start(move |request| {
            let mut reply = reply.clone();
            reply["jsonrpc"] = json!("2.0");
            reply["id"] = request.body["id"].clone();
            FakeResponse::json(401, reply)
        })
        .await;
        let app = ForwardApp::with(with_oauth(&issuer, &service));
        let (status, _) = app.invoke("order.delete", json!({"id": 1})).await;
        assert_ne!(status, 200);
        assert_eq!(service.log.requests().len(), 1, "the method may have run");
    }
}

#[tokio::test]
async fn a_failed_renewal_is_reported_with_its_reason() {
    let issuer = FakeService::start(|request| match request.number {
        0 => FakeResponse::json(200, token_response("token-1", 100)),
        _ => FakeResponse::json(500, json!({})),
    })
    .await;
    let service = service_that_accepts(Arc::default()).await;
    let app = ForwardApp::with(with_oauth(&issuer, &service));
    for _ in 0..3 {
        let (_, body) = app.invoke("order.get", json!({"id": 1})).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("authorization server"), "{message}");
    }
}
