//! Requests that are sent, and replies that are returned.

use std::sync::Arc;

use callgate::Callgate;
use callgate::forward::{CallOutcome, CallerHeaders, Forward, IdFormat, header_name};
use callgate::model::{Method, ParamStyle};
use serde_json::json;

use crate::forward::{ForwardApp, ada, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

fn echo(request: &ReceivedRequest) -> FakeResponse {
    request.result(request.body["params"].clone())
}

#[tokio::test]
async fn arguments_and_results_are_passed_on_unchanged() {
    let fake = FakeService::start(|request| {
        let id = &request.body["id"];
        // Numbers that are too large for a parsed value, and white space, are kept.
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{ "n": 1.000000000000000000001 }}}}"#);
        FakeResponse::text(200, "application/json", &body)
    })
    .await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    let raw = serde_json::value::RawValue::from_string(r#"{ "id": 7 , "note": "\u0061"}"#.into());
    let raw = raw.unwrap();
    let request =
        callgate::gateway::CallRequest { id: "order.get", arguments: Some(&raw), read_only: false };
    let result = app.gateway.gateway().call(&ada(), request).await.unwrap();
    assert_eq!(result.value.get(), r#"{ "n": 1.000000000000000000001 }"#);
    let sent = &fake.log.requests()[0];
    assert_eq!(sent.request_line, "POST /rpc HTTP/1.1");
    assert_eq!(sent.body["jsonrpc"], "2.0");
    assert_eq!(sent.body["method"], "order.get");
    assert_eq!(sent.body["params"], json!({"id": 7, "note": "a"}));
    assert!(sent.body["id"].as_str().unwrap().starts_with("mcp_"));
    assert_eq!(sent.headers["content-type"], "application/json");
    assert_eq!(app.count(CallOutcome::Result), 1);
}

#[tokio::test]
async fn no_data_of_the_caller_is_sent_unless_configured() {
    let fake = FakeService::start(echo).await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    app.gateway.as_caller(ada()).call("order.get", json!({"id": 1})).await.unwrap();
    let mut names: Vec<String> = fake.log.requests()[0].headers.keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["accept", "content-length", "content-type", "host"]);
}

#[tokio::test]
async fn request_format_follows_the_configuration_of_the_service() {
    let fake = FakeService::start(echo).await;
    let name = |name| Some(header_name(name).unwrap());
    let pass_caller = CallerHeaders {
        user_id: name("X-User-Id"),
        user_name: name("X-User"),
        role: name("X-Role"),
        ..CallerHeaders::default()
    };
    let mut options = options(&fake.url("/rpc"))
        .params(ParamStyle::Positional)
        .first_param(&json!("token:s3cret"))
        .first_param(&json!({"a": [1]}))
        .member("auth", &json!("s3cret"))
        .unwrap()
        .basic("gate", "s3cret")
        .unwrap()
        .header("X-Team", "blue")
        .unwrap()
        .caller_headers(pass_caller)
        .unwrap();
    options.id_format = IdFormat::Number;
    let app = ForwardApp::with(options);
    let ada = app.gateway.as_caller(ada());
    let result = ada.call("order.get", json!({"note": "n", "id": 1})).await.unwrap();
    assert_eq!(result, json!(["token:s3cret", {"a": [1]}, 1, "n"]));
    app.invoke("order.get", json!({"id": 2})).await;
    let requests = fake.log.requests();
    assert_eq!(
        requests[0].body,
        json!({
            "jsonrpc": "2.0",
            "method": "order.get",
            "params": ["token:s3cret", {"a": [1]}, 1, "n"],
            "id": 1,
            "auth": "s3cret",
        })
    );
    assert_eq!(requests[1].body["id"], 2);
    let headers = &requests[0].headers;
    assert_eq!(headers["authorization"], "Basic Z2F0ZTpzM2NyZXQ=");
    assert_eq!(headers["x-team"], "blue");
    assert_eq!(headers["x-user-id"], "7");
    assert_eq!(headers["x-user"], "ada");
    assert_eq!(headers["x-role"], "Editor%20%C3%A9");
    assert!(!requests[1].headers.contains_key("x-user-id"), "the caller is anonymous");
}

/// Two services with the same names, such as a main and a test network.
#[tokio::test]
async fn a_method_is_called_by_its_name_at_the_service() {
    for is_batch in [false, true] {
        let services = [FakeService::start(echo).await, FakeService::start(echo).await];
        let names = ["main", "test"];
        let mut builder = Callgate::builder();
        for (name, service) in names.into_iter().zip(&services) {
            let options = options(&service.url("/rpc"));
            let options = if is_batch { options.batch() } else { options };
            builder = builder.upstream(name, Forward::new(name, options).unwrap());
        }
        let methods = names.map(|name| {
            let id = format!("{name}.getinfo").parse().unwrap();
            Method::new(id).upstream(name).remote_name("getinfo")
        });
        let gateway = builder.upstream_methods(methods).build().unwrap();
        for name in names {
            gateway.as_caller(ada()).call(&format!("{name}.getinfo"), json!({})).await.unwrap();
        }
        for service in &services {
            let methods: Vec<_> = service
                .log
                .requests()
                .iter()
                .map(|request| request.body["method"].clone())
                .collect();
            assert_eq!(methods, ["getinfo"]);
        }
    }
}

#[tokio::test]
async fn connections_are_reused() {
    let fake = FakeService::start(echo).await;
    let app = ForwardApp::new(&fake.url("/rpc"));
    for id in 0..20 {
        assert_eq!(app.invoke("order.get", json!({"id": id})).await.1["result"]["id"], id);
    }
    assert_eq!(app.count(CallOutcome::Result), 20);
    assert_eq!(fake.log.connections(), 1);
}

#[tokio::test]
async fn dropping_a_call_closes_its_request() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let app = Arc::new(ForwardApp::new(&fake.url("/rpc")));
    let calling = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.invoke("order.delete", json!({"id": 1})).await }
    });
    fake.log.wait_for_requests(1).await;
    calling.abort();
    fake.log.wait_for_disconnects(1).await;
    assert!(calling.await.unwrap_err().is_cancelled());
    assert_eq!(app.count(CallOutcome::Cancelled), 1);
}
