//! One tool at a URL of its own, taking a JSON-RPC payload.
//!
//! What is decided about is what runs: the payload's method must be the tool of the URL, and a
//! batch, which could name others, is refused.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::value::RawValue;

use super::reply::{self, RestError, RpcFailure};
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
    let hold = shared.gateway.hold();
    match shared.gateway.call_holding(caller, call, &hold).await {
        Ok(_) if request.id.is_none() => StatusCode::NO_CONTENT.into_response(),
        Ok(result) => {
            let reply = jsonrpc::reply(request.id, Ok(&result));
            reply::bytes_as_json(StatusCode::OK, hold.keep(reply.into()))
        }
        Err(error) => {
            let RpcFailure { status, error, scope } = reply::rpc_failure_of(error);
            let mut response = rpc_reply(status, request.id, Err(&error));
            reply::add_challenge(&mut response, scope.as_ref());
            response
        }
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
        Err(hidden) => {
            let RpcFailure { status, error, .. } = reply::rpc_failure_of(hidden.into());
            rpc_reply(status, request_id, Err(&error))
        }
    }
}

fn rpc_reply(
    status: StatusCode,
    id: Option<&RawValue>,
    outcome: Result<&RawValue, &RpcError>,
) -> Response {
    let mut response = reply::bytes_as_json(status, jsonrpc::reply(id, outcome));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
