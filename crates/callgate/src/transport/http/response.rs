//! Replies with a JSON body.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body::Body as _;
use serde::Serialize;

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

/// Sets the headers that every reply has. None is to be stored, since each depends on who asks and on
/// grants that may change any moment.
pub(super) fn add_headers(response: &mut Response) {
    let length = response.body().size_hint().exact().filter(|length| *length > 0);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}
