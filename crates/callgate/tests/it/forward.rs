//! Methods on small JSON-RPC services on loopback, through the HTTP client and every endpoint.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop, and reads better so"
)]

mod batches;
mod budget;
mod calls;
mod credentials;
mod down;
mod drupal;
mod endpoints;
mod failures;
mod fake_web_socket;
mod metrics;
mod oauth;
mod recorded;
mod retries;
mod secrets;
mod service_texts;
mod sessions;
mod shares;
mod tokens;
mod transports;
mod visibility;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use callgate::forward::{BreakerLimits, CallOutcome, Forward, ForwardLimits, ForwardOptions};
use callgate::model::{Method, Param, Safety};
use callgate::upstream::Upstream as _;
use callgate::{Caller, Callgate, User};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Longer than any step of these tests takes on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A gateway in front of a service.
struct ForwardApp {
    gateway: Callgate,
    forward: Arc<Forward>,
}

impl ForwardApp {
    fn new(url: &str) -> Self {
        Self::with(options(url))
    }

    /// Creates an application with a short time limit for each call.
    fn with_timeout(url: &str, timeout: Duration) -> Self {
        Self::with(options(url).limits(ForwardLimits { timeout, ..limits() }))
    }

    fn with(options: ForwardOptions) -> Self {
        let forward = Arc::new(Forward::new("shop", options).unwrap());
        let gateway = Callgate::builder()
            .shared_upstream("shop", Arc::clone(&forward) as _)
            .upstream_methods(methods())
            .build()
            .unwrap();
        Self { gateway, forward }
    }

    async fn send(&self, request: Request<Body>) -> (u16, Value) {
        let response = self
            .gateway
            .router()
            .merge(self.gateway.health_router())
            .oneshot(request)
            .await
            .unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(
            Request::post(path)
                .header("host", "localhost")
                .body(Body::from(body.to_string()))
                .unwrap(),
        )
        .await
    }

    /// Calls a method over REST.
    async fn invoke(&self, id: &str, arguments: Value) -> (u16, Value) {
        self.post("/mcp/tools/invoke", json!({"name": id, "arguments": arguments})).await
    }

    /// Returns the text of a call over MCP, and whether it is an error.
    async fn text(&self, name: &str, arguments: Value) -> (String, bool) {
        let params = json!({"name": name, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let (_, reply) = self.post("/mcp", message).await;
        let result = &reply["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"));
        (without_error_id(text), result["isError"] == true)
    }

    async fn ready(&self) -> Value {
        let request = Request::get("/readyz").extension(ada());
        self.send(request.body(Body::empty()).unwrap()).await.1
    }

    fn count(&self, outcome: CallOutcome) -> u64 {
        let counters = self.forward.counters().unwrap();
        counters.outcomes.iter().find(|(name, _)| *name == outcome.name()).unwrap().1
    }

    fn retries(&self) -> u64 {
        self.forward.counters().unwrap().retries
    }
}

fn options(url: &str) -> ForwardOptions {
    ForwardOptions::new(url.parse().unwrap()).limits(limits())
}

/// Returns limits for tests: enough time for a busy machine, small results, and a breaker that stays closed.
fn limits() -> ForwardLimits {
    let breaker = BreakerLimits { failures: 1000, ..BreakerLimits::default() };
    ForwardLimits {
        timeout: TIMEOUT,
        connect: TIMEOUT,
        result_bytes: 1000,
        breaker,
        ..ForwardLimits::default()
    }
}

fn methods() -> [Method; 3] {
    let method = |id: &str| Method::new(id.parse().unwrap()).upstream("shop");
    [
        method("order.get")
            .safety(Safety::ReadOnly)
            .param(Param::new("id", "int".parse().unwrap()))
            .param(Param::new("note", "?string".parse().unwrap()).optional()),
        method("order.delete")
            .safety(Safety::Destructive)
            .param(Param::new("id", "int".parse().unwrap())),
        method("order.find").guessed_safety(Safety::ReadOnly),
    ]
}

fn ada() -> Caller {
    let user = User { id: 7, name: "ada".to_owned(), role: Some("Editor é".to_owned()) };
    Caller::user(user, callgate::Grants::default())
}

/// Removes the error id, which differs each time.
fn without_error_id(text: &str) -> String {
    match text.split_once("mcp_") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            format!("{before}ID{rest}")
        }
        None => text.to_owned(),
    }
}
