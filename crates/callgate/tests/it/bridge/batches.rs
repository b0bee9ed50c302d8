//! Several requests in one line, as in revision 2025-03-26: each is answered once.

use std::sync::Mutex;

use serde_json::{Value, json};

use crate::bridge::Client;
use callgate_test_support::fake_service::{FakeResponse, FakeService};

fn ping(id: impl Into<Value>) -> Value {
    let id: Value = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// Returns the ids and codes of the next errors, sorted by id.
async fn errors(client: &mut Client, count: usize) -> Vec<(Value, Value)> {
    let mut found = Vec::new();
    for _ in 0..count {
        let message = client.next().await;
        found.push((message["id"].clone(), message["error"]["code"].clone()));
    }
    found.sort_by_key(|(id, _)| id.to_string());
    found
}

#[tokio::test]
async fn batches_pass_as_they_are() {
    let server = FakeService::start(|seen| {
        let Some(items) = seen.body.as_array() else { return FakeResponse::empty(202) };
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
    let mut client = Client::start(&server.url("/mcp"));
    let request = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/progress"});
    client.send(json!([request(1), notification, request(2)])).await;
    assert_eq!(client.next().await.as_array().unwrap().len(), 2);
    client.send(json!([notification])).await;
    client.send(json!([request(3)])).await;
    assert_eq!(client.next().await[0]["id"], 3);
}

#[tokio::test]
async fn a_batch_that_is_not_sent_has_an_error_for_each_of_its_ids() {
    let server = FakeService::start(|seen| seen.result(json!({}))).await;
    let mut client = Client::start(&server.url("/mcp"));
    client.send(json!([])).await;
    assert_eq!(errors(&mut client, 1).await, [(Value::Null, json!(-32600))]);
    client.send(json!([ping(1), ping(2), ping(1)])).await;
    let both = [(json!(1), json!(-32600)), (json!(2), json!(-32600))];
    assert_eq!(errors(&mut client, 2).await, both);
    client.send(json!([ping(1), 5, {"jsonrpc": "2.0", "id": 2}])).await;
    assert_eq!(errors(&mut client, 2).await, both);
    client.send(json!([5])).await;
    assert_eq!(errors(&mut client, 1).await, [(Value::Null, json!(-32600))]);
    assert!(client.leave().await.is_empty());
    assert!(server.log.requests().is_empty());
}

#[tokio::test]
async fn a_batch_with_an_id_under_way_leaves_that_one_alone() {
    let (stream, opened) = FakeResponse::stream();
    let opened = Mutex::new(Some(opened));
    let server = FakeService::start(move |_| opened.lock().unwrap().take().unwrap()).await;
    let mut client = Client::start(&server.url("/mcp"));
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
    let nameless = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let one = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    for (status, body, rest) in [
        (400, nameless.clone(), 2),
        (200, nameless.clone(), 2),
        (200, json!([nameless]), 2),
        (200, json!([one, nameless, one]), 1),
    ] {
        let server = FakeService::start(move |_| FakeResponse::json(status, &body)).await;
        let mut client = Client::start(&server.url("/mcp"));
        client.send(json!([ping(1), ping(2)])).await;
        if rest == 1 {
            assert_eq!(client.next().await, json!([one]), "the server sent it twice");
        }
        for _ in 0..rest {
            assert_eq!(client.next().await["error"], error);
        }
        assert!(client.leave().await.is_empty());
    }
}
