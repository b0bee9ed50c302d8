//! The endpoints of a server from the builder.

use std::io::Write as _;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::upstream::BoxFuture;
use callgate::{BuildError, Caller, Callgate, Context, Mask, ServeError, method, methods};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use crate::macros::{anonymous, caller};

/// Says who you are.
#[method(id = "who.am_i", read_only)]
fn who_am_i(ctx: &Context) -> String {
    ctx.caller.name().to_owned()
}

/// Is for some only.
#[method(id = "who.secret", section("secrets", read), read_only)]
fn secret() -> &'static str {
    "42"
}

fn gateway() -> Callgate {
    Callgate::builder().methods(methods![who_am_i, secret]).build().unwrap()
}

/// Sends a request of a protocol version with a caller that a layer sets. Returns the whole body.
pub(crate) async fn send_request(
    gateway: &Callgate,
    caller: &Caller,
    revision: &str,
    rpc_method: &str,
    mut params: Value,
) -> String {
    if revision == "2026-07-28" {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": rpc_method, "params": params});
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .header("mcp-protocol-version", revision)
        .header("mcp-method", rpc_method);
    if let Some(name) = params.get("name").or(params.get("uri")).and_then(Value::as_str) {
        request = request.header("mcp-name", name);
    }
    let mut request = request.body(Body::from(message.to_string())).unwrap();
    request.extensions_mut().insert(caller.clone());
    let response = gateway.router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(status.is_success(), "{status}: {body}");
    body
}

/// Reads an event stream.
pub(crate) struct EventReader(Body, String);

impl EventReader {
    /// Returns the data of the next event.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            if let Some((event, rest)) = self.1.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.1 = rest;
                if let Some((_, data)) = event.split_once("data: ") {
                    return data.to_owned();
                }
                continue;
            }
            let frame = self.0.frame().await.unwrap().unwrap();
            self.1.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }
}

/// Opens `subscriptions/listen` as a modern client does.
pub(crate) async fn listen(gateway: &Callgate, caller: &Caller, mut params: Value) -> EventReader {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let rpc_method = "subscriptions/listen";
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": rpc_method, "params": params});
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", rpc_method)
        .body(Body::from(message.to_string()))
        .unwrap();
    request.extensions_mut().insert(caller.clone());
    let response = gateway.router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    EventReader(response.into_body(), String::new())
}

async fn rest(router: axum::Router, token: &str, tool: &str) -> (StatusCode, Value) {
    let body = json!({"name": tool, "arguments": {}}).to_string();
    let request = Request::post("/mcp/tools/invoke")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::from(body))
        .unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Authenticates like an application with its own users.
async fn authentication_layer(mut request: Request, next: Next) -> Response {
    let is_ada = request.headers().get("authorization").is_some_and(|token| token == "Bearer ada");
    if is_ada {
        request.extensions_mut().insert(caller("ada", &[("secrets", Mask::Read)]));
    }
    next.run(request).await
}

#[tokio::test]
async fn a_layer_of_the_application_sets_the_caller() {
    let application = axum::Router::new().route("/", get(async || "the application"));
    let router = application.merge(gateway().router().layer(from_fn(authentication_layer)));
    let (_, ada) = rest(router.clone(), "ada", "who.am_i").await;
    assert_eq!(ada, json!({"result": "ada"}));
    assert_eq!(rest(router.clone(), "ada", "who.secret").await.1, json!({"result": "42"}));
    assert_eq!(rest(router.clone(), "bob", "who.am_i").await.1, json!({"result": "anonymous"}));
    assert_eq!(rest(router.clone(), "bob", "who.secret").await.0, StatusCode::NOT_FOUND);
    let request = Request::get("/").body(Body::empty()).unwrap();
    let page = router.oneshot(request).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(page.to_bytes(), "the application");
}

#[derive(Debug)]
struct ByToken;

impl Authenticate for ByToken {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async {
            match bearer_token(&request.headers)? {
                Some("ada") => Ok(caller("ada", &[])),
                Some(_) => Err(AuthenticateError::InvalidToken),
                None => Ok(Caller::anonymous()),
            }
        })
    }
}

#[tokio::test]
async fn an_authenticator_sets_the_caller() {
    let builder = Callgate::builder().methods(methods![who_am_i]).authenticate(ByToken);
    let gateway = builder.require_auth().build().unwrap();
    assert_eq!(rest(gateway.router(), "ada", "who.am_i").await.1, json!({"result": "ada"}));
    assert_eq!(rest(gateway.router(), "eve", "who.am_i").await.0, StatusCode::UNAUTHORIZED);
    let request = Request::post("/mcp").header("host", "localhost").body(Body::empty()).unwrap();
    let response = gateway.router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn undeclared_arguments_are_refused_unless_the_method_allows_them() {
    #[method(read_only)]
    fn strict(#[default(1)] limit: u32) -> u32 {
        limit
    }
    #[method(read_only, allow_unknown_arguments)]
    fn lenient(#[default(1)] limit: u32) -> u32 {
        limit
    }
    #[method(read_only, allow_unknown_arguments)]
    fn empty() -> u32 {
        7
    }
    let gateway = Callgate::builder().methods(methods![strict, lenient, empty]).build().unwrap();
    let caller = gateway.as_caller(anonymous());
    let refused = caller.call("strict", json!({"limt": 3})).await.unwrap_err().to_string();
    assert!(refused.contains("unknown argument `limt` (did you mean `limit`?)"), "{refused}");
    assert_eq!(caller.call("lenient", json!({"limt": 3})).await.unwrap(), json!(1));
    assert_eq!(caller.call("empty", json!({"limt": 3})).await.unwrap(), json!(7));
    // Over MCP, the schema declares this.
    for revision in ["2025-03-26", "2025-11-25", "2026-07-28"] {
        let listed = send_request(&gateway, &anonymous(), revision, "tools/list", json!({})).await;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let tools = listed["result"]["tools"].as_array().unwrap();
        let additional_properties =
            tools.iter().map(|tool| &tool["inputSchema"]["additionalProperties"]);
        assert_eq!(
            additional_properties.collect::<Vec<_>>(),
            [&json!(true), &json!(true), &json!(false)]
        );
    }
}

#[tokio::test]
async fn all_endpoints_are_served() {
    let gateway = gateway();
    let listed = send_request(&gateway, &anonymous(), "2025-11-25", "tools/list", json!({})).await;
    assert!(listed.contains("\"who_am_i\""), "{listed}");
    assert!(!listed.contains("secret"), "{listed}");
    let called = send_request(
        &gateway,
        &caller("ada", &[]),
        "2026-07-28",
        "tools/call",
        json!({"name": "who_am_i", "arguments": {}}),
    )
    .await;
    assert!(called.contains("\"text\":\"ada\""), "{called}");
    let router = gateway.router().merge(gateway.health_router());
    for path in ["/readyz", "/healthz", "/.well-known/mcp.json", "/mcp/tools/list"] {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn serving_ends_with_the_shutdown_signal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        gateway().serve_on(listener, stopped).await
    });
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = "GET /mcp/tools/describe?name=who.am_i HTTP/1.1\r\n\
                       Host: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        std::io::read_to_string(stream).unwrap()
    });
    assert!(answer.await.unwrap().contains("Says who you are."));
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn anonymous_access_from_other_machines_must_be_allowed_explicitly() {
    let listener = async || TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = gateway().serve_on(listener().await, async {}).await.unwrap_err();
    assert!(matches!(refused, ServeError::Unprotected(_)));
    assert!(refused.to_string().contains("`require_auth()`"), "{refused}");
    let open = Callgate::builder().methods(methods![secret]).allow_anonymous().build().unwrap();
    open.serve_on(listener().await, async {}).await.unwrap();
}

#[test]
fn all_problems_are_reported_together() {
    #[method(id = "who.am_i", read_only)]
    fn duplicate_who_am_i() {}
    #[method(id = "who.secret", read_only)]
    fn duplicate_secret() {}
    let builder = Callgate::builder().methods(methods![
        who_am_i,
        secret,
        duplicate_who_am_i,
        duplicate_secret
    ]);
    let error = builder.build().unwrap_err();
    assert!(matches!(&error, BuildError::Methods(all) if all.len() == 2));
    insta::assert_snapshot!(error);
}

#[tokio::test]
async fn paths_of_the_application_are_not_replaced() {
    let application = axum::Router::new()
        .route("/healthz", get(async || "its own"))
        .route("/.well-known/security.txt", get(async || "its own"))
        .fallback(async || (StatusCode::NOT_FOUND, "its own"));
    let gateway = Callgate::builder().methods(methods![who_am_i]).require_auth().build().unwrap();
    let router = application.merge(gateway.router());
    for (path, status) in [
        ("/healthz", StatusCode::OK),
        ("/.well-known/security.txt", StatusCode::OK),
        ("/unknown", StatusCode::NOT_FOUND),
    ] {
        let request =
            Request::get(path).header("host", "shop.example").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "its own", "{path}");
    }
    let request =
        Request::post("/jsonrpc").header("host", "localhost").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn http_options_do_not_reset_require_auth() {
    let options = callgate::http::HttpOptions { raw_request: true, ..Default::default() };
    let builder = Callgate::builder().methods(methods![who_am_i]).allowed_hosts(["shop.example"]);
    let gateway = builder.require_auth().http_options(options).build().unwrap();
    let request =
        Request::get("/mcp/tools/list").header("host", "localhost").body(Body::empty()).unwrap();
    let response = gateway.router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

/// Fails in the ways that a function can.
#[method(destructive)]
fn fail(how: String) -> Result<(), callgate::Error> {
    match how.as_str() {
        "told" => Err(callgate::Error::tool("no").with_data(json!({"left": 3}))),
        _ => Err("a secret".into()),
    }
}

#[tokio::test]
async fn metrics_of_the_builder_count_calls_of_functions() {
    let server = Callgate::builder().methods(methods![who_am_i, fail]).metrics().build().unwrap();
    let router = server.router();
    let send = async |request: Request| {
        let response = router.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    };
    let post = |path: &str, body: Value| {
        let request = Request::post(path).header("host", "localhost");
        request
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap()
    };
    for (name, arguments) in [("who.am_i", json!({})), ("fail", json!({"how": "x"}))] {
        send(post("/mcp/tools/invoke", json!({"name": name, "arguments": arguments}))).await;
    }
    let rest = post("/mcp/tools/invoke", json!({"name": "fail", "arguments": {"how": "told"}}));
    let rest: Value = serde_json::from_str(&send(rest).await).unwrap();
    assert_eq!(rest["error"]["data"]["data"], json!({"left": 3}), "{rest}");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "fail", "params": {"how": "told"}});
    let reply: Value = serde_json::from_str(&send(post("/jsonrpc", call)).await).unwrap();
    assert_eq!(reply["error"], json!({"code": 1, "message": "no", "data": {"left": 3}}));
    let get = Request::get("/metrics").header("host", "localhost").body(Body::empty()).unwrap();
    let metrics = send(get).await;
    for line in [
        "callgate_tools 2",
        "callgate_upstream_calls_total{upstream=\"local\",outcome=\"result\"} 1",
        "callgate_upstream_calls_total{upstream=\"local\",outcome=\"error\"} 2",
        "callgate_upstream_calls_total{upstream=\"local\",outcome=\"failed\"} 1",
        "callgate_upstream_calls_in_progress{upstream=\"local\"} 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
}
