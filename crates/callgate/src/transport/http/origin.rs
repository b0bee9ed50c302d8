//! Checks the headers `Origin` and `Host`, and adds CORS headers.
//!
//! A web page of another site can make a browser send requests to this server. With DNS rebinding, the page can also
//! read the replies. Therefore both headers must contain known hosts. Pages on this machine, such as the MCP Inspector,
//! are accepted.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};

use super::HttpOptions;
use super::error::HttpError;

/// Request headers that pages may send, in addition to `mcp-param-…`.
const REQUEST_HEADERS: [&str; 9] = [
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "x-requested-with",
];

/// Adds the headers that allow a page of this origin to read the response.
pub(super) fn allow(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("origin"));
    let exposed = HeaderValue::from_static("mcp-session-id, www-authenticate");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

/// Checks `Host` and `Origin`. Returns the origin of the page that sent the request, or `None` if no page did.
pub(super) fn check(
    headers: &HeaderMap,
    uri: &Uri,
    options: &HttpOptions,
) -> Result<Option<HeaderValue>, HttpError> {
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut first_host = None;
    // Checks all `Host` headers, because a proxy may have used any of them.
    for host in headers.get_all(HOST).iter().map(HeaderValue::as_bytes).chain(authority) {
        let name = name_of(host);
        if !is_allowed_host(name, options) {
            let name = String::from_utf8_lossy(name);
            return Err(HttpError::Host(name.chars().take(200).collect()));
        }
        first_host = first_host.or(Some(host));
    }
    let host = first_host.ok_or(HttpError::NoHost)?;
    let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
    let value = text(origin);
    let page = value.split_once("://").map(|(_, authority)| authority.as_bytes());
    let is_same_host = page == Some(host);
    let is_allowed = page.is_some_and(|page| is_loopback(name_of(page)))
        || contains_value(&options.allowed_origins, value.as_bytes());
    let is_single = headers.get_all(ORIGIN).iter().count() == 1;
    if is_single && (is_same_host || is_allowed) {
        return Ok(Some(origin.clone()));
    }
    Err(HttpError::Origin(value.chars().take(200).collect()))
}

/// Refuses a `GET` that a page of another site sends without CORS, for example as the source of an image. Such a
/// request has no `Origin`. If the request has an `Origin`, [`check`] has already accepted it.
pub(super) fn check_fetch_site(headers: &HeaderMap) -> Result<(), HttpError> {
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) if headers.contains_key(ORIGIN) => Ok(()),
        Some(_) => Err(HttpError::CrossSite),
    }
}

fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

fn contains_value(list: &[String], value: &[u8]) -> bool {
    list.iter().any(|entry| entry == "*" || entry.as_bytes().eq_ignore_ascii_case(value))
}

/// Returns a host without its port.
fn name_of(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|byte| !byte.is_ascii_digit()) {
        Some(colon) if host.get(colon) == Some(&b':') => host.get(..colon).unwrap_or_default(),
        _ => host,
    }
}

/// Returns `true` for `localhost`, configured names and IP addresses. IP addresses are safe, because DNS rebinding
/// needs a name. The first three comparisons suffice for most requests and take less time than parsing an address.
fn is_allowed_host(name: &[u8], options: &HttpOptions) -> bool {
    name == b"127.0.0.1"
        || name.eq_ignore_ascii_case(b"localhost")
        || contains_value(&options.allowed_hosts, name)
        || address(name).is_some()
}

fn is_loopback(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"localhost")
        || address(name).is_some_and(|address| address.is_loopback())
}

fn address(name: &[u8]) -> Option<IpAddr> {
    let name = str::from_utf8(name).ok()?;
    name.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Returns the response to a CORS preflight request.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let requested = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).map(text).unwrap_or_default();
    let is_allowed = |name: &&str| {
        REQUEST_HEADERS.iter().any(|header| header.eq_ignore_ascii_case(name))
            || name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("mcp-param-"))
    };
    let allowed: Vec<&str> = requested.split(',').map(str::trim).filter(is_allowed).collect();
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Ok(allowed) = HeaderValue::try_from(allowed.join(", ")) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(host: &str, origin: &str) -> Result<bool, HttpError> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if !origin.is_empty() {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let options = HttpOptions {
            allowed_hosts: vec!["mcp.example.com".to_owned()],
            allowed_origins: vec!["https://app.example.com".to_owned()],
            ..HttpOptions::default()
        };
        check(&headers, &Uri::from_static("/mcp"), &options).map(|origin| origin.is_some())
    }

    #[test]
    fn allowed_hosts_and_origins_are_accepted() {
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:1",
            "[::1]:8080",
            "192.0.2.7",
            "mcp.example.com",
        ] {
            assert!(!checked(host, "").unwrap(), "{host}");
        }
        for origin in [
            "http://localhost:6274",
            "http://127.0.0.1:3000",
            "http://[::1]",
            "https://app.example.com",
        ] {
            assert!(checked("localhost:8080", origin).unwrap(), "{origin}");
        }
        assert!(
            checked("mcp.example.com", "https://mcp.example.com").unwrap(),
            "a page of this server"
        );
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        for host in
            ["evil.example.com", "localhost.evil.example.com", "127.0.0.1.evil.example.com", ""]
        {
            assert!(matches!(checked(host, ""), Err(HttpError::Host(_))), "{host}");
        }
        for origin in [
            "http://evil.example.com",
            "null",
            "http://localhost.evil.example.com",
            "https://app.example.com.evil.example.com",
            "file://",
            "http://192.0.2.7",
        ] {
            assert!(matches!(checked("localhost", origin), Err(HttpError::Origin(_))), "{origin}");
        }
    }
}
