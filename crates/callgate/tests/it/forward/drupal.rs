//! A recorded Drupal site with `jsonrpc` and `jsonrpc_mcp`: its replies to different users, at `/jsonrpc` and at the
//! URL of each tool.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use callgate::forward::{
    CallOutcome, CredentialLocation, CredentialOptions, Forward, ForwardOptions, MissingCredential,
    header_name,
};
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::model::{Method, Param, Safety};
use callgate::upstream::{BoxFuture, CredentialError, Credentials};
use callgate::{Caller, Callgate, Secret};
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::forward::credentials::user;
use crate::forward::recorded::EXCHANGES;
use crate::forward::{ForwardApp, ForwardLimits, limits, options, without_error_id};
use crate::log::capture_logs;
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

/// Returns the reply of the site to a request that equals a recorded one.
fn site(received: &ReceivedRequest) -> FakeResponse {
    let path = received.request_line.split(' ').nth(1).unwrap();
    let token = match received.headers.get("authorization") {
        Some(value) => value.strip_prefix("Bearer ").unwrap(),
        None => "nobody",
    };
    if token == "wrong-bearer" {
        return FakeResponse::text(401, "text/html", "<!DOCTYPE html>");
    }
    let found = EXCHANGES.iter().find(|exchange| {
        let request = &exchange["request"];
        let is_match =
            request["path"] == path && request["as"] == token && request["method"] == "POST";
        // In maintenance, the site replies differently to the same requests.
        let is_up = !exchange["label"].as_str().unwrap().starts_with("in maintenance");
        is_match && is_up && is_same(&request["body"], &received.body)
    });
    let exchange =
        found.unwrap_or_else(|| panic!("not recorded: {path} {token} {}", received.body));
    let response = &exchange["response"];
    let mut body = match &response["json"] {
        Value::Null => response["text"].as_str().unwrap().to_owned(),
        reply => with_ids(reply, &exchange["request"]["body"], &received.body).to_string(),
    };
    if let Some(challenge) = response["headers"]["WWW-Authenticate"].as_str() {
        body = format!(
            "WWW-Authenticate: {challenge}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
    } else {
        body = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    }
    let media = response["headers"]["Content-Type"].as_str().unwrap();
    FakeResponse::raw(format!(
        "HTTP/1.1 {} Some\r\nContent-Type: {media}\r\n{body}",
        response["status"]
    ))
}

/// Returns `true` if two requests, or two batches, are equal except for their ids.
fn is_same(recorded: &Value, sent: &Value) -> bool {
    match (recorded, sent) {
        (Value::Array(recorded), Value::Array(sent)) => {
            recorded.len() == sent.len() && recorded.iter().zip(sent).all(|(a, b)| is_same(a, b))
        }
        (Value::Array(_), _) | (_, Value::Array(_)) => false,
        _ => {
            let params = |it: &Value| it.get("params").cloned().unwrap_or_else(|| json!({}));
            recorded["method"] == sent["method"] && params(recorded) == params(sent)
        }
    }
}

/// Returns a recorded reply with the ids of the requests that were sent. Null ids are kept.
fn with_ids(reply: &Value, recorded: &Value, sent: &Value) -> Value {
    if let Value::Array(replies) = reply {
        return replies.iter().map(|reply| with_ids(reply, recorded, sent)).collect();
    }
    let list = |it: &Value| it.as_array().cloned().unwrap_or_else(|| vec![it.clone()]);
    let pairs = list(recorded).into_iter().zip(list(sent));
    let ids: HashMap<String, Value> =
        pairs.map(|(old, new)| (old["id"].to_string(), new["id"].clone())).collect();
    let mut reply = reply.clone();
    if let Some(id) = ids.get(&reply["id"].to_string()) {
        reply["id"] = id.clone();
    }
    reply
}

/// The token of a caller contains the name of the user, here and at the site.
#[derive(Debug)]
struct Tokens;

impl Authenticate for Tokens {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async {
            let token = bearer_token(&request.headers)?;
            Ok(token.map_or_else(Caller::anonymous, |name| user(7, name)))
        })
    }
}

impl Credentials for Tokens {
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
        Box::pin(async {
            let user = caller.user.as_ref();
            Ok(user.and_then(|user| Secret::new(&format!("{}-bearer", user.name))))
        })
    }
}

fn drupal(fake: &FakeService) -> ForwardOptions {
    options(&format!("http://{}/jsonrpc", fake.address))
        .limits(ForwardLimits { result_bytes: 10_000, ..limits() })
}

fn per_tool(mut options: ForwardOptions) -> ForwardOptions {
    options.tool_path = Some(callgate::forward::ToolPath::beside(options.target()));
    options
}

/// Returns a gateway whose callers use their own credential, or none.
fn app(options: ForwardOptions) -> ForwardApp {
    let credential = CredentialOptions {
        location: CredentialLocation::Header(header_name("Authorization").unwrap()),
        prefix: "Bearer ".to_owned(),
        missing: MissingCredential::Anonymous,
        oauth: None,
    };
    build(options.credential(credential, Arc::new(Tokens)).unwrap())
}

fn build(options: ForwardOptions) -> ForwardApp {
    let forward = Arc::new(Forward::new("drupal", options).unwrap());
    let method =
        |id: &str| Method::new(id.parse().unwrap()).upstream("drupal").safety(Safety::ReadOnly);
    let names = ["whoami", "scoped", "authRequired", "adminOnly", "boom", "rpcError", "nothing"];
    let mut methods: Vec<Method> =
        names.iter().map(|name| method(&format!("probe.{name}"))).collect();
    methods.push(method("probe.badOutput"));
    methods.push(method("nosuch"));
    methods.push(
        method("probe.echo")
            .param(Param::new("text", "string".parse().unwrap()))
            .param(Param::new("times", "int".parse().unwrap()).optional())
            .param(Param::new("note", "?string".parse().unwrap()).optional()),
    );
    let gateway = Callgate::builder()
        .shared_upstream("drupal", Arc::clone(&forward) as _)
        .upstream_methods(methods)
        .authenticate(Tokens)
        .build()
        .unwrap();
    ForwardApp { gateway, forward }
}

/// Returns status, challenge and body of the response to a caller's request.
async fn post(app: &ForwardApp, caller: &str, path: &str, body: Value) -> (u16, String, Value) {
    let mut request = Request::post(path).header("host", "localhost");
    if !caller.is_empty() {
        request = request.header("Authorization", format!("Bearer {caller}"));
    }
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = app.gateway.router().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let challenge = response.headers().get("www-authenticate");
    let challenge = challenge.map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, challenge, serde_json::from_slice(&body).unwrap())
}

/// Returns the response of each endpoint to a call.
async fn endpoint_responses(app: &ForwardApp, caller: &str, id: &str) -> String {
    let mut table = format!("{id} as {}\n", if caller.is_empty() { "nobody" } else { caller });
    let arguments = if id == "probe.echo" { json!({"text": "a"}) } else { json!({}) };
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": id, "params": arguments});
    let invocation = json!({"name": id, "arguments": arguments});
    for (path, body) in [
        ("/mcp/tools/invoke".to_owned(), invocation),
        (format!("/mcp/tools/{id}"), call.clone()),
        ("/jsonrpc".to_owned(), call.clone()),
        ("/jsonrpc".to_owned(), json!([call])),
    ] {
        let (status, challenge, body) = post(app, caller, &path, body).await;
        let body = without_error_id(&body.to_string());
        writeln!(table, "  {path} {status} [{challenge}]\n    {body}").unwrap();
    }
    let params = json!({"name": id.replace('.', "_"), "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (status, challenge, reply) = post(app, caller, "/mcp", message).await;
    assert_eq!((status, challenge.as_str()), (200, ""), "{reply}");
    let is_error = &reply["result"]["isError"];
    let text = without_error_id(reply["result"]["content"][0]["text"].as_str().unwrap());
    writeln!(table, "  /mcp isError {is_error}\n    {text}").unwrap();
    table
}

async fn start() -> FakeService {
    FakeService::start(site).await
}

#[tokio::test]
async fn calls_are_sent_to_the_url_of_each_tool_in_the_same_envelope() {
    let fake = start().await;
    let app = app(per_tool(drupal(&fake)));
    // Mia may use tools, but not `/jsonrpc`.
    let invocation = json!({"name": "probe.echo", "arguments": {"text": "a"}});
    let (status, _, body) = post(&app, "mia", "/mcp/tools/invoke", invocation.clone()).await;
    assert_eq!((status, body), (200, json!({"result": {"text": "a", "user": "mia"}})));
    let request = &fake.log.requests()[0];
    assert_eq!(request.request_line, "POST /mcp/tools/probe.echo HTTP/1.1");
    assert_eq!(request.body["method"], "probe.echo");
    assert_eq!(request.body["params"], json!({"text": "a"}));
    let single = self::app(drupal(&fake));
    assert_eq!(post(&single, "mia", "/mcp/tools/invoke", invocation).await.0, 403);
}

#[tokio::test]
async fn a_missing_login_scope_or_permission_is_401_or_403_on_every_endpoint() {
    let fake = start().await;
    let tools = app(per_tool(drupal(&fake)));
    let single = app(drupal(&fake));
    let mut table = String::new();
    table.push_str(&endpoint_responses(&tools, "", "probe.authRequired").await);
    table.push_str(&endpoint_responses(&single, "", "probe.whoami").await);
    table.push_str(&endpoint_responses(&tools, "wrong", "probe.whoami").await);
    table.push_str(&endpoint_responses(&tools, "bob", "probe.scoped").await);
    table.push_str(&endpoint_responses(&single, "mia", "probe.whoami").await);
    insta::assert_snapshot!(table);
    assert_eq!(tools.count(CallOutcome::Refused), 15);
}

#[tokio::test(flavor = "current_thread")]
async fn a_rejected_credential_of_the_gateway_is_an_internal_error() {
    let (log, _guard) = capture_logs();
    let fake = start().await;
    let wrong = drupal(&fake).header("Authorization", "Bearer wrong-bearer").unwrap();
    insta::assert_snapshot!(endpoint_responses(&build(wrong), "ada", "probe.whoami").await);
    assert!(log.text().contains("the service does not accept the configured credentials"));
    // Without a configured credential, there is no user to log in as.
    let without_credential = endpoint_responses(&build(drupal(&fake)), "ada", "probe.whoami").await;
    insta::assert_snapshot!(without_credential);
}

#[tokio::test(flavor = "current_thread")]
async fn a_denial_by_the_service_is_404_on_every_endpoint_with_a_reason() {
    let (log, _guard) = capture_logs();
    let fake = start().await;
    let tools = app(per_tool(drupal(&fake)));
    let single = app(drupal(&fake));
    let mut table = String::new();
    table.push_str(&endpoint_responses(&single, "bob", "probe.adminOnly").await);
    table.push_str(&endpoint_responses(&tools, "bob", "probe.adminOnly").await);
    table.push_str(&endpoint_responses(&tools, "bob", "nosuch").await);
    insta::assert_snapshot!(table);
    assert_eq!((single.count(CallOutcome::Denied), tools.count(CallOutcome::Denied)), (5, 5));
    assert_eq!(tools.count(CallOutcome::Status), 5);
    let log = log.text();
    assert_eq!(log.matches("denied: by the service").count(), 10, "{log}");
    assert_eq!(
        log.matches("the service has no tool at the URL from `tool_path`").count(),
        5,
        "{log}"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn the_text_of_an_exception_is_only_in_the_log_unless_errors_are_trusted() {
    let (log, _guard) = capture_logs();
    let fake = start().await;
    let app = app(drupal(&fake));
    let mut table = endpoint_responses(&app, "bob", "probe.boom").await;
    table.push_str(&endpoint_responses(&app, "bob", "probe.nothing").await);
    table.push_str(&endpoint_responses(&app, "bob", "probe.badOutput").await);
    assert!(!table.contains("/var/www") && !table.contains("Shaper"), "{table}");
    insta::assert_snapshot!(table);
    assert_eq!(app.count(CallOutcome::Error), 15);
    let log = log.text();
    assert_eq!(log.matches("secret detail: /var/www/db.inc").count(), 5, "{log}");
    let mut trusting = drupal(&fake);
    trusting.trust_errors = true;
    let trusted = self::app(trusting);
    insta::assert_snapshot!(endpoint_responses(&trusted, "bob", "probe.boom").await);
}

#[tokio::test]
async fn internal_errors_without_a_text_and_deliberate_errors_are_passed_on() {
    let fake = start().await;
    insta::assert_snapshot!(endpoint_responses(&app(drupal(&fake)), "bob", "probe.rpcError").await);
    for error in [
        json!({"code": -32603, "message": "Internal error"}),
        json!({"code": -32603, "message": "Internal Error.", "data": null}),
        json!({"message": "no code"}),
        json!({"code": -32000, "message": "on purpose", "data": "detail"}),
    ] {
        let expected = error["message"].clone();
        let fake = FakeService::start(move |request| request.error(200, error.clone())).await;
        let app = app(drupal(&fake));
        let call = json!({"name": "probe.whoami", "arguments": {}});
        let (status, _, body) = post(&app, "bob", "/mcp/tools/invoke", call).await;
        assert_eq!((status, &body["error"]["message"]), (500, &expected));
        assert_eq!(body["error"].get("error_id"), None);
    }
}

#[tokio::test]
async fn null_for_an_optional_parameter_is_omitted_if_configured() {
    let fake = FakeService::start(|request| request.result(request.body["params"].clone())).await;
    let mut lenient = drupal(&fake);
    lenient.null_is_absent = true;
    let lenient = app(lenient);
    let strict = app(drupal(&fake));
    let call = |arguments: Value| json!({"name": "probe.echo", "arguments": arguments});
    for (arguments, sent) in [
        (json!({"text": "a", "times": null}), json!({"text": "a"})),
        // The parameter allows null.
        (json!({"times": null, "note": null, "text": "a"}), json!({"note": null, "text": "a"})),
        (json!(["a", null, "b"]), json!({"text": "a", "note": "b"})),
    ] {
        let (status, _, body) =
            post(&lenient, "", "/mcp/tools/invoke", call(arguments.clone())).await;
        assert_eq!((status, &body["result"]), (200, &sent));
        let (status, _, body) = post(&strict, "", "/mcp/tools/invoke", call(arguments)).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid_arguments")));
        assert_eq!(
            body["error"]["message"],
            "argument `times`: expected integer, found null; omit the argument, since null is not allowed"
        );
    }
    let required = post(&lenient, "", "/mcp/tools/invoke", call(json!({"text": null}))).await;
    assert_eq!(required.0, 400);
    assert_eq!(required.2["error"]["message"], "argument `text`: expected string, found null");
}

async fn call_concurrently(app: &ForwardApp, ids: &[&str]) -> Vec<(u16, Value)> {
    let calls = ids
        .iter()
        .map(|id| post(app, "bob", "/mcp/tools/invoke", json!({"name": id, "arguments": {}})));
    join_all(calls).await.into_iter().map(|(status, _, body)| (status, body)).collect()
}

#[tokio::test]
async fn batch_errors_without_an_id_are_matched_to_their_calls() {
    let fake = start().await;
    let app = app(drupal(&fake).batch());
    let replies =
        call_concurrently(&app, &["probe.whoami", "probe.adminOnly", "probe.rpcError"]).await;
    assert_eq!(replies[0].1["result"]["name"], "bob");
    assert_eq!((replies[1].0, &replies[1].1["error"]["code"]), (404, &json!("tool_not_found")));
    assert_eq!((replies[2].0, &replies[2].1["error"]["message"]), (500, &json!("Out of stock")));
    assert_eq!(fake.log.requests().len(), 1);
}

#[tokio::test]
async fn after_one_error_for_a_whole_batch_the_other_calls_are_sent_again() {
    let fake = start().await;
    let app = app(drupal(&fake).batch());
    let replies = call_concurrently(&app, &["probe.whoami", "nosuch"]).await;
    assert_eq!(replies[0].1["result"]["name"], "bob");
    assert_eq!(
        (replies[1].0, &replies[1].1["error"]["message"]),
        (500, &json!("Method Not Found"))
    );
    let requests = fake.log.requests();
    assert_eq!((requests.len(), &requests[1].body["method"]), (2, &json!("probe.whoami")));
    assert_eq!(app.retries(), 1);
}
