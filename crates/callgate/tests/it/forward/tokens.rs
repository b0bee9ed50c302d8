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
struct Curious(Arc<Mutex<Vec<Option<String>>>>);

impl Upstream for Curious {
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let token = call.caller.token().map(|token| token.expose().to_owned());
        assert!(!format!("{call:?}").contains("s3cret"));
        self.0.lock().unwrap().push(token);
        Box::pin(std::future::ready(Ok(serde_json::value::RawValue::NULL.to_owned().into())))
    }
}

fn passing(url: &str, header: Option<&str>) -> Forward {
    let token = header.map(|name| header_name(name).unwrap());
    let pass_caller = CallerHeaders { token, ..CallerHeaders::default() };
    Forward::new("shop", options(url).caller_headers(pass_caller).unwrap()).unwrap()
}

fn gateway(url: &str, header: Option<&str>, curious: &Curious) -> Callgate {
    let method = |id: &str, upstream| Method::new(id.parse().unwrap()).upstream(upstream);
    Callgate::builder()
        .upstream("asking", passing(url, header))
        .upstream("silent", passing(url, None))
        .upstream("curious", curious.clone())
        .upstream_methods([method("a", "asking"), method("b", "silent"), method("c", "curious")])
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

fn header(seen: &ReceivedRequest, name: &str) -> Option<String> {
    seen.headers.get(name).cloned()
}

#[tokio::test]
async fn a_token_is_sent_only_to_upstreams_that_need_it() {
    let fake = FakeService::start(|seen| seen.result(json!(1))).await;
    let curious = Curious::default();
    let app = gateway(&fake.url("/rpc"), Some("X-Authorization"), &curious);
    for (id, token) in [("a", TOKEN), ("b", TOKEN), ("a", "unknown")] {
        call(&app, id, token).await;
    }
    let seen = fake.log.requests();
    let sent: Vec<_> = seen.iter().map(|seen| header(seen, "x-authorization")).collect();
    assert_eq!(sent, [Some(TOKEN.to_owned()), None, None], "only a valid token, to one upstream");
    assert!(seen.iter().all(|seen| header(seen, "authorization").is_none()));
    let app = gateway(&fake.url("/rpc"), Some("Authorization"), &curious);
    call(&app, "a", TOKEN).await;
    let sent = header(&fake.log.requests()[3], "authorization");
    assert_eq!(sent, Some(format!("Bearer {TOKEN}")));
}

#[tokio::test]
async fn tokens_are_not_kept_unless_an_upstream_uses_them() {
    let fake = FakeService::start(|seen| seen.result(json!(1))).await;
    let curious = Curious::default();
    let app = gateway(&fake.url("/rpc"), None, &curious);
    call(&app, "c", TOKEN).await;
    // An upstream that is added later may need the token.
    let asking: (Arc<str>, Arc<dyn Upstream>) =
        ("more".into(), Arc::new(passing(&fake.url("/rpc"), Some("X-Token"))));
    app.gateway().set_dynamic_upstreams([asking]);
    call(&app, "c", TOKEN).await;
    app.gateway().set_dynamic_upstreams([]);
    call(&app, "c", TOKEN).await;
    let heard = curious.0.lock().unwrap().clone();
    assert_eq!(heard, [None, Some(TOKEN.to_owned()), None]);
}

#[test]
fn a_token_does_not_show() {
    let caller = ada().with_token(Secret::new(TOKEN).unwrap());
    assert!(!format!("{caller:?}").contains("s3cret"));
}
