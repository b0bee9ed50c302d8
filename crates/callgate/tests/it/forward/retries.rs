//! Retries. A request that was not sent is retried once. A request of a read-only method is also retried once if the
//! connection closed before the first byte of the response. No request is retried after a timeout.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use callgate::forward::CallOutcome;
use serde_json::json;

use crate::forward::ForwardApp;
use callgate_test_support::fake_service::{FakeResponse, FakeService, unused_address};

#[tokio::test]
async fn a_read_only_request_is_retried_once() {
    let fake = FakeService::start(|request| {
        if request.number == 0 { FakeResponse::close() } else { request.result(json!(1)) }
    })
    .await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": 1}));
    assert_eq!((fake.log.requests().len(), app.retries()), (2, 1));

    let closing = FakeService::start(|_| FakeResponse::close()).await;
    let app = ForwardApp::new(&closing.url("/rpc"));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
    assert_eq!((closing.log.requests().len(), app.count(CallOutcome::Broken)), (2, 1));
}

#[tokio::test]
async fn a_destructive_request_is_not_retried() {
    let fake = FakeService::start(|_| FakeResponse::close()).await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.0, 500);
    assert_eq!((fake.log.requests().len(), app.retries()), (1, 0));
}

#[tokio::test]
async fn a_method_with_guessed_safety_is_not_retried() {
    let fake = FakeService::start(|_| FakeResponse::close()).await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    let (text, is_error) = app.text("order_find", json!({})).await;
    assert!(
        is_error && text.contains("The method may have run: check before you try again."),
        "{text}"
    );
    assert_eq!((fake.log.requests().len(), app.retries()), (1, 0));
    // A GET request is refused, because a proxy may repeat it.
    let query = "%7B%22jsonrpc%22:%222.0%22,%22method%22:%22order.find%22,%22id%22:1%7D";
    let path = format!("/mcp/tools/order.find?query={query}");
    let get = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let (status, reply) = app.send(get).await;
    assert_eq!((status, &reply["error"]["code"]), (405, &json!(-32600)), "{reply}");
    assert_eq!(fake.log.requests().len(), 1);
}

#[tokio::test]
async fn no_request_is_retried_after_a_byte_of_a_response() {
    for partial_response in
        ["H", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
    {
        let fake =
            FakeService::start(move |_| FakeResponse::raw(partial_response).and_close()).await;
        let app = ForwardApp::new(&fake.url("/rpc"));
        assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
        assert_eq!((fake.log.requests().len(), app.retries()), (1, 0), "{partial_response}");
    }
}

#[tokio::test]
async fn no_request_is_retried_after_a_timeout() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let app = ForwardApp::with_timeout(&fake.url("/rpc"), Duration::from_millis(500));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
    assert_eq!(app.count(CallOutcome::TimedOut), 1);
    fake.log.wait_for_disconnects(1).await;
    assert_eq!((fake.log.requests().len(), app.retries()), (1, 0));
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_retried() {
    let app = ForwardApp::new(&format!("http://{}/", unused_address().await));
    assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.0, 500);
    assert_eq!((app.count(CallOutcome::Unreachable), app.retries()), (1, 1));
}

#[tokio::test]
async fn a_connection_that_closed_while_idle_does_not_fail_a_call() {
    let fake = FakeService::start(|request| request.result(json!(1)).and_close()).await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    for id in 0..10 {
        assert_eq!(app.invoke("order.delete", json!({"id": id})).await.0, 200, "{id}");
        // Waits until the service has closed the connection.
        fake.log.wait_for_closed(id + 1).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(fake.log.requests().len(), 10, "each call ran once");
}
