//! REST: `/mcp/tools/list`, `/mcp/tools/describe`, `/mcp/tools/invoke`.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::access::Caller;
use crate::gateway::CallRequest;
use crate::transport::http::body::Slices;
use crate::transport::http::error::HttpError;
use crate::transport::http::{SharedState, response};
use crate::wire::{OffsetCursor, strict_json};

/// Number of tools on a page.
const PAGE_SIZE: usize = 50;

/// `GET /mcp/tools/list?cursor=`
pub(crate) async fn list(
    state: &SharedState,
    caller: Caller,
    uri: &Uri,
) -> Result<Response, HttpError> {
    let cursor = query_parameter(uri, "cursor").unwrap_or_default();
    let OffsetCursor(offset) = OffsetCursor::decode(&cursor)?;
    let caller = state.gateway.prepare(caller).await;
    let page = state.gateway.list(&caller, offset, PAGE_SIZE);
    let end = match page.next {
        Some(next) => format!("],\"nextCursor\":\"{}\"}}", OffsetCursor(next).encode()).into(),
        None => Bytes::from_static(b"],\"nextCursor\":null}"),
    };
    let start = Bytes::from_static(b"{\"tools\":[");
    let slices = Slices::new([start].into_iter().chain(page.tools).chain([end]));
    Ok(response::bytes_as_json(StatusCode::OK, Body::new(slices)))
}

/// `GET /mcp/tools/describe?name=`
pub(crate) async fn describe(
    state: &SharedState,
    caller: Caller,
    uri: &Uri,
) -> Result<Response, HttpError> {
    let name = query_parameter(uri, "name")
        .filter(|name| !name.is_empty())
        .ok_or(HttpError::MissingParameter("name"))?;
    let caller = state.gateway.prepare(caller).await;
    let tool = state.gateway.describe(&caller, &name)?;
    let slices = [Bytes::from_static(b"{\"tool\":"), tool, Bytes::from_static(b"}")];
    Ok(response::bytes_as_json(StatusCode::OK, Body::new(Slices::new(slices))))
}

/// `POST /mcp/tools/invoke`
pub(crate) async fn invoke(
    state: &SharedState,
    caller: &Caller,
    body: &[u8],
) -> Result<Response, HttpError> {
    let body = std::str::from_utf8(body).map_err(|_| HttpError::InvalidJson)?;
    let (name, arguments) = invoke_request(body)?;
    let request = CallRequest { id: &name, arguments: Some(arguments), read_only: false };
    let outcome = state.gateway.call(caller, request).await?;
    let result = outcome.value.get();
    let mut body = Vec::with_capacity(result.len() + 12);
    body.extend_from_slice(b"{\"result\":");
    body.extend_from_slice(result.as_bytes());
    body.push(b'}');
    Ok(response::bytes_as_json(StatusCode::OK, outcome.reservation.keep(body.into())))
}

/// Returns the name and the arguments in the body of `invoke`. Checks JSON, name and arguments in this order.
pub(crate) fn invoke_request(body: &str) -> Result<(Cow<'_, str>, &RawValue), HttpError> {
    let members = match strict_json::few_members(body) {
        Ok(members) => members,
        // The body is JSON but not an object, so the name is missing.
        Err(_) if is_other_json(body) => return Err(HttpError::MissingParameter("name")),
        Err(error) if error.is_data() => {
            return Err(HttpError::AmbiguousJson(strict_json::problem(&error)));
        }
        Err(_) => return Err(HttpError::InvalidJson),
    };
    let member = |key: &str| members.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
    let name = member("name")
        .and_then(|name| serde_json::from_str(name.get()).ok())
        .ok_or(HttpError::MissingParameter("name"))?;
    let arguments = member("arguments")
        .filter(|arguments| arguments.get().starts_with(['{', '[']))
        .ok_or(HttpError::MissingParameter("arguments"))?;
    Ok((name, arguments))
}

fn is_other_json(body: &str) -> bool {
    !body.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(body).is_ok()
}

/// Returns the last value of a query parameter. PHP uses the last value, too.
pub(crate) fn query_parameter<'a>(uri: &'a Uri, name: &str) -> Option<Cow<'a, str>> {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.filter(|(key, _)| key == name).last().map(|(_, value)| value)
}
