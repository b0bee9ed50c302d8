//! `/.well-known/mcp.json` with the server's name, revisions and endpoints, and the reply to clients that try to
//! register for OAuth.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::transport::http::error::USE_A_STATIC_TOKEN;
use crate::transport::http::{SharedState, response};
use crate::wire::Revision;

pub(crate) fn mcp(state: &SharedState) -> Response {
    let settings = state.gateway.settings();
    let offered: Vec<&str> = settings.protocol_version.and_older().map(Revision::as_str).collect();
    let body = json!({
        "name": settings.server_name,
        "version": settings.server_version,
        "authentication": {
            "required": state.options.require_auth,
            "schemes": ["bearer"],
        },
        "protocol_versions": offered,
        "endpoints": {
            "mcp": "/mcp",
            "list": "/mcp/tools/list",
            "describe": "/mcp/tools/describe",
            "invoke": "/mcp/tools/invoke",
            "tool": "/mcp/tools/{name}",
            "jsonrpc": "/jsonrpc",
        },
    });
    response::json(StatusCode::OK, &body)
}

/// Returns the error of OAuth dynamic client registration (RFC 7591), which clients show to people.
pub(crate) fn registration_error() -> Response {
    let body = json!({
        "error": "access_denied",
        "error_description": USE_A_STATIC_TOKEN,
    });
    response::json(StatusCode::FORBIDDEN, &body)
}
