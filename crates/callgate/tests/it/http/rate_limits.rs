//! Rate limits, on every endpoint.

use std::net::IpAddr;

use callgate::access::RateLimits;
use callgate::gateway::Settings;

use super::*;

pub(super) const CODE: i64 = -32005;
pub(super) const ALICE: &str = "admin";
pub(super) const BOB: &str = "reader";

/// An application with these settings, which apply to the next request.
fn limited(settings: &[(&str, &str)]) -> App {
    let app = App::with(application(), options(|options| options.metrics = true));
    set(&app, settings);
    app
}

pub(super) fn set(app: &App, settings: &[(&str, &str)]) {
    let mut changed = Settings::default();
    for (key, value) in settings {
        changed.set(key, value).unwrap();
    }
    app.gateway.set_settings(Arc::new(changed));
}

fn per_caller(rate: &str) -> App {
    limited(&[("limit_requests_per_caller", rate)])
}

pub(super) fn seconds(reply: &Reply) -> u64 {
    reply.header("retry-after").parse().unwrap()
}

pub(super) fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

pub(super) async fn mcp(app: &App, caller: &str, message: &Value) -> Reply {
    let mut request = request("POST", caller, "/mcp").header("accept", "application/json");
    if message["params"]["_meta"].is_object() {
        request = request
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", message["method"].as_str().unwrap());
        if let Some(name) = message["params"]["name"].as_str() {
            request = request.header("mcp-name", name);
        }
    }
    app.send(request.body(message.to_string().into()).unwrap()).await
}

fn echo(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "open.echo", "params": {"value": 1}})
}

#[tokio::test]
async fn every_endpoint_beyond_the_rate_of_a_caller_is_429() {
    let call = echo(1).to_string();
    let invoke = r#"{"name":"open.echo","arguments":{"value":1}}"#;
    let requests = [
        ("GET", "/mcp/tools/list", ""),
        ("GET", "/mcp/tools/describe?name=open.echo", ""),
        ("POST", "/mcp/tools/invoke", invoke),
        ("POST", "/mcp/tools/open.echo", &call),
        ("POST", "/jsonrpc", &call),
        ("POST", "/jsonrpc", r#"{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#),
        ("GET", "/metrics", ""),
        ("GET", "/.well-known/mcp.json", ""),
    ];
    for (method, path, body) in requests {
        let app = per_caller("2/h");
        let send = async |caller: &str| {
            app.send(request(method, caller, path).body(body.to_owned().into()).unwrap()).await
        };
        for _ in 0..2 {
            assert_eq!(send(ALICE).await.status, 200, "{path}");
        }
        let refused = send(ALICE).await;
        assert_eq!(refused.status, 429, "{path}");
        let wait = seconds(&refused);
        assert!((1_700..=1_800).contains(&wait), "{path}: {wait}");
        let error = &refused.json()["error"];
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("requests per caller is 2/h"), "{message}");
        assert!(message.contains(&format!("{wait} s")), "{message}");
        if ["/jsonrpc", "/mcp/tools/open.echo"].contains(&path) {
            assert_eq!(
                (&error["code"], &error["data"]["retry_after"]),
                (&json!(CODE), &json!(wait))
            );
        } else {
            assert_eq!(error["code"], "rate_limited");
            assert_eq!(error["retry_after"], wait);
        }
        // Discovery has no caller, so all requests count for one client here.
        if !path.starts_with("/.well-known") {
            assert_eq!(send(BOB).await.status, 200, "{path}: others are not affected");
        }
        assert_eq!(app.get("", "/healthz").await.status, 200);
        assert_eq!(app.gateway.rate_limited(), 1);
    }
}

#[tokio::test]
async fn calls_of_a_json_rpc_batch_count_for_its_sender() {
    let app = per_caller("3/h");
    let batch = json!([echo(1), echo(2), echo(3), echo(4), echo(5)]).to_string();
    let reply = app.post(ALICE, "/jsonrpc", batch.clone()).await;
    assert_eq!(reply.status, 200);
    let replies = reply.json();
    let results: Vec<bool> =
        replies.as_array().unwrap().iter().map(|reply| reply["result"].is_object()).collect();
    assert_eq!(results, [true, true, true, false, false]);
    assert_eq!(replies[4]["id"], 5);
    assert_eq!(replies[4]["error"]["code"], CODE);
    assert!(replies[4]["error"]["data"]["retry_after"].as_u64().unwrap() >= 1);
    let reply = app.post(ALICE, "/jsonrpc", batch).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["error"]["code"]), (429, &json!(CODE)));
    assert_eq!(app.invoke(BOB, "open.echo", json!({"value": 1})).await.status, 200);
}

#[tokio::test]
async fn a_refused_tools_call_is_a_result_and_other_refused_requests_are_errors() {
    let arguments = json!({"name": "open_echo", "arguments": {"value": 1}});
    let legacy = |method: &str, params: &Value| json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let forms = [
        (modern("tools/call", arguments.clone()), modern("tools/list", json!({}))),
        (legacy("tools/call", &arguments), legacy("tools/list", &json!({}))),
    ];
    for (call, list) in forms {
        let app = per_caller("2/h");
        let first = mcp(&app, ALICE, &call).await;
        assert!(first.json()["result"]["isError"].is_null(), "{}", first.text);
        assert_eq!(mcp(&app, ALICE, &list).await.status, 200);
        let refused = mcp(&app, ALICE, &call).await;
        let body = refused.json();
        assert_eq!((refused.status.as_u16(), &body["id"]), (200, &json!(7)));
        assert_eq!(body["result"]["isError"], true);
        let text = body["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("requests per caller is 2/h"), "{text}");
        assert!(text.contains("try again in 1800 s"), "{text}");
        let refused = mcp(&app, ALICE, &list).await;
        let body = refused.json();
        assert_eq!((refused.status.as_u16(), &body["id"]), (429, &json!(7)), "{}", refused.text);
        assert_eq!(body["error"]["code"], CODE);
        assert_eq!(body["error"]["data"]["retry_after"], seconds(&refused));
        assert_eq!(mcp(&app, BOB, &list).await.status, 200);
    }
}

#[tokio::test]
async fn every_request_to_mcp_counts_against_the_rate_limit() {
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/cancelled"});
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let no_session = json!({"jsonrpc": "2.0", "id": 1, "method": "nothing"});
    for message in [notification, response, no_session, json!("no message"), json!([])] {
        let app = per_caller("2/h");
        for _ in 0..2 {
            assert_ne!(mcp(&app, ALICE, &message).await.status, 429, "{message}");
        }
        let refused = mcp(&app, ALICE, &message).await;
        assert_eq!(refused.status, 429, "{message}");
        assert!(seconds(&refused) >= 1);
    }
    let other_requests: [(&str, &str, &[u8]); 5] = [
        ("GET", "/mcp", b""),
        ("DELETE", "/mcp", b""),
        ("PUT", "/mcp", b""),
        ("GET", "/mcp?rawRequest=x", b""),
        ("POST", "/mcp", b"\xff"),
    ];
    for (method, path, body) in other_requests {
        let app = per_caller("1/h");
        let send = async || app.send(request(method, ALICE, path).body(body.into()).unwrap()).await;
        assert_ne!(send().await.status, 429, "{method} {path}");
        let refused = send().await;
        assert_eq!(refused.status, 429, "{method} {path}");
        assert_eq!(refused.json()["error"]["code"], CODE, "{method} {path}");
    }
    let app = per_caller("1/h");
    let large = "x".repeat(2 << 20);
    assert_eq!(app.post(ALICE, "/mcp", large.clone()).await.status, 413);
    assert_eq!(app.post(ALICE, "/mcp", large).await.status, 429);
}

#[tokio::test]
async fn messages_of_an_mcp_batch_count_for_its_sender() {
    let app = per_caller("3/h");
    let call = |id: u32, method: &str| {
        let params = json!({"name": "open_echo", "arguments": {"value": 1}});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    };
    let batch = json!([
        call(1, "tools/call"),
        call(2, "tools/list"),
        call(3, "tools/call"),
        call(4, "tools/call"),
        call(5, "tools/list"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]);
    let reply = mcp(&app, ALICE, &batch).await;
    let replies = reply.json();
    assert_eq!(replies.as_array().unwrap().len(), 5, "{}", reply.text);
    assert!(replies[2]["result"]["isError"].is_null());
    assert_eq!(replies[3]["result"]["isError"], true);
    assert_eq!((&replies[4]["id"], &replies[4]["error"]["code"]), (&json!(5), &json!(CODE)));
    assert_eq!(mcp(&app, ALICE, &batch).await.status, 429);
}

#[tokio::test]
async fn wrong_tokens_count_for_the_address_and_not_for_its_users() {
    let app = per_caller("2/h");
    let send = async |caller: &str, address: &str| {
        let request = request("GET", caller, "/mcp/tools/list").body(Body::empty()).unwrap();
        app.service
            .respond(request, Some(address.parse::<IpAddr>().unwrap()))
            .await
            .status()
            .as_u16()
    };
    for expected in [401, 401, 429] {
        assert_eq!(send("guessed", "192.0.2.1").await, expected);
    }
    assert_eq!(send("", "192.0.2.1").await, 429, "the same client without a token");
    assert_eq!(send("", "192.0.2.2").await, 200, "another client");
    assert_eq!(send(ALICE, "192.0.2.1").await, 200, "a user behind the same address");
    // A user has one limit, whatever their address is.
    assert_eq!(send(ALICE, "192.0.2.3").await, 200);
    assert_eq!(send(ALICE, "192.0.2.4").await, 429);
    for (address, expected) in [("2001:db8::1", 200), ("2001:db8::2", 200), ("2001:db8::3", 429)] {
        assert_eq!(send("", address).await, expected, "one network is one client");
    }
}

#[tokio::test]
async fn a_rate_limit_of_a_tool_is_hidden_from_callers_without_access() {
    let hidden = "content.article.delete";
    let app = limited(&[("limit_tools", "content.* 1/h, nothing 1/h")]);
    for _ in 0..3 {
        let denied = app.invoke(BOB, hidden, json!({"id": 1})).await;
        let unknown = app.invoke(BOB, "nothing", json!({"id": 1})).await;
        assert_eq!(denied.text.replace(hidden, "nothing"), unknown.text);
        assert_eq!((denied.status, unknown.status), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
    }
    assert_eq!(
        app.invoke(ALICE, hidden, json!({"id": 1})).await.status,
        200,
        "refused calls do not count"
    );
    let refused = app.invoke(ALICE, hidden, json!({"id": 1})).await;
    assert_eq!(refused.error_code(), (429, "rate_limited".to_owned()));
    assert!(refused.text.contains("calls of this tool is 1/h"), "{}", refused.text);
    assert!(seconds(&refused) > 3_000);
    let still = app.invoke(BOB, hidden, json!({"id": 1})).await;
    assert_eq!(still.status, StatusCode::NOT_FOUND);
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": hidden, "params": {"id": 1}}).to_string();
    for path in ["/jsonrpc", "/mcp/tools/content.article.delete"] {
        let refused = app.post(ALICE, path, call.clone()).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["error"]["code"]),
            (429, &json!(CODE))
        );
        assert!(seconds(&refused) > 3_000);
    }
    let arguments = json!({"name": "content_article_delete", "arguments": {"id": 1}});
    let refused = mcp(&app, ALICE, &modern("tools/call", arguments)).await.json();
    assert_eq!(refused["result"]["isError"], true);
    assert_eq!(app.invoke(ALICE, "content.article.read", json!({"id": 1})).await.status, 200);
}

#[tokio::test]
async fn a_tool_can_have_a_limit_for_each_caller() {
    let app = limited(&[("limit_tools", "open.echo 1/h per caller")]);
    for caller in [ALICE, BOB] {
        assert_eq!(app.invoke(caller, "open.echo", json!({"value": 1})).await.status, 200);
        assert_eq!(app.invoke(caller, "open.echo", json!({"value": 1})).await.status, 429);
    }
}

#[tokio::test]
async fn the_limit_of_all_callers_counts_only_requests_within_their_own_limits() {
    let app = limited(&[("limit_requests_per_caller", "2/h"), ("limit_requests", "3/h")]);
    for expected in [200, 200, 429, 429, 429] {
        assert_eq!(app.get(ALICE, "/mcp/tools/list").await.status, expected);
    }
    assert_eq!(app.get(BOB, "/mcp/tools/list").await.status, 200);
    let refused = app.get(BOB, "/mcp/tools/list").await;
    assert_eq!(refused.status, 429);
    assert!(refused.text.contains("requests of all callers is 3/h"), "{}", refused.text);
}

#[tokio::test]
async fn invalid_tokens_and_one_caller_cannot_use_up_the_limit_of_all_callers() {
    let app = limited(&[("limit_requests", "8/h")]);
    for _ in 0..20 {
        let status = app.get("wrong", "/mcp/tools/list").await.status;
        assert!(status == 401 || status == 429, "{status}");
    }
    let mut admitted = 0;
    while app.get(ALICE, "/mcp/tools/list").await.status == 200 {
        admitted += 1;
    }
    assert_eq!(admitted, 4);
    assert_eq!(app.get(BOB, "/mcp/tools/list").await.status, 200);
}

#[tokio::test]
async fn settings_override_the_configuration_at_once() {
    let local = application();
    let catalog = catalog_of(local.methods());
    let configured =
        RateLimits { per_caller: Some("1/h".parse().unwrap()), ..RateLimits::default() };
    let gateway = Gateway::new([(Arc::from(LOCAL), Arc::new(local) as Arc<dyn Upstream>)])
        .rate_limits(configured);
    gateway.set_catalog(Arc::new(catalog));
    let mcp = Arc::new(Mcp::new(Arc::new(gateway), Sessions::new([SessionKey::new(&[7; 32])])));
    let (anyone, options) = (Arc::new(callgate::http::Anonymous), HttpOptions::default());
    let service = service(Arc::clone(&mcp), anyone, Readiness::default(), options);
    let status = async || {
        let request = request("GET", "", "/mcp/tools/list").body(Body::empty()).unwrap();
        service.respond(request, None).await.status().as_u16()
    };
    let set = |value: &str| {
        let mut settings = Settings::default();
        settings.set("limit_requests_per_caller", value).unwrap();
        mcp.gateway().set_settings(Arc::new(settings));
    };
    assert_eq!((status().await, status().await), (200, 429));
    set("none");
    assert_eq!((status().await, status().await), (200, 200));
    set("");
    assert_eq!(status().await, 429, "the configured limit applies");
}

#[tokio::test]
async fn refused_requests_are_counted_in_metrics() {
    let app = limited(&[("limit_tools", "open.echo 1/h")]);
    for expected in [200, 429, 429] {
        assert_eq!(app.invoke(ALICE, "open.echo", json!({"value": 1})).await.status, expected);
    }
    let metrics = app.get(ALICE, "/metrics").await.text;
    assert!(metrics.contains("\ncallgate_rate_limited_total 2\n"), "{metrics}");
}
