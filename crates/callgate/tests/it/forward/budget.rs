//! The results of all calls share one memory budget.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use callgate::Callgate;
use callgate::forward::{CallOutcome, Forward, ForwardLimits, ForwardOptions};
use callgate::model::Method;
use callgate::upstream::{BoxFuture, Call, CallError, CallOutput, Upstream};
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use crate::forward::{ForwardApp, limits, methods, options};
use crate::log::capture_logs;
use callgate_test_support::fake_service::{FakeResponse, FakeService};

/// Size of the result of the service and of the function.
const RESULT: usize = 600_000;
/// Enough for one result, but not for two.
const BUDGET: usize = 1_000_000;

/// An upstream in this process that does not count its results.
#[derive(Debug)]
struct InProcess;

impl Upstream for InProcess {
    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let result = serde_json::value::to_raw_value(&"x".repeat(RESULT)).unwrap();
        Box::pin(std::future::ready(Ok(result.into())))
    }
}

fn options_with_large_results(url: &str) -> ForwardOptions {
    options(url).limits(ForwardLimits { result_bytes: BUDGET, ..limits() })
}

fn app(options: ForwardOptions) -> ForwardApp {
    let forward = Arc::new(Forward::new("shop", options.clone()).unwrap());
    let gateway = Callgate::builder()
        .shared_upstream("shop", Arc::clone(&forward) as _)
        .upstream("other", Forward::new("other", options).unwrap())
        .upstream("inside", InProcess)
        .upstream_methods(methods())
        .upstream_methods([
            Method::new("other.get".parse().unwrap()).upstream("other"),
            Method::new("much".parse().unwrap()).upstream("inside"),
        ])
        .max_in_flight_bytes(BUDGET)
        .build()
        .unwrap();
    ForwardApp { gateway, forward }
}

/// Returns the start of a reply whose body is not read.
async fn reply(app: &ForwardApp, path: &str, body: serde_json::Value) -> axum::response::Response {
    let request =
        Request::post(path).header("host", "localhost").body(Body::from(body.to_string())).unwrap();
    app.gateway.router().oneshot(request).await.unwrap()
}

fn in_flight(app: &ForwardApp) -> usize {
    app.gateway.gateway().in_flight_bytes().0
}

#[tokio::test]
async fn a_result_counts_against_the_budget_until_its_reply_is_sent_on_every_endpoint() {
    let fake = FakeService::start(|received| received.result(json!("x".repeat(RESULT)))).await;
    let app = app(options_with_large_results(&fake.url("/rpc")));
    let (id, params) = ("order.get", json!({"id": 1}));
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": id, "params": params});
    let mcp = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "order_get", "arguments": params}});
    for (path, body) in [
        ("/mcp/tools/invoke", json!({"name": id, "arguments": params})),
        ("/mcp/tools/order.get", rpc.clone()),
        ("/jsonrpc", rpc.clone()),
        ("/jsonrpc", json!([rpc])),
        ("/mcp", mcp),
        ("/mcp/tools/invoke", json!({"name": "much", "arguments": {}})),
    ] {
        let unread = reply(&app, path, body).await;
        assert!(in_flight(&app) >= RESULT, "{path}");
        // Results of another upstream, or of this program itself, do not fit either.
        let (_, refused) = app.invoke("other.get", json!({})).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("Callgate has no memory left"), "{message}");
        let (_, refused) = app.invoke("much", json!({})).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("no memory is left for its result"), "{message}");
        let body = unread.into_body().collect().await.unwrap().to_bytes();
        assert!(body.len() > RESULT, "{path}");
        drop(body);
        assert_eq!(in_flight(&app), 0, "{path}");
    }
    assert_eq!(app.count(CallOutcome::Result), 5);
}

#[tokio::test]
async fn the_bytes_of_a_call_are_released_when_it_fails_or_is_dropped() {
    // The response announces more bytes than it has, so that reading never ends.
    let start =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {BUDGET}\r\n\r\n{}", "x".repeat(RESULT));
    let fake = FakeService::start(move |received| match received.number {
        0 => FakeResponse::raw(start.clone()),
        _ => FakeResponse::raw(start.clone()).and_close(),
    })
    .await;
    let app = Arc::new(app(options_with_large_results(&fake.url("/rpc"))));
    let calling = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.invoke("order.delete", json!({"id": 1})).await }
    });
    while in_flight(&app) < RESULT {
        assert!(!calling.is_finished());
        tokio::task::yield_now().await;
    }
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    assert_eq!(in_flight(&app), 0);
    app.invoke("order.delete", json!({"id": 1})).await;
    assert_eq!((in_flight(&app), app.count(CallOutcome::Truncated)), (0, 1));
}

#[test]
fn a_result_limit_that_exceeds_the_share_of_one_caller_is_logged() {
    let (log, _guard) = capture_logs();
    app(options("http://127.0.0.1:1/rpc")
        .limits(ForwardLimits { result_bytes: 750_000, ..limits() }));
    assert_eq!(log.text().matches("one caller can use at most three quarters").count(), 0);
    app(options_with_large_results("http://127.0.0.1:1/rpc"));
    assert_eq!(
        log.text().matches("one caller can use at most three quarters").count(),
        2,
        "{}",
        log.text()
    );
}

#[tokio::test]
async fn the_reply_to_a_batch_counts_against_the_budget_as_a_whole() {
    let fake = FakeService::start(|received| match received.body.as_array() {
        Some(requests) => {
            let reply = |request: &serde_json::Value| json!({"result": "x".repeat(RESULT), "id": request["id"]});
            FakeResponse::json(200, requests.iter().map(reply).collect::<serde_json::Value>())
        }
        None => received.result(json!("x".repeat(RESULT))),
    })
    .await;
    let app = app(options_with_large_results(&fake.url("/rpc")).batch());
    let call = || app.invoke("order.get", json!({"id": 1}));
    let (first, second) = tokio::join!(call(), call());
    assert_eq!((first.0, second.0, app.count(CallOutcome::OverBudget)), (500, 500, 2));
    assert_eq!((call().await.0, fake.log.requests().len()), (200, 2));
    assert_eq!(in_flight(&app), 0);
}

#[tokio::test]
async fn limits_of_a_tool_apply_to_the_results_of_a_service() {
    let fake = FakeService::start(|received| received.result(json!("x".repeat(RESULT)))).await;
    let app = app(options_with_large_results(&fake.url("/rpc")));
    let mut settings = callgate::gateway::Settings::default();
    settings.set("limit_tools", "order.* 1000 result bytes, *.get 5 argument bytes").unwrap();
    app.gateway.gateway().set_settings(Arc::new(settings.clone()));
    let (status, reply) = app.invoke("order.get", json!({"id": 12})).await;
    assert_eq!((status, &reply["error"]["code"]), (413, &json!("arguments_too_large")));
    assert_eq!(fake.log.requests().len(), 0);
    settings.set("limit_tools", "order.* 1000 result bytes").unwrap();
    app.gateway.gateway().set_settings(Arc::new(settings));
    let (text, is_error) = app.text("order_get", json!({"id": 1})).await;
    assert!(text.contains("more than 1000 bytes, which is the limit of this tool"), "{text}");
    assert!(is_error);
    assert_eq!(app.count(CallOutcome::TooLarge), 1);
    assert_eq!(in_flight(&app), 0);
}
