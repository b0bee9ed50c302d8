//! Errors of all endpoints, and their responses.

use axum::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::value::RawValue;
use serde_json::{Map, json};
use thiserror::Error;

use super::authenticate::AuthenticateError;
use super::endpoints::{ServerEndpoint, mcp};
use super::response::{self, bytes_as_json};
use crate::access::RateLimited;
use crate::mcp::McpError;
use crate::model::oauth_scope::OAuthScope;
use crate::upstream::{CallError, CallFailure, NotFound};
use crate::wire::CursorError;
use crate::wire::jsonrpc::{
    self, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, LIMIT_EXCEEDED, METHOD_NOT_FOUND,
    RpcError,
};

pub(super) const USE_A_STATIC_TOKEN: &str = "this server has no OAuth sign-in; ask its operator for a token and send it in the \
     Authorization header, `Authorization: Bearer …`";

const CHALLENGE: &str = "Bearer realm=\"callgate\"";

/// An error of an endpoint.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("the host `{0}` is not known; add it to `allowed_hosts`")]
    Host(String),
    #[error("the request has no `Host` header")]
    NoHost,
    #[error("the origin `{0}` is not allowed; add it to `allowed_origins`")]
    Origin(String),
    #[error("pages of other sites cannot use this URL with GET; use POST")]
    CrossSite,
    #[error("{0}")]
    Unavailable(&'static str),
    #[error("{0}; {USE_A_STATIC_TOKEN}")]
    Credential(AuthenticateError),
    #[error("a credential is required; {USE_A_STATIC_TOKEN}")]
    NoCredential,
    #[error("there is no endpoint at {0}")]
    NoSuchPath(String),
    #[error("the HTTP method is not allowed; see the Allow header")]
    MethodNotAllowed(&'static str),
    #[error("the request body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("the request body did not arrive in time")]
    BodyTooSlow,
    #[error("the request body is incomplete")]
    BodyBroken,
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
    #[error("{}", .0.error)]
    Mcp(McpError),
}

impl From<McpError> for HttpError {
    fn from(error: McpError) -> Self {
        Self::Mcp(error)
    }
}

impl From<NotFound> for HttpError {
    fn from(error: NotFound) -> Self {
        Self::Call(error.into())
    }
}

impl From<RateLimited> for HttpError {
    fn from(error: RateLimited) -> Self {
        Self::Call(error.into())
    }
}

impl HttpError {
    pub(super) fn no_such_path(path: &str) -> Self {
        Self::NoSuchPath(path.chars().take(200).collect())
    }

    /// Returns the HTTP status and the error code over REST.
    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Host(_) => (StatusCode::FORBIDDEN, "forbidden_host"),
            Self::NoHost => (StatusCode::BAD_REQUEST, "missing_host"),
            Self::CrossSite => (StatusCode::FORBIDDEN, "cross_site"),
            Self::Origin(_) => (StatusCode::FORBIDDEN, "forbidden_origin"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Credential(_) => (StatusCode::UNAUTHORIZED, "invalid_token"),
            Self::NoCredential => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::NoSuchPath(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::BodyTooSlow => (StatusCode::REQUEST_TIMEOUT, "body_too_slow"),
            Self::BodyBroken => (StatusCode::BAD_REQUEST, "body_broken"),
            Self::InvalidJson | Self::AmbiguousJson(_) => (StatusCode::BAD_REQUEST, "invalid_json"),
            Self::MissingParameter(_) => (StatusCode::BAD_REQUEST, "missing_parameter"),
            Self::InvalidCursor(_) => (StatusCode::BAD_REQUEST, "invalid_cursor"),
            Self::Call(error) => {
                let (status, code, _) = status_and_codes(error);
                (status, code)
            }
            Self::Mcp(_) => (StatusCode::BAD_REQUEST, "invalid_request"),
        }
    }

    /// Writes the error in the format of the endpoint. The `WWW-Authenticate` header is the same in all formats.
    ///
    /// `id` is the id of the request, if it is known.
    pub(super) fn into_response(self, endpoint: ServerEndpoint, id: Option<&RawValue>) -> Response {
        let (status, _) = self.status_and_code();
        let is_mcp = endpoint == ServerEndpoint::Mcp;
        match &self {
            Self::Mcp(error) => mcp::error_response(error),
            Self::Call(CallError::RateLimited(limited)) if is_mcp => {
                mcp::error_response(&(*limited).into())
            }
            Self::Unavailable(reason) if is_mcp => {
                mcp::error_response(&McpError::new(status.as_u16(), INTERNAL_ERROR, *reason))
            }
            // MCP clients discard a body that is not JSON-RPC.
            _ if is_mcp => {
                let error = McpError::new(status.as_u16(), INVALID_REQUEST, self.to_string());
                let mut response = mcp::error_response(&error.with_optional_id(id));
                self.add_headers(&mut response, None);
                response
            }
            // The request was not read, so its id is unknown.
            Self::Unavailable(reason) if endpoint.is_json_rpc() => {
                let mut response =
                    rpc_response(status, None, &RpcError::new(INTERNAL_ERROR, *reason));
                add_retry_after(&mut response, None);
                response
            }
            Self::Call(error @ CallError::RateLimited(_)) if endpoint.is_json_rpc() => {
                rpc_failed(None, error)
            }
            _ => self.rest_response(),
        }
    }

    /// Returns `true` if the client must see the error as the reply to its request. For a foreign origin, the MCP
    /// specification requires an error without an id.
    pub(super) fn needs_id(&self, endpoint: ServerEndpoint) -> bool {
        endpoint == ServerEndpoint::Mcp
            && matches!(self, Self::Credential(_) | Self::NoCredential | Self::Host(_))
    }

    /// Returns `{"error":{"code":…,"message":…}}`.
    fn rest_response(&self) -> Response {
        let (status, code) = self.status_and_code();
        let call = match self {
            Self::Call(error) => Some(error),
            _ => None,
        };
        let (failure, scope) = call.map(failure_and_scope).unwrap_or_default();
        let data = match call {
            Some(CallError::Rpc(error) | CallError::Protocol(error)) => Some(error),
            _ => None,
        };
        let error_id = failure.map(|failure| &*failure.error_id);
        let retry_after = call.and_then(CallError::retry_after);
        let mut error = Map::from_iter([
            ("code".to_owned(), json!(code)),
            ("message".to_owned(), json!(self.to_string())),
            ("data".to_owned(), json!(data)),
            ("error_id".to_owned(), json!(error_id)),
            ("retry_after".to_owned(), json!(retry_after)),
        ]);
        error.retain(|_, value| !value.is_null());
        let mut response = response::json(status, &json!({"error": error}));
        add_retry_after(&mut response, retry_after);
        self.add_headers(&mut response, scope);
        response
    }

    /// Sets `Allow` and `WWW-Authenticate`.
    fn add_headers(&self, response: &mut Response, scope: Option<&OAuthScope>) {
        add_challenge(response, scope);
        let headers = response.headers_mut();
        match self {
            Self::MethodNotAllowed(allowed) => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            Self::Credential(_) => {
                let challenge = "Bearer realm=\"callgate\", error=\"invalid_token\", \
                                 error_description=\"The access token is invalid or expired\"";
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            _ => {}
        }
    }
}

/// Sets `WWW-Authenticate` on a 401, and on a 403 with a missing scope.
fn add_challenge(response: &mut Response, scope: Option<&OAuthScope>) {
    let challenge = match (response.status(), scope) {
        (StatusCode::UNAUTHORIZED, _) => Ok(HeaderValue::from_static(CHALLENGE)),
        (StatusCode::FORBIDDEN, Some(scope)) => HeaderValue::try_from(format!(
            "{CHALLENGE}, error=\"insufficient_scope\", scope=\"{scope}\""
        )),
        _ => return,
    };
    // A scope contains only characters that are valid in a header.
    if let Ok(challenge) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
}

/// Sets `Retry-After`. If `seconds` is `None`, a 503 gets a default value, and other responses get no header.
pub(super) fn add_retry_after(response: &mut Response, seconds: Option<u64>) {
    let is_unavailable = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    if let Some(seconds) = seconds.or(is_unavailable.then_some(2)) {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
}

/// Returns the HTTP status, the code over REST and the code over JSON-RPC.
fn status_and_codes(error: &CallError) -> (StatusCode, &'static str, i64) {
    match error {
        CallError::NotFound(_) | CallError::Denied { .. } | CallError::Gone(..) => {
            (StatusCode::NOT_FOUND, "tool_not_found", METHOD_NOT_FOUND)
        }
        CallError::NotReadOnly(_) => {
            (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", INVALID_REQUEST)
        }
        CallError::Arguments(_) => (StatusCode::BAD_REQUEST, "invalid_arguments", INVALID_PARAMS),
        CallError::ArgumentsTooLarge { .. } => {
            (StatusCode::PAYLOAD_TOO_LARGE, "arguments_too_large", LIMIT_EXCEEDED)
        }
        CallError::RateLimited(_) => {
            (StatusCode::TOO_MANY_REQUESTS, "rate_limited", LIMIT_EXCEEDED)
        }
        CallError::Busy(_) => (StatusCode::TOO_MANY_REQUESTS, "busy", LIMIT_EXCEEDED),
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

/// Returns the details that REST and JSON-RPC show. A method that was removed is reported as unknown, without details.
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

/// Returns the HTTP status and the JSON-RPC error. The method's own error has status 200.
pub(super) fn rpc_error(error: &CallError) -> (StatusCode, RpcError) {
    if let CallError::Rpc(error) | CallError::Protocol(error) = error {
        return (StatusCode::OK, error.clone());
    }
    let (status, _, code) = status_and_codes(error);
    if let Some(seconds) = error.retry_after() {
        return (status, RpcError::limit_exceeded(error.to_string(), seconds));
    }
    let data = match failure_and_scope(error) {
        (None, _) => None,
        (Some(failure), scope) => {
            let scope = scope.map(|scope| ("scope", scope.as_str()));
            Some([("error_id", &*failure.error_id)].into_iter().chain(scope).collect())
        }
    };
    (status, RpcError { code, message: call_message(error), data })
}

/// Returns a JSON-RPC error with an HTTP status.
pub(super) fn rpc_response(
    status: StatusCode,
    id: Option<&RawValue>,
    error: &RpcError,
) -> Response {
    bytes_as_json(status, jsonrpc::reply(id, Err(error)))
}

/// Returns the response to a single JSON-RPC call that failed.
pub(super) fn rpc_failed(id: Option<&RawValue>, error: &CallError) -> Response {
    let (status, body) = rpc_error(error);
    let mut response = rpc_response(status, id, &body);
    add_challenge(&mut response, failure_and_scope(error).1);
    add_retry_after(&mut response, error.retry_after());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
