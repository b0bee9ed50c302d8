//! Replies of the REST face: JSON, never stored, errors as `{"error":{"code":…,"message":…}}`.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::authenticate::AuthenticateError;
use crate::arguments::ArgumentsError;
use crate::cursor::CursorError;
use crate::gateway::{CallError, NotFound};
use crate::jsonrpc::{self, INTERNAL_ERROR, RpcError};
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
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    InvalidArguments(ArgumentsError),
    #[error("{}", or_general(&.0.message))]
    Rpc(RpcError),
    #[error("{words}")]
    Failed { error_id: String, words: Cow<'static, str> },
    #[error("{words}")]
    Unauthorized { error_id: String, words: String },
    #[error("{words}")]
    Forbidden { error_id: String, words: String, scope: Option<OAuthScope> },
    #[error("the request body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("the request body did not arrive in time")]
    BodyTooSlow,
    #[error("the request body did not arrive whole")]
    BodyBroken,
}

fn or_general(message: &str) -> &str {
    if message.is_empty() { "Tool execution failed" } else { message }
}

impl From<CallError> for RestError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotFound(error)
            | CallError::Denied { not_found: error, .. }
            | CallError::Gone { not_found: error, .. } => Self::NotFound(error),
            // Only calls that ask for it meet this; the REST face's own do not.
            CallError::NotReadOnly(id) => Self::NotFound(NotFound(id)),
            CallError::Arguments(error) => Self::InvalidArguments(error),
            CallError::Rpc(error) | CallError::Protocol(error) => Self::Rpc(error),
            CallError::Failed { error_id, words } => Self::Failed { error_id, words },
            CallError::Unauthorized { error_id, words } => Self::Unauthorized { error_id, words },
            CallError::Forbidden { error_id, words, scope } => {
                Self::Forbidden { error_id, words, scope }
            }
        }
    }
}

impl RestError {
    pub(super) fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidJson | Self::AmbiguousJson(_) => (StatusCode::BAD_REQUEST, "invalid_json"),
            Self::MissingParameter(_) => (StatusCode::BAD_REQUEST, "missing_parameter"),
            Self::InvalidCursor(_) => (StatusCode::BAD_REQUEST, "invalid_cursor"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "tool_not_found"),
            Self::InvalidArguments(_) => (StatusCode::BAD_REQUEST, "invalid_arguments"),
            Self::Rpc(_) | Self::Failed { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "execution_error")
            }
            Self::Unauthorized { .. } => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::Forbidden { scope: Some(_), .. } => (StatusCode::FORBIDDEN, "insufficient_scope"),
            Self::Forbidden { scope: None, .. } => (StatusCode::FORBIDDEN, "forbidden"),
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
        let body = ErrorBody {
            code,
            message: self.to_string(),
            data: match &self {
                Self::Rpc(error) => Some(error),
                _ => None,
            },
            error_id: match &self {
                Self::Failed { error_id, .. }
                | Self::Unauthorized { error_id, .. }
                | Self::Forbidden { error_id, .. } => Some(error_id),
                _ => None,
            },
        };
        let mut response = json(status, &Wrapped { error: body });
        let scope = match &self {
            Self::Forbidden { scope, .. } => scope.as_ref(),
            _ => None,
        };
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

/// For JSON-RPC replies.
#[derive(Debug)]
pub(super) struct RpcFailure {
    pub(super) status: StatusCode,
    pub(super) error: RpcError,
    /// The scope that is missing at the service.
    pub(super) scope: Option<OAuthScope>,
}

/// What a call without a result is in JSON-RPC.
pub(super) fn rpc_failure_of(error: CallError) -> RpcFailure {
    use crate::jsonrpc::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};
    let message = error.to_string();
    let failed = |status, error_id: String, scope: Option<OAuthScope>| {
        let scope_member = scope.as_ref().map(|scope| ("scope", scope.to_string()));
        let data: Value = [("error_id", error_id)].into_iter().chain(scope_member).collect();
        let error = RpcError { data: Some(data), ..RpcError::new(INTERNAL_ERROR, message.clone()) };
        RpcFailure { status, error, scope }
    };
    let (status, error) = match error {
        CallError::NotFound(_) | CallError::Denied { .. } | CallError::Gone { .. } => {
            (StatusCode::NOT_FOUND, RpcError::new(METHOD_NOT_FOUND, message))
        }
        CallError::NotReadOnly(_) => (
            StatusCode::METHOD_NOT_ALLOWED,
            RpcError::new(INVALID_REQUEST, format!("{message}; use POST")),
        ),
        CallError::Arguments(_) => {
            (StatusCode::BAD_REQUEST, RpcError::new(INVALID_PARAMS, message))
        }
        CallError::Rpc(error) | CallError::Protocol(error) => (StatusCode::OK, error),
        CallError::Failed { error_id, .. } => {
            return failed(StatusCode::INTERNAL_SERVER_ERROR, error_id, None);
        }
        CallError::Unauthorized { error_id, .. } => {
            return failed(StatusCode::UNAUTHORIZED, error_id, None);
        }
        CallError::Forbidden { error_id, scope, .. } => {
            return failed(StatusCode::FORBIDDEN, error_id, scope);
        }
    };
    RpcFailure { status, error, scope: None }
}
