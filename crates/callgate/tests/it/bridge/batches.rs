//! Several requests in one line, as in revision 2025-03-26: each is answered once.

use std::sync::Mutex;

use serde_json::{Value, json};

use crate::bridge::BridgeClient;
use callgate_test_support::fake_service::{FakeResponse, FakeService};

fn ping(id: impl Into<Value>) -> Value {
    let id: Value = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// Returns the ids and codes of the next errors, sorted by id.
async fn errors(client: &mut BridgeClient, count: usize) -> Vec<(Value, Value)> {
    let mut errors = Vec::new();
    for _ in 0..count {
        let message = client.next().await;
        errors.push((message["id"].clone(), message["error"]["code"].clone()));
    }
    errors.sort_by_key(|(id, _)| id.to_string());
    errors
}

#[tokio::test]
async fn a_batch_is_sent_and_answered_as_a_batch() {
    let server = FakeService::start(|received| {
        let Some(items) = received.body.as_array() else { return FakeResponse::empty(202) };
        let answers: Vec<Value> = items
            .iter()
            .filter(|item| item.get("id").is_some())
            .map(|item| json!({"jsonrpc": "2.0", "id": item["id"], "result": {}}))
            .collect();
        if answers.is_empty() {
            FakeResponse::empty(202)
        } else {
            FakeResponse::json(200, json!(answers))
        }
    })
    .await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    let request = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/progress"});
    client.send(json!([request(1), notification, request(2)])).await;
    assert_eq!(client.next().await.as_array().unwrap().len(), 2);
    client.send(json!([notification])).await;
    client.send(json!([request(3)])).await;
    assert_eq!(client.next().await[0]["id"], 3);
}

#[tokio::test]
async fn an_invalid_batch_is_rejected_with_an_error_for_each_id() {
    let server = FakeService::start(|request| request.result(json!({}))).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.send(json!([])).await;
    assert_eq!(errors(&mut client, 1).await, [(Value::Null, json!(-32600))]);
    client.send(json!([ping(1), ping(2), ping(1)])).await;
    let expected = [(json!(1), json!(-32600)), (json!(2), json!(-32600))];
    assert_eq!(errors(&mut client, 2).await, expected);
    client.send(json!([ping(1), 5, {"jsonrpc": "2.0", "id": 2}])).await;
    assert_eq!(errors(&mut client, 2).await, expected);
    client.send(json!([5])).await;
    assert_eq!(errors(&mut client, 1).await, [(Value::Null, json!(-32600))]);
    assert!(client.close().await.is_empty());
    assert!(server.log.requests().is_empty());
}

#[tokio::test]
async fn a_batch_with_an_id_in_flight_is_rejected_without_ending_that_request() {
    let (stream, response) = FakeResponse::stream();
    let response = Mutex::new(Some(response));
    let server = FakeService::start(move |_| response.lock().unwrap().take().unwrap()).await;
    let mut client = BridgeClient::start(&server.url("/mcp"));
    client.send(ping("first")).await;
    client.send(json!([ping("first"), ping("other")])).await;
    assert_eq!(errors(&mut client, 1).await, [(json!("other"), json!(-32600))]);
    client.send(ping("first")).await;
    assert_eq!(errors(&mut client, 1).await, [(Value::Null, json!(-32600))]);
    let answer = json!({"jsonrpc": "2.0", "id": "first", "result": {}});
    stream.send(format!("data: {answer}\n\n")).await.unwrap();
    assert_eq!(client.answer("first").await, answer);
    assert_eq!(server.log.requests().len(), 1);
}

#[tokio::test]
async fn an_error_for_a_batch_answers_each_request() {
    let error = json!({"code": -32600, "message": "no batches here"});
    let error_without_id = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    for (status, body, error_count) in [
        (400, error_without_id.clone(), 2),
        (200, error_without_id.clone(), 2),
        (200, json!([error_without_id]), 2),
        (200, json!([response, error_without_id, response]), 1),
    ] {
        let server = FakeService::start(move |_| FakeResponse::json(status, &body)).await;
        let mut client = BridgeClient::start(&server.url("/mcp"));
        client.send(json!([ping(1), ping(2)])).await;
        if error_count == 1 {
            assert_eq!(client.next().await, json!([response]), "the server sent it twice");
        }
        for _ in 0..error_count {
            assert_eq!(client.next().await["error"], error);
        }
        assert!(client.close().await.is_empty());
    }
}
