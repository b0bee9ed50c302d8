//! Functions that neither wait nor have a context are answered without a `RunningCall`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::Request;
use callgate::http::{self, Anonymous, HttpOptions, Readiness};
use callgate::mcp::{BatchPart, Identify, IdentifyError, Inbound, InboundKind, McpResponse};
use callgate::upstream::BoxFuture;
use callgate::{Caller, Callgate, Context, method, methods};
use serde_json::{Value, json};

use crate::macros::anonymous;

/// Maximum size of the future of a request, in bytes. hyper moves the future several times.
const MAX_FUTURE: usize = 5 * 1024;

static RUNS: AtomicUsize = AtomicUsize::new(0);

#[method(read_only)]
fn counted() -> usize {
    RUNS.fetch_add(1, Ordering::Relaxed)
}

#[method(read_only)]
fn plain(text: String) -> String {
    text
}

#[expect(clippy::panic, reason = "the test needs a method that panics")]
#[method(read_only)]
fn panicking() -> u32 {
    panic!("no number")
}

#[method(read_only)]
fn with_context(ctx: &Context) -> String {
    ctx.caller.name().to_owned()
}

#[method(read_only)]
async fn waiting() -> u32 {
    7
}

fn gateway() -> Callgate {
    let methods = methods![counted, plain, panicking, with_context, waiting];
    Callgate::builder().methods(methods).build().unwrap()
}

struct IdentifyAnonymous;

impl Identify for IdentifyAnonymous {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
        Box::pin(async { Ok(anonymous()) })
    }
}

/// Passes a message on as an HTTP transport without headers would.
async fn handle(gateway: &Callgate, message: &Value) -> Result<McpResponse, String> {
    let (body, caller) = (message.to_string(), anonymous());
    let kind = InboundKind::RawRequest;
    let identify = || Arc::new(IdentifyAnonymous) as Arc<dyn Identify>;
    let inbound = Inbound {
        kind,
        headers: None,
        body: &body,
        connection: None,
        caller: &caller,
        identify: &identify,
        accepts_events: true,
    };
    gateway.mcp().handle(&inbound).await.map_err(|error| error.error.message)
}

fn call(name: &str, arguments: &Value, meta: &Value) -> Value {
    let mut params = json!({"name": name, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    for (key, value) in meta.as_object().into_iter().flatten() {
        params["_meta"][key] = value.clone();
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

fn message(response: McpResponse) -> Option<Value> {
    let McpResponse::Message(message) = response else { return None };
    serde_json::from_slice(&message.into_slices().concat()).ok()
}

#[tokio::test]
async fn only_functions_that_cannot_wait_are_answered_at_once() {
    let gateway = gateway();
    let reply = handle(&gateway, &call("plain", &json!({"text": "hi"}), &json!({}))).await;
    let reply = message(reply.unwrap()).unwrap();
    assert_eq!(reply["result"]["structuredContent"], "hi");
    for name in ["with_context", "waiting"] {
        let reply = handle(&gateway, &call(name, &json!({}), &json!({}))).await.unwrap();
        assert!(matches!(reply, McpResponse::Call(_)), "{name}: {reply:?}");
    }
    let large = json!({"text": "x".repeat(10_000)});
    let reply = handle(&gateway, &call("plain", &large, &json!({}))).await.unwrap();
    let McpResponse::Call(mut reply) = reply else { panic!("{reply:?}") };
    let reply = reply.reply().await.unwrap().message.into_slices().concat();
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(reply["result"]["structuredContent"], large["text"]);
}

#[tokio::test]
async fn wrong_arguments_and_a_panic_are_errors_for_the_agent() {
    let gateway = gateway();
    for (name, expected) in [("plain", "text"), ("panicking", "error id")] {
        let reply = handle(&gateway, &call(name, &json!({}), &json!({}))).await.unwrap();
        let reply = message(reply).unwrap();
        assert_eq!(reply["result"]["isError"], true, "{reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected) && !text.contains("no number"), "{text}");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_does_not_run() {
    let gateway = gateway();
    let level = json!({"io.modelcontextprotocol/logLevel": "loud"});
    let refused = handle(&gateway, &call("counted", &json!({}), &level)).await.unwrap_err();
    assert!(refused.contains("log level"), "{refused}");
    let mut state = call("counted", &json!({}), &json!({}));
    state["params"]["requestState"] = "made up".into();
    let refused = handle(&gateway, &state).await.unwrap_err();
    assert!(refused.contains("requestState"), "{refused}");
    let call_message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "counted"}});
    let batch = handle(&gateway, &json!([call_message])).await.unwrap();
    let McpResponse::Batch(parts) = batch else { panic!("{batch:?}") };
    assert!(matches!(parts.as_slice(), [BatchPart::Call(_)]), "calls of a batch run concurrently");
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_future_of_a_request_is_small() {
    let mcp = Arc::clone(gateway().mcp());
    let service =
        http::service(mcp, Arc::new(Anonymous), Readiness::default(), HttpOptions::default());
    let request = Request::post("/mcp").body(Body::empty()).unwrap();
    let size = size_of_val(&service.respond(request, None));
    assert!(size <= MAX_FUTURE, "{size} bytes");
}
