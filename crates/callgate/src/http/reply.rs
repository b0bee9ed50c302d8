//! Replies of the REST face: JSON, never stored, errors as `{"error":{"code":…,"message":…}}`.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use thiserror::Error;

use super::authenticate::AuthenticateError;
use crate::cursor::CursorError;
use crate::gateway::{CallError, CallFailure, NotFound};
use crate::jsonrpc::{
    self, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError,
};
use crate::oauth_scope::OAuthScope;

/// What the REST face answers instead of a result.
#[derive(Debug, Error)]
pub(super) enum RestError {
    #[error("Request body must be valid JSON")]
    InvalidJson,
    #[error("Request body must be unambiguous JSON: {0}")]
    AmbiguousJson(String),
    #[error("Required parameter \"{0}\" is missing or invalid")]
    MissingParameter(&'static str),
    #[error(transparent)]
    InvalidCursor(#[from] CursorError),
    #[error("{}", call_message(.0))]
    Call(#[from] CallError),
    #[error("the request body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("the request body did not arrive in time")]
    BodyTooSlow,
    #[error("the request body did not arrive whole")]
    BodyBroken,
}

impl From<NotFound> for RestError {
    fn from(error: NotFound) -> Self {
        Self::Call(error.into())
    }
}

impl RestError {
    pub(super) fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidJson | Self::AmbiguousJson(_) => (StatusCode::BAD_REQUEST, "invalid_json"),
            Self::MissingParameter(_) => (StatusCode::BAD_REQUEST, "missing_parameter"),
            Self::InvalidCursor(_) => (StatusCode::BAD_REQUEST, "invalid_cursor"),
            Self::Call(error) => {
                let (status, code, _) = status_and_codes(error);
                (status, code)
            }
            Self::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::BodyTooSlow => (StatusCode::REQUEST_TIMEOUT, "body_too_slow"),
            Self::BodyBroken => (StatusCode::BAD_REQUEST, "body_broken"),
        }
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RpcError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_id: Option<&'a str>,
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let (data, failure, scope) = match &self {
            Self::Call(CallError::Rpc(error) | CallError::Protocol(error)) => {
                (Some(error), None, None)
            }
            Self::Call(error) => {
                let (failure, scope) = failure_and_scope(error);
                (None, failure, scope)
            }
            _ => (None, None, None),
        };
        let error_id = failure.map(|failure| &*failure.error_id);
        let body = ErrorBody { code, message: self.to_string(), data, error_id };
        let mut response = json(status, &Wrapped { error: body });
        add_challenge(&mut response, scope);
        response
    }
}

#[derive(Serialize)]
struct Wrapped<'a> {
    error: ErrorBody<'a>,
}

/// A reply with a JSON body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => bytes_as_json(status, bytes),
        Err(error) => {
            tracing::error!(%error, "a reply could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A reply whose body is JSON already.
pub(super) fn bytes_as_json(status: StatusCode, body: impl Into<Body>) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(CONTENT_TYPE, json)], body.into()).into_response()
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    json(status, &json!({"error": {"code": code, "message": message}}))
}

pub(super) fn no_such_path(path: &str) -> Response {
    let path: String = path.chars().take(200).collect();
    error(StatusCode::NOT_FOUND, "not_found", &format!("there is nothing at {path}"))
}

pub(super) fn forbidden(code: &str, message: &str) -> Response {
    error(StatusCode::FORBIDDEN, code, message)
}

/// The `Allow` header is axum's.
pub(super) fn method_not_allowed() -> Response {
    error(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path takes other methods; the Allow header names them",
    )
}

const USE_A_STATIC_TOKEN: &str = "send a static token in the Authorization header, \
     `Authorization: Bearer …`; this server has no OAuth sign-in";

pub(super) fn bad_credential(why: &AuthenticateError) -> Response {
    let challenge = "Bearer realm=\"callgate\", error=\"invalid_token\", \
                     error_description=\"The access token is invalid or expired\"";
    challenged(challenge, "invalid_token", &format!("{why}; {USE_A_STATIC_TOKEN}"))
}

const CHALLENGE: &str = "Bearer realm=\"callgate\"";

/// Says on a 401 that a token is wanted, and on a 403 which scope is missing.
pub(super) fn add_challenge(response: &mut Response, scope: Option<&OAuthScope>) {
    let challenge = match (response.status(), scope) {
        (StatusCode::UNAUTHORIZED, _) => Ok(HeaderValue::from_static(CHALLENGE)),
        (StatusCode::FORBIDDEN, Some(scope)) => HeaderValue::try_from(format!(
            "{CHALLENGE}, error=\"insufficient_scope\", scope=\"{scope}\""
        )),
        _ => return,
    };
    // A scope has only characters that a header can have.
    if let Ok(challenge) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
}

pub(super) fn credential_required() -> Response {
    let message = format!("this server needs a credential; {USE_A_STATIC_TOKEN}");
    challenged(CHALLENGE, "unauthorized", &message)
}

/// Whether a credential is good cannot be found out just now.
pub(super) fn unavailable(why: &str) -> Response {
    let mut response = error(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why);
    say_when_to_retry(&mut response);
    response
}

/// The same for JSON-RPC. The request was not read, so nothing is known of its id.
pub(super) fn rpc_unavailable(why: &str) -> Response {
    let body = jsonrpc::reply(None, Err(&RpcError::new(INTERNAL_ERROR, why)));
    let mut response = bytes_as_json(StatusCode::SERVICE_UNAVAILABLE, body);
    say_when_to_retry(&mut response);
    response
}

/// Whatever is in the way just now is looked at again within this many seconds.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("2");

/// On a 503, which is for a while.
pub(super) fn say_when_to_retry(response: &mut Response) {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
}

fn challenged(challenge: &'static str, code: &str, message: &str) -> Response {
    let mut response = error(StatusCode::UNAUTHORIZED, code, message);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// Every answer depends on who asks and on grants that may change any moment.
pub(super) async fn never_stored(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    never_store(&mut response);
    response
}

pub(super) fn never_store(response: &mut Response) {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// How a call without a result looks over HTTP: the status, the code over REST, the code over JSON-RPC.
fn status_and_codes(error: &CallError) -> (StatusCode, &'static str, i64) {
    match error {
        CallError::NotFound(_) | CallError::Denied { .. } | CallError::Gone(..) => {
            (StatusCode::NOT_FOUND, "tool_not_found", METHOD_NOT_FOUND)
        }
        CallError::NotReadOnly(_) => {
            (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", INVALID_REQUEST)
        }
        CallError::Arguments(_) => (StatusCode::BAD_REQUEST, "invalid_arguments", INVALID_PARAMS),
        CallError::Rpc(_) | CallError::Protocol(_) | CallError::Failed(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "execution_error", INTERNAL_ERROR)
        }
        CallError::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "unauthorized", INTERNAL_ERROR),
        CallError::Forbidden(_, Some(_)) => {
            (StatusCode::FORBIDDEN, "insufficient_scope", INTERNAL_ERROR)
        }
        CallError::Forbidden(_, None) => (StatusCode::FORBIDDEN, "forbidden", INTERNAL_ERROR),
    }
}

/// What REST and JSON-RPC tell of a failure. A method that is gone looks unknown, so nothing of that.
fn failure_and_scope(error: &CallError) -> (Option<&CallFailure>, Option<&OAuthScope>) {
    match error {
        CallError::Failed(failure) | CallError::Unauthorized(failure) => (Some(failure), None),
        CallError::Forbidden(failure, scope) => (Some(failure), scope.as_ref()),
        _ => (None, None),
    }
}

fn call_message(error: &CallError) -> String {
    match error {
        CallError::Rpc(error) | CallError::Protocol(error) if error.message.is_empty() => {
            "Tool execution failed".to_owned()
        }
        CallError::Rpc(error) | CallError::Protocol(error) => error.message.clone(),
        CallError::NotReadOnly(_) => format!("{error}; use POST"),
        error => error.to_string(),
    }
}

/// A call without a result, over JSON-RPC. A method's own error comes with HTTP 200.
pub(super) fn rpc_error(error: &CallError) -> (StatusCode, RpcError) {
    if let CallError::Rpc(error) | CallError::Protocol(error) = error {
        return (StatusCode::OK, error.clone());
    }
    let (status, _, code) = status_and_codes(error);
    let data = match failure_and_scope(error) {
        (None, _) => None,
        (Some(failure), scope) => {
            let scope = scope.map(|scope| ("scope", scope.as_str()));
            Some([("error_id", &*failure.error_id)].into_iter().chain(scope).collect())
        }
    };
    (status, RpcError { code, message: call_message(error), data })
}

/// The reply to a single JSON-RPC call, with the challenge of a 401 or 403.
pub(super) fn rpc_failed(status: StatusCode, id: Option<&RawValue>, error: &CallError) -> Response {
    let (_, body) = rpc_error(error);
    let mut response = bytes_as_json(status, jsonrpc::reply(id, Err(&body)));
    add_challenge(&mut response, failure_and_scope(error).1);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
