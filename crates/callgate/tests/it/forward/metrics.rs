//! Metrics in the text format of Prometheus.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use callgate::Callgate;
use callgate::forward::Forward;
use callgate::gateway::Gateway;
use callgate::http::HttpOptions;
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use crate::forward::{ForwardApp, ada, methods, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

fn app(url: &str) -> ForwardApp {
    let forward = Arc::new(Forward::new("shop", options(url)).unwrap());
    let gateway = Callgate::builder()
        .shared_upstream("shop", Arc::clone(&forward) as _)
        .upstream("a\"b\\c", Forward::new("odd", options(url)).unwrap())
        .upstream_methods(methods())
        .http_options(HttpOptions { metrics: true, ..HttpOptions::default() })
        .build()
        .unwrap();
    ForwardApp { gateway, forward }
}

async fn page(app: &ForwardApp) -> String {
    let request = Request::get("/metrics").header("host", "localhost").body(Body::empty()).unwrap();
    let response = app.gateway.router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

fn calls_in_progress(gateway: &Gateway) -> Vec<(String, u64)> {
    let states = gateway.upstream_states().into_iter();
    states.map(|state| (state.name.to_string(), state.counters.under_way)).collect()
}

#[tokio::test]
async fn calls_are_counted_by_upstream_and_outcome() {
    let fake = FakeService::start(|request| match request.number {
        0 => request.result(json!(1)),
        1 => request.error(200, json!({"code": 1, "message": "no"})),
        2 => FakeResponse::close(),
        _ => request.result(json!(2)),
    })
    .await;
    let app = app(&fake.url("/rpc"));
    for _ in 0..3 {
        let _ = app.gateway.as_caller(ada()).call("order.get", json!({"id": 1})).await;
    }
    let page = page(&app).await;
    // Most of the outcomes did not occur.
    let lines: Vec<&str> =
        page.lines().filter(|line| !(line.contains("outcome=") && line.ends_with(" 0"))).collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert!(!page.contains("ada"));
}

#[tokio::test]
async fn calls_in_progress_are_counted_until_they_end_or_are_dropped() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let app = Arc::new(app(&fake.url("/rpc")));
    let calling = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.invoke("order.get", json!({"id": 1})).await }
    });
    fake.log.wait_for_requests(1).await;
    let expected = |count| vec![("a\"b\\c".to_owned(), 0), ("shop".to_owned(), count)];
    assert_eq!(calls_in_progress(app.gateway.gateway()), expected(1));
    calling.abort();
    fake.log.wait_for_disconnects(1).await;
    assert!(calling.await.unwrap_err().is_cancelled());
    assert_eq!(calls_in_progress(app.gateway.gateway()), expected(0));
}
