//! The lower bound: an axum handler that reads the JSON-RPC envelope and replies in Callgate's format. It checks no
//! tokens, tools or arguments.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use callgate_bench::model::{Tool, USER};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::two_parts::TwoParts;

/// Server information in every result of the modern era.
const META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"callgate","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#,
);

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
}

/// End of the replies to `tools/list`, after the id, in each protocol era.
#[derive(Debug, Clone)]
struct Lists {
    modern: Bytes,
    legacy: Bytes,
}

/// Returns the router.
pub(crate) fn router(tools: &[Tool]) -> anyhow::Result<Router> {
    let tools: Vec<Value> = tools.iter().map(Tool::to_json).collect();
    let tools = serde_json::to_string(&tools)?;
    let modern = format!(
        r#","result":{{"resultType":"complete","tools":{tools},"ttlMs":0,"cacheScope":"private"{META}}}}}"#
    );
    let legacy = format!(r#","result":{{"tools":{tools}}}}}"#);
    let lists = Lists { modern: modern.into(), legacy: legacy.into() };
    Ok(Router::new().route("/mcp", post(handle)).with_state(Arc::new(lists)))
}

async fn handle(State(lists): State<Arc<Lists>>, headers: HeaderMap, body: Bytes) -> Response {
    let is_modern =
        headers.get("mcp-protocol-version").is_some_and(|version| version == "2026-07-28");
    match reply(&lists, is_modern, &body) {
        Ok(body) => {
            ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

fn reply(lists: &Lists, is_modern: bool, body: &[u8]) -> anyhow::Result<Body> {
    let Envelope { id, method } = serde_json::from_slice(body)?;
    let start = format!(r#"{{"jsonrpc":"2.0","id":{}"#, id.get());
    match method {
        "tools/list" => {
            let rest = if is_modern { &lists.modern } else { &lists.legacy };
            Ok(Body::new(TwoParts::new(start, rest.clone())))
        }
        "tools/call" => Ok(call_reply(start, is_modern)?.into()),
        _ => anyhow::bail!("expected tools/list or tools/call, found {method}"),
    }
}

fn call_reply(start: String, is_modern: bool) -> anyhow::Result<Vec<u8>> {
    let mut reply = start.into_bytes();
    reply.reserve(384);
    reply.extend_from_slice(if is_modern {
        br#","result":{"resultType":"complete","content":[{"type":"text","text":"#
    } else {
        br#","result":{"content":[{"type":"text","text":"#
    });
    serde_json::to_writer(&mut reply, USER)?;
    reply.extend_from_slice(br#"}],"structuredContent":"#);
    reply.extend_from_slice(USER.as_bytes());
    reply.extend_from_slice(if is_modern { META.as_bytes() } else { b"" });
    reply.extend_from_slice(b"}}");
    Ok(reply)
}
