//! How each endpoint reports results and failures of a service.

use serde_json::json;

use crate::forward::{ForwardApp, without_error_id};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

fn error() -> serde_json::Value {
    json!({"code": 4711, "message": "the order is gone", "data": {"since": "May"}})
}

#[tokio::test]
async fn errors_of_the_service_are_passed_on() {
    // Services such as aria2 send errors with these statuses.
    for status in [200, 400, 404, 500] {
        let fake = FakeService::start(move |request| request.error(status, error())).await;
        let app = ForwardApp::new(&fake.url("/rpc"));
        let (text, is_error) = app.text("order_get", json!({"id": 1})).await;
        assert_eq!(text, "the order is gone (code 4711)\n{\"since\":\"May\"}");
        assert!(is_error);
        let (rest_status, body) = app.invoke("order.get", json!({"id": 1})).await;
        assert_eq!(rest_status, 500);
        assert_eq!(
            body["error"],
            json!({"code": "execution_error", "message": "the order is gone", "data": error()})
        );
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "order.get", "params": [1]});
        let (_, reply) = app.post("/jsonrpc", call).await;
        assert_eq!(reply, json!({"jsonrpc": "2.0", "id": 5, "error": error()}));
    }
}

#[tokio::test]
async fn failures_have_a_message_and_an_id_on_each_endpoint() {
    let fake =
        FakeService::start(|_| FakeResponse::text(502, "text/html", "<h1>Bad gateway</h1>")).await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    let message = "The service behind this tool responded with HTTP 502. The method only reads, so the call can be \
                 repeated. The service's response is in Callgate's log.";
    let (text, is_error) = app.text("order_get", json!({"id": 1})).await;
    assert_eq!(text, format!("{message} (error id ID)"));
    assert!(is_error);
    let (status, body) = app.invoke("order.get", json!({"id": 1})).await;
    assert_eq!((status, &body["error"]["code"]), (500, &json!("execution_error")));
    assert_eq!(body["error"]["message"], message);
    assert_eq!(without_error_id(body["error"]["error_id"].as_str().unwrap()), "ID");
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "order.get", "params": [1]});
    let (_, reply) = app.post("/jsonrpc", call).await;
    assert_eq!(reply["error"]["code"], -32603);
    assert_eq!(reply["error"]["message"], message);
    assert_eq!(without_error_id(reply["error"]["data"]["error_id"].as_str().unwrap()), "ID");
}

#[tokio::test]
async fn a_denial_of_drupal_is_passed_on_to_the_agent() {
    let data = "Access Denied: The 'use jsonrpc services' permission is required.";
    let fake = FakeService::start(move |_| {
        let error = json!({"code": -32600, "message": "Invalid Request", "data": data});
        FakeResponse::json(200, json!({"jsonrpc": "2.0", "error": error, "id": null}))
    })
    .await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    let (text, is_error) = app.text("order_get", json!({"id": 1})).await;
    assert_eq!(text, format!("Invalid Request (code -32600)\n\"{data}\""));
    assert!(is_error);
    assert_eq!(app.count(callgate::forward::CallOutcome::Denied), 1);
}
