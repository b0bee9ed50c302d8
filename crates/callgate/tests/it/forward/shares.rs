//! Concurrent calls of a service are shared among callers.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use callgate::forward::ForwardLimits;
use callgate::{Caller, Grants, User};
use callgate_test_support::fake_service::{FakeResponse, FakeService};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::forward::{ForwardApp, ada, limits, options};

fn bob() -> Caller {
    Caller::user(User { id: 8, name: "bob".to_owned(), role: None }, Grants::default())
}

fn calls(count: usize) -> Value {
    let call =
        |id| json!({"jsonrpc": "2.0", "id": id, "method": "order.get", "params": {"id": id}});
    (0..count).map(call).collect()
}

async fn post(app: &ForwardApp, caller: Caller, body: &Value) -> Value {
    let request = Request::post("/jsonrpc").header("host", "localhost").extension(caller);
    app.send(request.body(Body::from(body.to_string())).unwrap()).await.1
}

#[tokio::test]
async fn a_batch_of_slow_calls_does_not_block_other_callers() {
    let permits = Arc::new(Semaphore::new(0));
    let fake = FakeService::start({
        let permits = Arc::clone(&permits);
        move |request| {
            let reply = request.result("ok");
            if request.body["params"]["id"] == 1000 { reply } else { reply.after(&permits) }
        }
    })
    .await;
    let options = options(&fake.url("/rpc")).limits(ForwardLimits { concurrent: 8, ..limits() });
    let app = Arc::new(ForwardApp::with(options));
    let batch = tokio::spawn({
        let app = Arc::clone(&app);
        async move { post(&app, ada(), &calls(12)).await }
    });
    fake.log.wait_for_requests(6).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "order.get", "params": {"id": 1000}});
    assert_eq!(post(&app, bob(), &call).await["result"], "ok");
    assert_eq!(post(&app, Caller::anonymous(), &call).await["result"], "ok");
    assert_eq!(fake.log.requests().len(), 8, "the other calls of ada's batch wait");
    permits.add_permits(100);
    let replies = batch.await.unwrap();
    let results = replies.as_array().unwrap().iter().filter(|reply| reply["result"] == "ok");
    assert_eq!(results.count(), 12);
}

#[tokio::test]
async fn a_batch_to_a_service_contains_calls_of_only_one_caller() {
    let permits = Arc::new(Semaphore::new(0));
    let fake = FakeService::start({
        let permits = Arc::clone(&permits);
        move |received| match received.body.as_array() {
            Some(requests) => {
                let reply = |request: &Value| json!({"result": "ok", "id": request["id"]});
                FakeResponse::json(200, requests.iter().map(reply).collect::<Value>())
            }
            None => received.result("ok").after(&permits),
        }
    })
    .await;
    let app = Arc::new(ForwardApp::with(options(&fake.url("/rpc")).batch()));
    // Two requests are in flight, so that the next calls are collected.
    let first = [ada(), bob()].map(|caller| {
        let app = Arc::clone(&app);
        tokio::spawn(async move { post(&app, caller, &calls(1)).await })
    });
    fake.log.wait_for_requests(2).await;
    let (calls_of_ada, calls_of_bob) = (calls(3), calls(2));
    let (ada, bob) =
        tokio::join!(post(&app, ada(), &calls_of_ada), post(&app, bob(), &calls_of_bob));
    assert_eq!((ada.as_array().unwrap().len(), bob.as_array().unwrap().len()), (3, 2));
    permits.add_permits(2);
    for call in first {
        call.await.unwrap();
    }
    let sizes = fake
        .log
        .requests()
        .iter()
        .filter_map(|received| Some(received.body.as_array()?.len()))
        .collect::<Vec<_>>();
    assert_eq!(sizes, [3, 2]);
}

#[tokio::test]
async fn the_waiting_calls_of_a_caller_are_limited() {
    let permits = Arc::new(Semaphore::new(0));
    let fake = FakeService::start({
        let permits = Arc::clone(&permits);
        move |request| request.result("ok").after(&permits)
    })
    .await;
    let options = options(&fake.url("/rpc")).limits(ForwardLimits { concurrent: 1, ..limits() });
    let app = Arc::new(ForwardApp::with(options));
    let batches: Vec<_> = std::iter::repeat_with(|| {
        let app = Arc::clone(&app);
        tokio::spawn(async move { post(&app, ada(), &calls(68)).await })
    })
    .take(3)
    .collect();
    fake.log.wait_for_requests(1).await;
    permits.add_permits(1000);
    let mut replies = Value::Array(Vec::new());
    for batch in batches {
        replies.as_array_mut().unwrap().extend(batch.await.unwrap().as_array().unwrap().clone());
    }
    let errors: Vec<_> = replies
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["error"]["message"].as_str())
        .collect();
    assert_eq!(errors.len(), 3, "of 204 calls, 1 runs and 200 wait");
    assert!(errors[0].contains("too many of your calls are waiting"), "{}", errors[0]);
}
