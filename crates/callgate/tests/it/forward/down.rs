//! A service that becomes unreachable and recovers.

use std::time::Duration;

use callgate::forward::{BreakerLimits, CallOutcome, ForwardLimits};
use serde_json::json;
use tokio::net::TcpListener;

use crate::forward::{ForwardApp, limits, options};
use callgate_test_support::fake_service::{FakeService, unused_address};

fn app(url: &str, pause: Duration) -> ForwardApp {
    let breaker = BreakerLimits { failures: 2, pause };
    ForwardApp::with(options(url).limits(ForwardLimits { breaker, ..limits() }))
}

#[tokio::test]
async fn calls_to_an_unreachable_service_are_suspended_and_readyz_names_it() {
    let app = app(&format!("http://{}/", unused_address().await), Duration::from_hours(1));
    assert_eq!(app.ready().await.get("upstreams_down"), None);
    for _ in 0..2 {
        assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
    }
    let (text, _) = app.text("order_get", json!({"id": 1})).await;
    insta::assert_snapshot!(text, @"The service behind this tool cannot be reached, and calls to it are suspended for some seconds. Nothing was run: try again later, or tell an administrator. (error id ID)");
    assert_eq!((app.count(CallOutcome::Unreachable), app.count(CallOutcome::Down)), (2, 1));
    let ready = app.ready().await;
    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["upstreams_down"], json!(["shop"]));
}

#[tokio::test]
async fn a_call_after_the_pause_detects_that_the_service_has_recovered() {
    let address = unused_address().await;
    let app = app(&format!("http://{address}/"), Duration::ZERO);
    for _ in 0..3 {
        assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
    }
    assert_eq!(app.ready().await["upstreams_down"], json!(["shop"]));
    let listener = TcpListener::bind(address).await.unwrap();
    let _fake = FakeService::on(listener, |request| request.result(json!("back")));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": "back"}));
    assert_eq!(app.ready().await.get("upstreams_down"), None);
}
