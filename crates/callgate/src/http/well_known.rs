//! `/.well-known/mcp.json`: what this server is and where its faces are.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::{Shared, reply};

pub(super) async fn mcp(State(shared): State<Shared>) -> Response {
    let settings = shared.gateway.settings();
    let body = json!({
        "name": settings.server_name,
        "version": settings.server_version,
        "authentication": {
            "required": shared.options.require_auth,
            "schemes": ["bearer"],
        },
        "endpoints": {
            "list": "/mcp/tools/list",
            "describe": "/mcp/tools/describe",
            "invoke": "/mcp/tools/invoke",
            "tool": "/mcp/tools/{name}",
        },
    });
    reply::json(StatusCode::OK, &body)
}
