//! Responses with a JSON body.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use http_body::Body as _;
use serde::Serialize;

pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    bytes_as_json(status, serde_json::to_vec(body).unwrap_or_default())
}

/// Returns a response whose body is already JSON.
pub(super) fn bytes_as_json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Sets the headers that every response has. No response may be cached, because responses depend on the caller and on
/// grants, and grants can change at any time.
pub(super) fn add_headers(response: &mut Response) {
    let length = response.body().size_hint().exact().filter(|length| *length > 0);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}
