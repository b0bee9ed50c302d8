//! The token of the caller: kept and passed on only if an upstream needs it.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use callgate::forward::{CallerHeaders, Forward, header_name};
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::model::Method;
use callgate::upstream::{BoxFuture, Call, CallError, CallOutput, Upstream};
use callgate::{Caller, Callgate, Secret};
use serde_json::json;
use tower::ServiceExt as _;

use crate::forward::{ada, options};
use callgate_test_support::fake_service::{FakeService, ReceivedRequest};

/// A caller with this token is ada. All other callers are anonymous.
const TOKEN: &str = "cg_s3cret";

#[derive(Debug)]
struct OneToken;

impl Authenticate for OneToken {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async {
            let is_ada = bearer_token(&request.headers)? == Some(TOKEN);
            Ok(if is_ada { ada() } else { Caller::anonymous() })
        })
    }
}

/// Records the tokens of its callers.
#[derive(Debug, Default, Clone)]
struct TokenRecorder(Arc<Mutex<Vec<Option<String>>>>);

impl Upstream for TokenRecorder {
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let token = call.caller.token().map(|token| token.expose().to_owned());
        assert!(!format!("{call:?}").contains("s3cret"));
        self.0.lock().unwrap().push(token);
        Box::pin(std::future::ready(Ok(serde_json::value::RawValue::NULL.to_owned().into())))
    }
}

fn forward_with_token_header(url: &str, header: Option<&str>) -> Forward {
    let token = header.map(|name| header_name(name).unwrap());
    let pass_caller = CallerHeaders { token, ..CallerHeaders::default() };
    Forward::new("shop", options(url).caller_headers(pass_caller).unwrap()).unwrap()
}

fn gateway(url: &str, header: Option<&str>, recorder: &TokenRecorder) -> Callgate {
    let method = |id: &str, upstream| Method::new(id.parse().unwrap()).upstream(upstream);
    Callgate::builder()
        .upstream("asking", forward_with_token_header(url, header))
        .upstream("silent", forward_with_token_header(url, None))
        .upstream("recorder", recorder.clone())
        .upstream_methods([method("a", "asking"), method("b", "silent"), method("c", "recorder")])
        .authenticate(OneToken)
        .build()
        .unwrap()
}

async fn call(gateway: &Callgate, id: &str, token: &str) {
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": id, "arguments": {}}});
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("Authorization", format!("Bearer {token}"))
        .body(Body::from(rpc.to_string()))
        .unwrap();
    assert_eq!(gateway.router().oneshot(request).await.unwrap().status(), 200);
}

fn header(request: &ReceivedRequest, name: &str) -> Option<String> {
    request.headers.get(name).cloned()
}

#[tokio::test]
async fn a_token_is_sent_only_to_upstreams_that_need_it() {
    let fake = FakeService::start(|request| request.result(json!(1))).await;
    let recorder = TokenRecorder::default();
    let app = gateway(&fake.url("/rpc"), Some("X-Authorization"), &recorder);
    for (id, token) in [("a", TOKEN), ("b", TOKEN), ("a", "unknown")] {
        call(&app, id, token).await;
    }
    let requests = fake.log.requests();
    let sent: Vec<_> = requests.iter().map(|request| header(request, "x-authorization")).collect();
    assert_eq!(sent, [Some(TOKEN.to_owned()), None, None], "only a valid token, to one upstream");
    assert!(requests.iter().all(|request| header(request, "authorization").is_none()));
    let app = gateway(&fake.url("/rpc"), Some("Authorization"), &recorder);
    call(&app, "a", TOKEN).await;
    let sent = header(&fake.log.requests()[3], "authorization");
    assert_eq!(sent, Some(format!("Bearer {TOKEN}")));
}

#[tokio::test]
async fn tokens_are_not_kept_unless_an_upstream_uses_them() {
    let fake = FakeService::start(|request| request.result(json!(1))).await;
    let recorder = TokenRecorder::default();
    let app = gateway(&fake.url("/rpc"), None, &recorder);
    call(&app, "c", TOKEN).await;
    // An upstream that is added later may need the token.
    let upstream: (Arc<str>, Arc<dyn Upstream>) =
        ("more".into(), Arc::new(forward_with_token_header(&fake.url("/rpc"), Some("X-Token"))));
    app.gateway().set_dynamic_upstreams([upstream]);
    call(&app, "c", TOKEN).await;
    app.gateway().set_dynamic_upstreams([]);
    call(&app, "c", TOKEN).await;
    let received = recorder.0.lock().unwrap().clone();
    assert_eq!(received, [None, Some(TOKEN.to_owned()), None]);
}

#[test]
fn the_debug_output_of_a_caller_does_not_contain_the_token() {
    let caller = ada().with_token(Secret::new(TOKEN).unwrap());
    assert!(!format!("{caller:?}").contains("s3cret"));
}
