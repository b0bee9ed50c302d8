//! A service whose description depends on the user. The replies are those of a recorded Drupal site.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use callgate::forward::{
    CredentialLocation, CredentialOptions, Forward, ForwardOptions, MethodListSource,
    MissingCredential, UpstreamVisibility, header_name,
};
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::model::{Method, ParamStyle};
use callgate::upstream::{BoxFuture, CallerMethods, CredentialError, Credentials, Upstream};
use callgate::{Caller, Callgate, Secret};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::forward::credentials::user;
use crate::forward::recorded::{EXCHANGES, json_of};
use crate::forward::{ada, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

const LIST: &str = "/mcp/tools/list";

/// The pages of the site's list for two users.
static ADA_1: LazyLock<String> = LazyLock::new(|| json_of(LIST, "ada-bearer"));
static ADA_2: LazyLock<String> =
    LazyLock::new(|| json_of("/mcp/tools/list?cursor=NTA%3D", "ada-bearer"));
static BOB: LazyLock<String> = LazyLock::new(|| json_of(LIST, "bob-bearer"));

/// The error with which the site denies a method.
static DENIED: LazyLock<String> = LazyLock::new(|| {
    let is_denial = |exchange: &&Value| exchange["response"]["json"]["error"]["code"] == -32600;
    EXCHANGES.iter().find(is_denial).unwrap()["response"]["json"].to_string()
});

/// A page of a site that refuses the request.
const PAGE: &str = "<!DOCTYPE html><html lang=\"en\"><title>Access denied</title></html>";

/// Returns the names of the tools on a page.
fn names(page: &str) -> Vec<String> {
    let page: Value = serde_json::from_str(page).unwrap();
    let tools = page["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Replies like the recorded site.
fn site(request: &ReceivedRequest) -> FakeResponse {
    let authorization = request.headers.get("authorization").map_or("", String::as_str);
    let json = |page: &str| FakeResponse::text(200, "application/json", page);
    match (request.request_line.as_str(), authorization) {
        ("GET /mcp/tools/list HTTP/1.1", "Bearer of-ada") => json(&ADA_1),
        ("GET /mcp/tools/list?cursor=NTA%3D HTTP/1.1", "Bearer of-ada") => json(&ADA_2),
        ("GET /mcp/tools/list HTTP/1.1", "Bearer of-bob") => json(&BOB),
        ("GET /mcp/tools/list HTTP/1.1", "") => FakeResponse::text(403, "text/html", PAGE),
        ("GET /mcp/tools/list HTTP/1.1", _) => FakeResponse::text(401, "text/html", PAGE),
        ("POST /jsonrpc HTTP/1.1", "Bearer of-ada") => request.result(json!("done")),
        ("POST /jsonrpc HTTP/1.1", _) => json(&DENIED),
        other => panic!("{other:?}"),
    }
}

/// The credentials by user id: 7 is ada, 8 is bob, and 9 is eve, whose credential is wrong. Other users have none.
#[derive(Debug)]
struct UserCredentials(Mutex<HashMap<i64, &'static str>>);

impl Credentials for UserCredentials {
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
        let credentials = self.0.lock().unwrap();
        let credential = caller.user.as_ref().and_then(|user| credentials.get(&user.id));
        Box::pin(std::future::ready(Ok(credential.and_then(|credential| Secret::new(credential)))))
    }
}

fn user_credentials() -> Arc<UserCredentials> {
    Arc::new(UserCredentials(Mutex::new(HashMap::from([
        (7, "of-ada"),
        (8, "of-bob"),
        (9, "wrong"),
    ]))))
}

/// The token of a caller is the name of the user.
#[derive(Debug)]
struct AuthenticateByName;

fn named(name: &str) -> Caller {
    match name {
        "ada" => ada(),
        "bob" => user(8, "bob"),
        "eve" => user(9, "eve"),
        "dan" => user(10, "dan"),
        _ => Caller::anonymous(),
    }
}

impl Authenticate for AuthenticateByName {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async { Ok(named(bearer_token(&request.headers)?.unwrap_or_default())) })
    }
}

fn described_by(mut options: ForwardOptions, source: MethodListSource) -> ForwardOptions {
    let max_age = Duration::from_mins(1);
    options.visibility = Some(UpstreamVisibility { source, max_age });
    options
}

fn drupal(fake: &FakeService, missing: MissingCredential) -> ForwardOptions {
    let location = CredentialLocation::Header(header_name("Authorization").unwrap());
    let credential =
        CredentialOptions { location, prefix: "Bearer ".to_owned(), missing, oauth: None };
    let options = options(&format!("http://{}/jsonrpc", fake.address));
    described_by(
        options.credential(credential, user_credentials()).unwrap(),
        MethodListSource::JsonRpcMcp,
    )
}

/// Returns a gateway with all methods that ada sees at the site.
fn gateway(options: ForwardOptions) -> Callgate {
    gateway_with_prefix(options, "")
}

fn gateway_with_prefix(options: ForwardOptions, prefix: &str) -> Callgate {
    let all = names(&ADA_1).into_iter().chain(names(&ADA_2));
    let methods = all.map(|name| {
        let id = format!("{prefix}{name}").parse().unwrap();
        Method::new(id).upstream("drupal").remote_name(name)
    });
    Callgate::builder()
        .upstream("drupal", Forward::new("drupal", options).unwrap())
        .upstream_methods(methods.collect::<Vec<_>>())
        .authenticate(AuthenticateByName)
        .build()
        .unwrap()
}

async fn send(gateway: &Callgate, caller: &str, path: &str, body: Option<Value>) -> Value {
    let request = match &body {
        Some(_) => Request::post(path).header("host", "localhost"),
        None => Request::get(path).header("host", "localhost"),
    };
    let request = match caller {
        "" => request,
        caller => request.header("authorization", format!("Bearer {caller}")),
    };
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let response = gateway.router().oneshot(request.body(body).unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// Returns the number of tools that a user sees at each endpoint.
async fn counts(gateway: &Callgate, caller: &str) -> [usize; 3] {
    let rpc = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
    let length = |list: &Value| list.as_array().unwrap().len();
    let listed = send(gateway, caller, "/mcp", Some(rpc("tools/list"))).await;
    let document = send(gateway, caller, "/jsonrpc", Some(rpc("rpc.discover"))).await;
    let (mut rest, mut path) = (0, "/mcp/tools/list".to_owned());
    loop {
        let page = send(gateway, caller, &path, None).await;
        rest += length(&page["tools"]);
        match page["nextCursor"].as_str() {
            Some(cursor) => path = format!("/mcp/tools/list?cursor={cursor}"),
            None => break,
        }
    }
    [rest, length(&listed["result"]["tools"]), length(&document["result"]["methods"])]
}

async fn visible_methods(gateway: &Callgate, caller: Caller) -> Vec<String> {
    let gateway = gateway.gateway();
    gateway.as_caller(gateway.prepare(caller).await).methods()
}

#[tokio::test]
async fn each_user_sees_the_methods_that_drupal_lists_for_them() {
    let fake = FakeService::start(site).await;
    let gateway = gateway(drupal(&fake, MissingCredential::Refuse));
    assert_eq!(counts(&gateway, "ada").await, [86; 3]);
    assert_eq!(counts(&gateway, "bob").await, [25; 3]);
    assert_eq!(counts(&gateway, "eve").await, [0; 3], "her credential is refused");
    assert_eq!(counts(&gateway, "dan").await, [0; 3], "he has no credential");
    assert_eq!(counts(&gateway, "").await, [0; 3]);
    assert_eq!(fake.log.requests().len(), 4, "two pages for ada, one for bob, one for eve");
    let mut expected = names(&BOB);
    expected.sort();
    assert_eq!(visible_methods(&gateway, named("bob")).await, expected);
}

#[tokio::test]
async fn methods_are_listed_and_denied_by_their_names_at_the_service() {
    let fake = FakeService::start(site).await;
    let gateway = gateway_with_prefix(drupal(&fake, MissingCredential::Refuse), "site.");
    let id = format!("site.{}", names(&BOB)[0]);
    assert_eq!(counts(&gateway, "bob").await, [25; 3]);
    let call = json!({"name": id, "arguments": {}});
    let denied = send(&gateway, "bob", "/mcp/tools/invoke", Some(call)).await;
    let message = denied["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("Tool '{id}' not found")), "{message}");
    assert_eq!(counts(&gateway, "bob").await, [24; 3]);
}

#[tokio::test]
async fn methods_that_drupal_does_not_list_are_reported_as_unknown_and_not_called() {
    let fake = FakeService::start(site).await;
    let gateway = gateway(drupal(&fake, MissingCredential::Refuse));
    let hidden = names(&ADA_2).into_iter().find(|id| !names(&BOB).contains(id)).unwrap();
    let mut replies = Vec::new();
    for id in [hidden.as_str(), "no.such"] {
        let call = json!({"name": id, "arguments": {}});
        let describe = format!("/mcp/tools/describe?name={id}");
        let envelope = json!({"jsonrpc": "2.0", "id": 1, "method": id, "params": {}});
        replies.push([
            send(&gateway, "bob", "/mcp/tools/invoke", Some(call)).await,
            send(&gateway, "bob", &describe, None).await,
            send(&gateway, "bob", &format!("/mcp/tools/{id}"), Some(envelope.clone())).await,
            send(&gateway, "bob", "/jsonrpc", Some(envelope)).await,
        ]);
    }
    let hide = |replies: &[Value; 4], id: &str| format!("{replies:?}").replace(id, "ID");
    assert_eq!(hide(&replies[0], &hidden), hide(&replies[1], "no.such"));
    assert!(
        replies[0][0]["error"]["message"].as_str().unwrap().contains("not found or access denied")
    );
    assert!(fake.log.requests().iter().all(|request| request.request_line.starts_with("GET ")));
}

#[tokio::test]
async fn a_method_that_drupal_denies_is_no_longer_listed() {
    let fake = FakeService::start(site).await;
    let gateway = gateway(drupal(&fake, MissingCredential::Refuse));
    let id = names(&BOB)[0].clone();
    assert!(visible_methods(&gateway, named("bob")).await.contains(&id));
    assert!(gateway.as_caller(named("bob")).call(&id, json!({})).await.is_err());
    let remaining = visible_methods(&gateway, named("bob")).await;
    assert_eq!((remaining.len(), remaining.contains(&id)), (24, false));
    assert!(
        visible_methods(&gateway, named("ada")).await.contains(&id),
        "other users still see it"
    );
}

#[tokio::test]
async fn callers_without_a_credential_share_a_list() {
    let fake = FakeService::start(|request| match request.headers.get("authorization") {
        None => FakeResponse::text(200, "application/json", BOB.as_str()),
        Some(_) => FakeResponse::text(200, "application/json", ADA_2.as_str()),
    })
    .await;
    let gateway = gateway(drupal(&fake, MissingCredential::Anonymous));
    assert_eq!(visible_methods(&gateway, Caller::anonymous()).await.len(), 25);
    assert_eq!(visible_methods(&gateway, named("dan")).await.len(), 25);
    assert_eq!(fake.log.requests().len(), 1);
    assert_eq!(visible_methods(&gateway, named("ada")).await.len(), 36);
}

#[tokio::test]
async fn invalid_or_endless_pages_are_an_error() {
    let case = Arc::new(AtomicUsize::new(0));
    let current_case = Arc::clone(&case);
    let fake = FakeService::start(move |request| match current_case.load(Ordering::SeqCst) {
        0 => FakeResponse::text(503, "text/html", PAGE),
        1 => FakeResponse::text(200, "text/html", PAGE),
        2 => FakeResponse::json(404, json!({"error": "no module"})),
        3 => FakeResponse::json(200, json!({"tools": null})),
        4 => FakeResponse::json(200, json!({"tools": [], "nextCursor": "again"})),
        5 => {
            FakeResponse::json(200, json!({"tools": [], "nextCursor": request.number.to_string()}))
        }
        6 => FakeResponse::close(),
        _ => FakeResponse::json(200, json!({"tools": []})),
    })
    .await;
    let forward = Forward::new("drupal", drupal(&fake, MissingCredential::Refuse)).unwrap();
    let lister = Upstream::method_lister(&forward).unwrap();
    let mut errors = Vec::new();
    for number in 0..7 {
        case.store(number, Ordering::SeqCst);
        errors.push(lister.methods(&ada()).await.unwrap_err().to_string());
    }
    insta::assert_debug_snapshot!(errors);
    case.store(7, Ordering::SeqCst);
    let empty = CallerMethods::Listed(Vec::new());
    assert_eq!(lister.methods(&ada()).await.unwrap(), empty, "an empty list is valid");
}

#[tokio::test]
async fn an_openrpc_document_is_requested_with_the_callers_credential() {
    // The document is larger than the limit of results, which does not apply to lists.
    let document = |names: &[&str]| {
        let methods: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"openrpc": "1.3.2", "info": {"title": "x".repeat(2000)}, "methods": methods})
    };
    let fake = FakeService::start(move |request| {
        assert_eq!(request.body["method"], "rpc.discover");
        match request.body["params"][0].as_str() {
            Some("of-ada") => request.result(document(&["a", "b"])),
            Some("of-bob") => request.result(document(&["a"])),
            _ => request.error(200, json!({"code": -32601, "message": "Method not found"})),
        }
    })
    .await;
    let credential = CredentialOptions {
        location: CredentialLocation::FirstParam,
        prefix: String::new(),
        missing: MissingCredential::Refuse,
        oauth: None,
    };
    let options = options(&fake.url("/rpc")).params(ParamStyle::Positional);
    let options = described_by(
        options.credential(credential, user_credentials()).unwrap(),
        MethodListSource::OpenRpc,
    );
    for options in [options.clone(), options.batch()] {
        let forward = Forward::new("shop", options).unwrap();
        let lister = Upstream::method_lister(&forward).unwrap();
        let expected =
            |ids: &[&str]| CallerMethods::Listed(ids.iter().map(|id| (*id).to_owned()).collect());
        assert_eq!(lister.methods(&named("ada")).await.unwrap(), expected(&["a", "b"]));
        assert_eq!(lister.methods(&named("bob")).await.unwrap(), expected(&["a"]));
        let refused = lister.methods(&named("dan")).await.unwrap();
        assert_eq!(
            refused,
            CallerMethods::Refused("`dan` has no credential for the service".to_owned())
        );
        let failed = lister.methods(&named("eve")).await.unwrap_err();
        assert_eq!(failed.to_string(), "the service returned the error -32601");
    }
}

#[tokio::test]
async fn an_identity_changes_with_the_credential_and_does_not_reveal_it() {
    let fake = FakeService::start(site).await;
    let credentials = user_credentials();
    let location = CredentialLocation::Header(header_name("Authorization").unwrap());
    let missing = MissingCredential::Refuse;
    let credential =
        CredentialOptions { location, prefix: "Bearer ".to_owned(), missing, oauth: None };
    let options =
        options(&fake.url("/rpc")).credential(credential, Arc::clone(&credentials) as _).unwrap();
    let options = described_by(options, MethodListSource::JsonRpcMcp);
    let forward = Forward::new("drupal", options).unwrap();
    let lister = Upstream::method_lister(&forward).unwrap();
    let first = lister.identity(&named("ada")).await.unwrap();
    assert_eq!(first, lister.identity(&named("ada")).await.unwrap());
    assert_ne!(first, lister.identity(&named("bob")).await.unwrap());
    assert!(!format!("{first:?}").contains("of-ada"));
    credentials.0.lock().unwrap().insert(7, "another");
    assert_ne!(first, lister.identity(&named("ada")).await.unwrap());
    assert_eq!(lister.identity(&named("dan")).await.unwrap(), None);
}

#[test]
fn lists_of_drupal_are_not_read_over_websocket() {
    let options = described_by(options("ws://localhost/jsonrpc"), MethodListSource::JsonRpcMcp);
    let problem = Forward::new("drupal", options).unwrap_err();
    insta::assert_snapshot!(
        problem,
        @r#"`described_by = "jsonrpc_mcp"` cannot be used with WebSocket: its lists are read over HTTP"#
    );
}
