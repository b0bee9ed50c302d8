//! Calls that are sent together as a batch.

use std::sync::Arc;

use callgate::forward::{
    CallOutcome, CallerHeaders, CredentialLocation, CredentialOptions, ForwardLimits, IdFormat,
    MissingCredential, header_name,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::forward::credentials::{FixedCredentials, user};
use crate::forward::{ForwardApp, ada, limits, options};
use crate::log::capture_logs;
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

fn app(fake: &FakeService) -> ForwardApp {
    ForwardApp::with(options(&fake.url("/rpc")).batch())
}

/// Replies to one request, or to a batch in reverse order.
fn answer(received: &ReceivedRequest, reply: impl Fn(&Value) -> Value) -> FakeResponse {
    let reply = |request: &Value| {
        let mut reply = reply(request);
        if reply.get("id").is_none() {
            reply["id"] = request["id"].clone();
        }
        reply
    };
    match received.body.as_array() {
        Some(requests) => {
            FakeResponse::json(200, requests.iter().rev().map(reply).collect::<Value>())
        }
        None => FakeResponse::json(200, reply(&received.body)),
    }
}

fn echo(received: &ReceivedRequest) -> FakeResponse {
    answer(received, |request| json!({"jsonrpc": "2.0", "result": request["params"]["id"]}))
}

/// Returns the number of calls in each request; 0 for a request that is not a batch.
fn sizes(fake: &FakeService) -> Vec<usize> {
    fake.log
        .requests()
        .iter()
        .map(|received| received.body.as_array().map_or(0, Vec::len))
        .collect()
}

async fn get_all(app: &ForwardApp, count: i32) -> Vec<Value> {
    let calls = (0..count).map(|id| app.invoke("order.get", json!({"id": id})));
    join_all(calls).await.into_iter().map(|(_, body)| body["result"].clone()).collect()
}

#[tokio::test]
async fn concurrent_calls_are_sent_as_one_batch() {
    for ids in [IdFormat::String, IdFormat::Number] {
        let fake = FakeService::start(echo).await;
        let mut options = options(&fake.url("/rpc")).batch();
        options.id_format = ids;
        let app = ForwardApp::with(options);
        assert_eq!(get_all(&app, 5).await, [0, 1, 2, 3, 4]);
        assert_eq!(sizes(&fake), [5], "{ids:?}");
        assert_eq!(app.count(CallOutcome::Result), 5);
    }
}

#[tokio::test]
async fn a_single_call_is_sent_as_a_plain_request() {
    let fake = FakeService::start(echo).await;
    let app = app(&fake);
    for id in 0..3 {
        assert_eq!(app.invoke("order.get", json!({"id": id})).await.1, json!({"result": id}));
    }
    assert_eq!(sizes(&fake), [0, 0, 0]);
    assert_eq!(fake.log.connections(), 1);
}

#[tokio::test]
async fn a_json_rpc_batch_is_forwarded_as_one_batch() {
    let fake = FakeService::start(echo).await;
    let app = app(&fake);
    let call = |id| json!({"jsonrpc": "2.0", "id": id, "method": "order.get", "params": [id]});
    let (_, replies) = app.post("/jsonrpc", (1..4).map(call).collect()).await;
    let results: Vec<&Value> = replies.as_array().unwrap().iter().map(|it| &it["result"]).collect();
    assert_eq!(results, [1, 2, 3]);
    assert_eq!(sizes(&fake), [3]);
}

#[tokio::test]
async fn batches_are_limited_in_calls_and_bytes() {
    let fake = FakeService::start(echo).await;
    let limits = ForwardLimits { concurrent: 1000, ..limits() };
    let app = ForwardApp::with(options(&fake.url("/rpc")).limits(limits).batch());
    assert_eq!(get_all(&app, 350).await.len(), 350);
    let sizes = sizes(&fake);
    assert!(sizes.iter().all(|size| *size <= 100), "{sizes:?}");
    assert!(sizes.len() < 50, "{sizes:?}");
    assert_eq!(app.count(CallOutcome::Result), 350);

    let fake = FakeService::start(echo).await;
    let app = self::app(&fake);
    let note = "n".repeat(400_000);
    let calls = (0..5).map(|id| app.invoke("order.get", json!({"id": id, "note": note})));
    assert!(join_all(calls).await.iter().all(|(status, _)| *status == 200));
    let lengths: Vec<usize> = fake
        .log
        .requests()
        .iter()
        .map(|received| received.headers["content-length"].parse().unwrap())
        .collect();
    assert_eq!(lengths.len(), 3);
    assert!(lengths.iter().all(|length| *length < 1_100_000), "{lengths:?}");
}

#[tokio::test]
async fn calls_with_different_caller_headers_are_in_different_batches() {
    let fake = FakeService::start(echo).await;
    let user_id = Some(header_name("X-User-Id").unwrap());
    let pass_caller = CallerHeaders { user_id, ..CallerHeaders::default() };
    let app =
        ForwardApp::with(options(&fake.url("/rpc")).batch().caller_headers(pass_caller).unwrap());
    let ada = app.gateway.as_caller(ada());
    let calls_of_ada = (0..3).map(|id| ada.call("order.get", json!({"id": id})));
    let (results_of_ada, anonymous_results) =
        tokio::join!(join_all(calls_of_ada), get_all(&app, 2));
    assert!(results_of_ada.into_iter().all(|result| result.is_ok()));
    assert_eq!(anonymous_results, [0, 1]);
    for received in fake.log.requests() {
        let is_ada = received.headers.get("x-user-id").is_some_and(|id| id == "7");
        assert_eq!(received.body.as_array().unwrap().len(), if is_ada { 3 } else { 2 });
    }
    assert_eq!(fake.log.requests().len(), 2);
}

#[tokio::test]
async fn calls_with_different_credentials_are_in_different_batches() {
    let fake = FakeService::start(echo).await;
    let credential = CredentialOptions {
        location: CredentialLocation::Member("auth".to_owned()),
        prefix: String::new(),
        missing: MissingCredential::Refuse,
        oauth: None,
    };
    let app = ForwardApp::with(
        options(&fake.url("/rpc")).batch().credential(credential, FixedCredentials::new()).unwrap(),
    );
    let callers = [ada(), user(8, "bob"), ada(), user(8, "bob")];
    let callers = callers.map(|caller| app.gateway.as_caller(caller));
    let calls = callers.iter().map(|caller| caller.call("order.get", json!({"id": 1})));
    assert!(join_all(calls).await.into_iter().all(|result| result.is_ok()));
    assert_eq!(sizes(&fake), [2, 2]);
    for received in fake.log.requests() {
        assert_eq!(received.body[0]["auth"], received.body[1]["auth"]);
    }
}

#[tokio::test]
async fn a_failed_reply_in_a_batch_affects_one_call() {
    let fake = FakeService::start(|received| {
        answer(received, |request| match request["params"]["id"].as_i64().unwrap() {
            1 => json!({"error": {"code": 4711, "message": "the order is gone"}}),
            2 => json!({"result": "for somebody else", "id": "mcp_0"}),
            3 => json!({"result": "7".repeat(1000)}),
            4 => json!({"neither": "nor"}),
            5 => json!({"error": {"code": -32600, "message": "Access denied"}, "id": null}),
            id => json!({"result": id}),
        })
    })
    .await;
    let app = app(&fake);
    let calls = (0..7).map(|id| app.text("order_delete", json!({"id": id})));
    let texts: Vec<String> = join_all(calls).await.into_iter().map(|(text, _)| text).collect();
    insta::assert_snapshot!(texts.join("\n"));
    assert_eq!(sizes(&fake), [7]);
    assert_eq!((app.count(CallOutcome::Result), app.count(CallOutcome::WrongId)), (2, 2));
    assert_eq!(app.count(CallOutcome::TooLarge), 1);
}

#[tokio::test]
async fn an_error_for_a_whole_batch_is_returned_to_each_call() {
    let fake = FakeService::start(|_| {
        let error = json!({"code": -32029, "message": "slow down"});
        FakeResponse::json(429, json!({"jsonrpc": "2.0", "error": error, "id": null}))
    })
    .await;
    let app = app(&fake);
    let calls = (0..2).map(|id| app.text("order_delete", json!({"id": id})));
    for (text, _) in join_all(calls).await {
        assert_eq!(text, "slow down (code -32029)");
    }
    let fake =
        FakeService::start(|_| FakeResponse::text(502, "text/html", "<h1>Bad gateway</h1>")).await;
    let app = self::app(&fake);
    let calls = (0..2).map(|id| app.text("order_delete", json!({"id": id})));
    for (text, _) in join_all(calls).await {
        assert!(text.contains("responded with HTTP 502. The method may have run"), "{text}");
    }
    assert_eq!((app.count(CallOutcome::Status), fake.log.requests().len()), (2, 1));
}

#[tokio::test(flavor = "current_thread")]
async fn a_service_that_refuses_batches_gets_single_requests() {
    let (log, _guard) = capture_logs();
    let fake = FakeService::start(|received| {
        if received.body.is_array() {
            let error = json!({"code": -32700, "message": "Parse error"});
            return FakeResponse::json(400, json!({"jsonrpc": "2.0", "error": error, "id": 0}));
        }
        echo(received)
    })
    .await;
    let app = app(&fake);
    let calls = (0..3).map(|id| app.invoke("order.delete", json!({"id": id})));
    assert!(join_all(calls).await.iter().all(|(status, _)| *status == 200));
    assert_eq!(sizes(&fake), [3, 0, 0, 0]);
    for _ in 0..3 {
        assert_eq!(get_all(&app, 3).await, [0, 1, 2]);
    }
    let batches = sizes(&fake).into_iter().filter(|size| *size > 0).count();
    assert_eq!(batches, 3, "there is no other batch");
    assert_eq!(app.retries(), 0);
    let log = log.text();
    assert_eq!(log.matches("the service refuses batches").count(), 1, "{log}");
}

#[tokio::test]
async fn refusals_of_batches_by_electrum_and_deluge_are_recognised() {
    let electrum = || FakeResponse::text(500, "text/plain; charset=utf-8", "Invalid Request");
    let deluge = || {
        let message = "TypeError: list indices must be integers or slices, not str";
        let error = json!({"code": 5, "message": message});
        FakeResponse::json(200, json!({"result": null, "id": null, "error": error}))
    };
    for refusal in [electrum(), deluge()] {
        let fake = FakeService::start(move |received| {
            if received.body.is_array() { refusal.clone() } else { echo(received) }
        })
        .await;
        let app = app(&fake);
        let calls = (0..3).map(|id| app.invoke("order.delete", json!({"id": id})));
        let results: Vec<Value> = join_all(calls).await.into_iter().map(|(_, it)| it).collect();
        assert_eq!(results, [json!({"result": 0}), json!({"result": 1}), json!({"result": 2})]);
        assert_eq!((sizes(&fake), app.retries()), (vec![3, 0, 0, 0], 0));
    }
}

#[tokio::test]
async fn after_an_unknown_batch_error_only_read_only_calls_are_sent_again() {
    let fake = FakeService::start(|received| {
        if received.body.is_array() {
            FakeResponse::text(500, "text/html", "<h1>Internal Server Error</h1>")
        } else {
            echo(received)
        }
    })
    .await;
    let app = app(&fake);
    let (read, destructive) = tokio::join!(
        app.invoke("order.get", json!({"id": 1})),
        app.text("order_delete", json!({"id": 2})),
    );
    assert_eq!(read.1, json!({"result": 1}));
    assert!(
        destructive.0.contains("HTTP 500. The method may have run: check"),
        "{}",
        destructive.0
    );
    assert_eq!((sizes(&fake), app.retries()), (vec![2, 0], 1));
    // After three rejected batches, no batch is sent any more.
    for _ in 0..3 {
        assert_eq!(get_all(&app, 2).await, [0, 1]);
    }
    let (status, _) = app.invoke("order.delete", json!({"id": 3})).await;
    assert_eq!(status, 200);
    assert_eq!(sizes(&fake).into_iter().filter(|size| *size > 0).count(), 3);
}

#[tokio::test]
async fn a_batch_that_may_have_run_is_not_retried() {
    let fake = FakeService::start(|_| {
        let error = json!({"code": -32000, "message": "the batch timed out"});
        FakeResponse::json(504, json!({"jsonrpc": "2.0", "error": error, "id": null}))
    })
    .await;
    let app = app(&fake);
    let calls = (0..3).map(|id| app.text("order_delete", json!({"id": id})));
    for (text, _) in join_all(calls).await {
        assert_eq!(text, "the batch timed out (code -32000)");
    }
    assert_eq!(sizes(&fake), [3]);
}

#[tokio::test]
async fn a_batch_that_is_too_large_does_not_disable_batches() {
    let fake = FakeService::start(|received| match received.body.as_array() {
        Some(calls) if calls.len() > 3 => {
            FakeResponse::text(413, "text/html", "<h1>Too large</h1>")
        }
        _ => echo(received),
    })
    .await;
    let app = app(&fake);
    assert_eq!(get_all(&app, 4).await, [0, 1, 2, 3]);
    assert_eq!(get_all(&app, 3).await, [0, 1, 2]);
    assert_eq!(sizes(&fake), [4, 0, 0, 0, 0, 3]);
}

#[tokio::test]
async fn only_read_only_calls_of_a_lost_batch_are_retried() {
    let fake = FakeService::start(|received| match received.number {
        0 => FakeResponse::close(),
        _ => echo(received),
    })
    .await;
    let app = app(&fake);
    let (first, destructive, second) = tokio::join!(
        app.invoke("order.get", json!({"id": 1})),
        app.text("order_delete", json!({"id": 2})),
        app.invoke("order.get", json!({"id": 3})),
    );
    assert_eq!((first.1, second.1), (json!({"result": 1}), json!({"result": 3})));
    assert!(destructive.0.contains("The method may have run: check"), "{}", destructive.0);
    let retried: Vec<Value> = fake.log.requests()[1..]
        .iter()
        .filter_map(|received| received.body.as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(sizes(&fake), [3, 2]);
    assert!(retried.iter().all(|request| request["method"] == "order.get"));
    assert_eq!((app.count(CallOutcome::Broken), app.retries()), (1, 2));
}

#[tokio::test]
async fn after_an_unmatched_error_only_read_only_calls_are_sent_again() {
    // The replies are not in order, and two errors do not show to which request they belong.
    let fake = FakeService::start(|received| {
        answer(received, |request| match request["params"]["id"].as_i64().unwrap() {
            id if received.body.is_array() && id < 3 => {
                json!({"error": {"code": 1, "message": "no"}, "id": null})
            }
            id => json!({"result": id}),
        })
    })
    .await;
    let app = app(&fake);
    let (first, destructive, third, fourth) = tokio::join!(
        app.invoke("order.get", json!({"id": 1})),
        app.text("order_delete", json!({"id": 2})),
        app.invoke("order.get", json!({"id": 3})),
        app.invoke("order.delete", json!({"id": 4})),
    );
    assert_eq!(first.1, json!({"result": 1}));
    insta::assert_snapshot!(destructive.0, @"The service behind this tool replied to a batch of requests with an error that cannot be matched to this one. The method may have run: check before you try again. (error id ID)");
    assert_eq!((third.1, fourth.1), (json!({"result": 3}), json!({"result": 4})));
    assert_eq!(sizes(&fake), [4, 0]);
    assert_eq!(fake.log.requests()[1].body["method"], "order.get");
    assert_eq!((app.count(CallOutcome::WrongId), app.retries()), (1, 1));
}

#[tokio::test]
async fn a_destructive_call_is_not_retried_after_an_error_for_another_call() {
    let fake = FakeService::start(|received| {
        let error = json!({"code": -32601, "message": "Method Not Found"});
        FakeResponse::json(
            400,
            json!({"jsonrpc": "2.0", "error": error, "id": received.body[1]["id"]}),
        )
    })
    .await;
    let app = app(&fake);
    let calls = (0..2).map(|id| app.text("order_delete", json!({"id": id})));
    let texts: Vec<String> = join_all(calls).await.into_iter().map(|(text, _)| text).collect();
    assert!(texts[0].contains("The method may have run: check"), "{}", texts[0]);
    assert_eq!(texts[1], "Method Not Found (code -32601)");
    assert_eq!(sizes(&fake), [2]);
}

#[tokio::test]
async fn a_slow_method_does_not_delay_other_calls() {
    let fake = FakeService::start(|received| {
        if received.body["method"] == "order.delete" {
            FakeResponse::hang()
        } else {
            echo(received)
        }
    })
    .await;
    let app = Arc::new(app(&fake));
    let mut slow = Vec::new();
    for id in 0..5 {
        let app = Arc::clone(&app);
        slow.push(tokio::spawn(async move { app.invoke("order.delete", json!({"id": id})).await }));
        fake.log.wait_for_requests(id + 1).await;
    }
    assert_eq!(get_all(&app, 3).await, [0, 1, 2]);
    assert_eq!(sizes(&fake), [0, 0, 0, 0, 0, 3]);
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    fake.log.wait_for_disconnects(5).await;
}

#[tokio::test]
async fn dropping_a_call_does_not_affect_the_other_calls_of_its_batch() {
    let permits = Arc::new(Semaphore::new(0));
    let fake = FakeService::start({
        let permits = Arc::clone(&permits);
        move |received| echo(received).after(&permits)
    })
    .await;
    let app = app(&fake);
    let dropped = async {
        tokio::select! {
            _ = app.invoke("order.delete", json!({"id": 1})) => panic!("there is no answer yet"),
            () = fake.log.wait_for_requests(1) => {}
        }
        permits.add_permits(1);
    };
    let ((), (status, body)) = tokio::join!(dropped, app.invoke("order.delete", json!({"id": 2})));
    assert_eq!((status, body), (200, json!({"result": 2})));
    assert_eq!(sizes(&fake), [2]);
    assert_eq!((app.count(CallOutcome::Cancelled), app.count(CallOutcome::Result)), (1, 1));
}

#[tokio::test]
async fn the_request_of_a_batch_is_closed_when_all_its_calls_are_dropped() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let app = app(&fake);
    tokio::select! {
        _ = get_all(&app, 3) => panic!("there is no answer"),
        () = fake.log.wait_for_requests(1) => {}
    }
    fake.log.wait_for_disconnects(1).await;
    assert_eq!((sizes(&fake), app.count(CallOutcome::Cancelled)), (vec![3], 3));
}
