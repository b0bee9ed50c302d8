//! The service behind the server: JSON-RPC methods that are fast, slow or have large results.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Number of additional methods, which are never called. They make the list of tools large.
const EXTRA_METHODS: usize = 500;

static LARGE: LazyLock<String> = LazyLock::new(|| "x".repeat(1024 * 1024));

/// Starts the service.
pub(crate) async fn start() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/", post(reply));
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok(address)
}

async fn reply(body: Bytes) -> String {
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match call.get("method").and_then(Value::as_str) {
        Some("slow") => {
            tokio::time::sleep(Duration::from_secs(5)).await;
            "slow"
        }
        Some("large") => LARGE.as_str(),
        Some("echo") => call.pointer("/params/0").and_then(Value::as_str).unwrap_or_default(),
        _ => "checked",
    };
    json!({"jsonrpc": "2.0", "id": call.get("id"), "result": result}).to_string()
}

/// Returns the description of the methods, in OpenRPC.
pub(crate) fn description() -> Value {
    let method = |name: &str, params: &[(&str, Value)]| {
        let param = |(name, schema): &(&str, Value)| json!({"name": name, "required": true, "schema": schema});
        let params: Vec<Value> = params.iter().map(param).collect();
        let result = json!({"name": "result", "schema": {"type": "string"}});
        let description =
            format!("Runs {name}. {}", "This text makes the list of tools large. ".repeat(15));
        json!({"name": name, "description": description, "params": params, "result": result})
    };
    let pattern_schema = |pattern: &str| json!({"type": "string", "pattern": pattern});
    let checked = [
        ("backtracking", pattern_schema("^(a+)+$")),
        ("lookahead", pattern_schema("^(?:(?=.*z).)*$")),
    ];
    let mut methods = vec![
        method("echo", &[("text", json!({"type": "string"}))]),
        method("slow", &[]),
        method("large", &[]),
        method("checked", &checked),
    ];
    methods
        .extend((0..EXTRA_METHODS).map(|number| method(&format!("other.method{number:03}"), &[])));
    json!({
        "openrpc": "1.3.2",
        "info": {"title": "hostile benchmark", "version": "1"},
        "methods": methods,
    })
}
