//! A URL for each tool, which accepts a JSON-RPC request.
//!
//! The method of the request must be the tool of the URL, and batches are refused. Therefore only the tool for
//! which access was checked can run.

use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::value::RawValue;

use super::rest;
use crate::access::Caller;
use crate::gateway::CallRequest;
use crate::transport::http::error::{self, HttpError};
use crate::transport::http::{SharedState, body, origin, response};
use crate::wire::jsonrpc::{self, INVALID_REQUEST, RpcError};
use crate::wire::percent;

/// `POST /mcp/tools/{id}`, and `GET /mcp/tools/{id}?query=` for read-only tools.
pub(crate) async fn handle(
    state: &SharedState,
    caller: &Caller,
    parts: &Parts,
    body: &[u8],
) -> Result<Response, HttpError> {
    let path = parts.uri.path();
    let id = path.strip_prefix("/mcp/tools/").and_then(percent::decoded);
    let id = &*id.ok_or_else(|| HttpError::no_such_path(path))?;
    if parts.method == Method::POST {
        return Ok(match body::text(body) {
            Ok(payload) => run(state, caller, id, payload, &parts.method).await,
            Err(error) => error::rpc_response(StatusCode::BAD_REQUEST, None, &error.into()),
        });
    }
    origin::check_fetch_site(&parts.headers)?;
    let Some(query) = rest::query_parameter(&parts.uri, "query") else {
        let caller = state.gateway.prepared(caller).await;
        state.gateway.describe(&caller, id)?;
        return Err(HttpError::MissingParameter("query"));
    };
    Ok(run(state, caller, id, &query, &parts.method).await)
}

async fn run(
    state: &SharedState,
    caller: &Caller,
    id: &str,
    payload: &str,
    method: &Method,
) -> Response {
    let request = match jsonrpc::Request::parse(payload) {
        Ok(request) if request.method == id => request,
        Ok(request) => {
            let message = format!("the payload's method must be the tool of this URL, `{id}`");
            let error = RpcError::new(INVALID_REQUEST, message);
            return refuse(state, caller, id, request.id, &error).await;
        }
        Err(error) => return refuse(state, caller, id, None, &error.into()).await,
    };
    let call = CallRequest { id, arguments: request.params, read_only: method != Method::POST };
    let outcome = state.gateway.call(caller, call).await;
    if request.id.is_none() {
        return StatusCode::NO_CONTENT.into_response();
    }
    match outcome {
        Ok(outcome) => {
            let reply = jsonrpc::reply(request.id, Ok(&outcome.value));
            response::bytes_as_json(StatusCode::OK, outcome.reservation.keep(reply.into()))
        }
        Err(error) => error::rpc_failed(request.id, &error),
    }
}

/// Refuses a payload. Callers that may not use the tool get the error for an unknown tool.
async fn refuse(
    state: &SharedState,
    caller: &Caller,
    id: &str,
    request_id: Option<&RawValue>,
    error: &RpcError,
) -> Response {
    let caller = state.gateway.prepared(caller).await;
    match state.gateway.describe(&caller, id) {
        Ok(_) => error::rpc_response(StatusCode::BAD_REQUEST, request_id, error),
        Err(not_found) => error::rpc_failed(request_id, &not_found.into()),
    }
}
