//! One tool at a URL of its own, taking a JSON-RPC payload.
//!
//! What is decided about is what runs: the payload's method must be the tool of the URL, and a
//! batch, which could name others, is refused.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::value::RawValue;

use super::reply::{self, RestError};
use super::{Shared, body, rest};
use crate::access::Caller;
use crate::gateway::CallRequest;
use crate::jsonrpc::{self, INVALID_REQUEST, RpcError};

/// `POST /mcp/tools/{id}`
pub(super) async fn post(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, RestError> {
    let Ok(Path(id)) = path else { return Ok(reply::no_such_path(request.uri().path())) };
    let (parts, body) = request.into_parts();
    let bytes = body::read(&parts.headers, body, &shared.options).await?;
    match body::text(&bytes) {
        Ok(payload) => Ok(run(&shared, &caller, &id, payload, Form::Post).await),
        Err(error) => Ok(rpc_reply(StatusCode::BAD_REQUEST, None, Err(&error.into()))),
    }
}

/// `GET /mcp/tools/{id}?query=`, for read-only tools.
pub(super) async fn get(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, RestError> {
    let Ok(Path(id)) = path else { return Ok(reply::no_such_path(uri.path())) };
    let Some(query) = rest::query_parameter(&uri, "query") else {
        let caller = shared.gateway.prepare(caller).await;
        shared.gateway.describe(&caller, &id)?;
        return Err(RestError::MissingParameter("query"));
    };
    Ok(run(&shared, &caller, &id, &query, Form::Get).await)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Get,
    Post,
}

async fn run(shared: &Shared, caller: &Caller, id: &str, payload: &str, form: Form) -> Response {
    let request = match jsonrpc::Request::parse(payload) {
        Ok(request) if request.method == id => request,
        Ok(request) => {
            let message = format!("the payload's method must be the tool of this URL, `{id}`");
            let error = RpcError::new(INVALID_REQUEST, message);
            return refuse(shared, caller, id, request.id, &error).await;
        }
        Err(error) => return refuse(shared, caller, id, None, &error.into()).await,
    };
    let call = CallRequest { id, arguments: request.params, read_only: form == Form::Get };
    match shared.gateway.call(caller, call).await {
        Ok(_) if request.id.is_none() => StatusCode::NO_CONTENT.into_response(),
        Ok(outcome) => {
            let reply = jsonrpc::reply(request.id, Ok(&outcome.value));
            reply::bytes_as_json(StatusCode::OK, outcome.hold.keep(reply.into()))
        }
        Err(error) => reply::rpc_failed(reply::rpc_error(&error).0, request.id, &error),
    }
}

/// A payload that cannot run. Whoever may not use the tool learns nothing from why.
async fn refuse(
    shared: &Shared,
    caller: &Caller,
    id: &str,
    request_id: Option<&RawValue>,
    error: &RpcError,
) -> Response {
    let caller = shared.gateway.prepared(caller).await;
    match shared.gateway.describe(&caller, id) {
        Ok(_) => rpc_reply(StatusCode::BAD_REQUEST, request_id, Err(error)),
        Err(hidden) => reply::rpc_failed(StatusCode::NOT_FOUND, request_id, &hidden.into()),
    }
}

fn rpc_reply(
    status: StatusCode,
    id: Option<&RawValue>,
    outcome: Result<&RawValue, &RpcError>,
) -> Response {
    reply::bytes_as_json(status, jsonrpc::reply(id, outcome))
}
