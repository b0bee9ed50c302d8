//! Which era a message belongs to, and what is wrong with it: a pure function over the HTTP method,
//! the headers and the body, shared by HTTP and stdio.
//!
//! The body decides; the headers are a cross-check. In this order:
//!
//! | what comes | outcome |
//! | --- | --- |
//! | GET, DELETE | a legacy session's stream or end; 405 under a modern version header |
//! | not JSON, not JSON-RPC, `id: null` | 400 with -32700 or -32600 |
//! | a list | a batch of 2025-03-26; 400 -32600 otherwise, or where a member is modern |
//! | a response | legacy: accepted; under a modern version header 400 -32600 |
//! | a notification | accepted |
//! | `initialize` without whole modern `_meta` | the legacy handshake |
//! | `_meta` names a revision | modern, see [`check_modern`] |
//! | a modern version header without that | 400 -32602 with the missing keys |
//! | anything else | legacy; an unknown version in the header is 400 -32600 |

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::str::FromStr as _;

use serde_json::json;
use serde_json::value::RawValue;

use super::envelope::{Members, incoming};
use super::headers;
use super::headers::{Header, Headers, decode};
use crate::mcp::reply::error::Reject;
use crate::wire::jsonrpc;
use crate::wire::jsonrpc::{INVALID_PARAMS, INVALID_REQUEST};
use crate::wire::revision::{Era, Revision};
use crate::wire::strict_json::text;

/// The `_meta` key of the revision that a modern request is written in.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` key of what a modern client can do.
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The header and the body disagree, or a header is missing.
pub const HEADER_MISMATCH: i64 = -32020;
/// A revision that is not offered.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// A message in the body.
    Post,
    /// A client that wants to listen.
    Get,
    /// A client that ends its session.
    Delete,
    /// A message in the URL, the seed's form for debugging: batches are taken as they come.
    Raw,
}

/// What a message is.
#[derive(Debug)]
pub(crate) enum Route<'a> {
    /// A request that carries its own terms.
    Modern(McpRequest<'a>),
    /// One message on the terms of a handshake. `claimed` is the revision of the version header.
    Legacy { claimed: Option<Revision>, message: Message<'a> },
    /// Several messages at once; what is wrong with one is told in its place.
    Batch { claimed: Option<Revision>, messages: Vec<Result<Message<'a>, Reject>> },
    /// A legacy client listens.
    Stream { claimed: Option<Revision> },
    /// A legacy client ends its session.
    End,
}

impl Route<'_> {
    /// Returns `true` if the answer depends on what tools the caller has.
    pub(crate) fn is_about_tools(&self) -> bool {
        const METHODS: [&str; 4] =
            ["tools/list", "tools/call", "resources/read", "subscriptions/listen"];
        let of_message = |message: &Message<'_>| matches!(message, Message::Request(it) if METHODS.contains(&it.method.as_ref()));
        match self {
            Self::Modern(request) => METHODS.contains(&request.method.as_ref()),
            Self::Legacy { message, .. } => of_message(message),
            Self::Batch { messages, .. } => messages.iter().flatten().any(of_message),
            Self::Stream { .. } => true,
            Self::End => false,
        }
    }
}

/// One message.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Request(McpRequest<'a>),
    Notification { method: Cow<'a, str>, params: Members<'a> },
    Response { id: &'a RawValue, outcome: Outcome<'a> },
}

/// The result or the error of a response.
pub(crate) type Outcome<'a> = Result<&'a RawValue, &'a RawValue>;

/// A request, taken apart.
#[derive(Debug)]
pub(crate) struct McpRequest<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Members<'a>,
    pub(crate) meta: Members<'a>,
}

/// Tells what a message is. `newest` is the newest revision that is offered.
pub(crate) fn classify<'a>(
    verb: Verb,
    headers: Option<&dyn Headers>,
    body: &'a str,
    newest: Revision,
) -> Result<Route<'a>, Reject> {
    match verb {
        Verb::Post | Verb::Raw => {}
        Verb::Get | Verb::Delete if is_modern_header(headers) => {
            return Err(Reject::method_not_allowed());
        }
        Verb::Get => return Ok(Route::Stream { claimed: claimed(headers)? }),
        Verb::Delete => return Ok(Route::End),
    }
    if body.trim_start().starts_with('[') {
        return batch(verb, headers, body);
    }
    let request = match incoming(body)? {
        Message::Request(request) => request,
        Message::Response { .. } if is_modern_header(headers) => {
            let problem = "clients of this revision have nothing to answer";
            return Err(Reject::bad_request(INVALID_REQUEST, problem));
        }
        // Header rules for modern notifications are not defined.
        message => return Ok(Route::Legacy { claimed: None, message }),
    };
    let has_version = request.meta.get(META_VERSION).is_some();
    let is_whole = has_version && request.meta.get(META_CAPABILITIES).is_some();
    let is_handshake = request.method == "initialize" && !is_whole;
    if has_version && !is_handshake {
        let id = request.id;
        return check_modern(request, headers, newest).map_err(|reject| reject.of(id));
    }
    if !is_handshake && newest.is_modern() && is_modern_header(headers) {
        return Err(missing_meta(&request.meta).of(request.id));
    }
    let claimed = match claimed(headers) {
        // A handshake is about finding a revision.
        _ if is_handshake => None,
        Err(reject) => return Err(reject.of(request.id)),
        Ok(claimed) => claimed,
    };
    Ok(Route::Legacy { claimed, message: Message::Request(request) })
}

/// What a modern request must fulfil, in this order.
///
/// | failure | code |
/// | --- | --- |
/// | `_meta` lacks the revision or the client's capabilities | 400 -32602 |
/// | the version header is missing or another | 400 -32020 |
/// | the revision is not offered | 400 -32022 |
/// | `Mcp-Method` or `Mcp-Name` is missing or another | 400 -32020 |
///
/// `Mcp-Param-*`, unknown methods and the rest are found later, by what answers.
fn check_modern<'a>(
    request: McpRequest<'a>,
    headers: Option<&dyn Headers>,
    newest: Revision,
) -> Result<Route<'a>, Reject> {
    let version = request.meta.get(META_VERSION).and_then(text);
    let capabilities = request.meta.get(META_CAPABILITIES).map(RawValue::get);
    let (Some(version), Some(true)) =
        (version, capabilities.map(|capabilities| capabilities.starts_with('{')))
    else {
        return Err(missing_meta(&request.meta));
    };
    if newest.era() == Era::Legacy {
        return Err(legacy_only(&version, newest));
    }
    if let Some(headers) = headers {
        same_header(headers, headers::PROTOCOL_VERSION, &version)?;
    }
    if !Revision::from_str(&version).is_ok_and(Revision::is_modern) {
        return Err(unsupported(&version, newest));
    }
    if let Some(headers) = headers {
        same_header(headers, headers::METHOD, &request.method)?;
        check_name(&request, headers)?;
    }
    Ok(Route::Modern(request))
}

/// A server that only knows handshakes would not know the version of the header.
fn legacy_only(version: &str, newest: Revision) -> Reject {
    let message = format!(
        "Unsupported protocol version {version}; this server offers up to {newest}: begin with \
         `initialize`"
    );
    Reject::bad_request(INVALID_REQUEST, message)
}

fn unsupported(version: &str, newest: Revision) -> Reject {
    // Only those that can be asked for in this way: a client would try again with the others.
    let modern = newest.and_older().filter(|revision| revision.is_modern());
    let supported: Vec<&str> = modern.map(Revision::as_str).collect();
    let message = format!("Unsupported protocol version {version}");
    let data = json!({"supported": supported, "requested": version});
    Reject::bad_request(UNSUPPORTED_VERSION, message).with_data(data)
}

fn missing_meta(meta: &Members<'_>) -> Reject {
    let is = |key: &str, start: char| meta.get(key).is_some_and(|raw| raw.get().starts_with(start));
    let missing: Vec<String> =
        [(META_VERSION, '"', "a string"), (META_CAPABILITIES, '{', "an object")]
            .into_iter()
            .filter(|(key, start, _)| !is(key, *start))
            .map(|(key, _, form)| format!("`{key}`, {form}"))
            .collect();
    let message = format!("`params._meta` must have {}", missing.join(", and "));
    Reject::bad_request(INVALID_PARAMS, message)
}

/// `Mcp-Name` repeats what a request is about.
fn check_name(request: &McpRequest<'_>, headers: &dyn Headers) -> Result<(), Reject> {
    let member = match request.method.as_ref() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    match request.params.get(member).and_then(text) {
        Some(name) => same_header(headers, headers::NAME, &name),
        // Nothing to repeat: what answers says that it is missing.
        None if headers.header(headers::NAME) == Header::Absent => Ok(()),
        None => Err(mismatch(headers::NAME, "is there, but the body has nothing to compare with")),
    }
}

fn same_header(headers: &dyn Headers, name: &str, expected: &str) -> Result<(), Reject> {
    match headers.header(name) {
        Header::One(value) if decode(value).is_some_and(|value| value == expected) => Ok(()),
        Header::One(_) => Err(mismatch(name, "is not what the body says")),
        Header::Absent => Err(mismatch(name, "is missing")),
        Header::Unusable => Err(mismatch(name, "is there twice or is not plain text")),
    }
}

pub(crate) fn mismatch(header: &str, problem: &str) -> Reject {
    Reject::bad_request(HEADER_MISMATCH, format!("the header `{header}` {problem}"))
}

/// Whether the version header names a revision that has no handshake, known or to come.
fn is_modern_header(headers: Option<&dyn Headers>) -> bool {
    let Some(Header::One(version)) =
        headers.map(|headers| headers.header(headers::PROTOCOL_VERSION))
    else {
        return false;
    };
    let is_date =
        version.len() == 10 && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date && version >= Revision::V2026_07_28.as_str()
}

/// The revision that the version header names, for a client that has had its handshake.
fn claimed(headers: Option<&dyn Headers>) -> Result<Option<Revision>, Reject> {
    let Some(headers) = headers else { return Ok(None) };
    let version = match headers.header(headers::PROTOCOL_VERSION) {
        Header::Absent => return Ok(None),
        Header::One(version) => version,
        Header::Unusable => "(twice, or not plain text)",
    };
    match Revision::from_str(version) {
        Ok(revision) if !revision.is_modern() => Ok(Some(revision)),
        _ => Err(unsupported_header(version, Revision::NEWEST_LEGACY)),
    }
}

/// A version header that a legacy request cannot have.
pub(crate) fn unsupported_header(version: &str, newest: Revision) -> Reject {
    let offered: Vec<&str> = newest.and_older().map(Revision::as_str).collect();
    let message = format!(
        "Unsupported protocol version in the header `MCP-Protocol-Version`: {version}; supported \
         are {}",
        offered.join(", ")
    );
    Reject::bad_request(INVALID_REQUEST, message)
}

fn batch<'a>(
    verb: Verb,
    headers: Option<&dyn Headers>,
    body: &'a str,
) -> Result<Route<'a>, Reject> {
    let refused = |problem: &str| Reject::bad_request(INVALID_REQUEST, problem.to_owned());
    let raw = jsonrpc::batch(body)
        .map_err(|error| Reject::bad_request(error.code(), error.to_string()))?;
    if is_modern_header(headers) {
        return Err(refused("this revision has no batches"));
    }
    let claimed = claimed(headers)?;
    let messages: Vec<_> = raw.into_iter().map(|message| incoming(message.get())).collect();
    for message in messages.iter().flatten() {
        let Message::Request(request) = message else { continue };
        if request.meta.get(META_VERSION).is_some() {
            return Err(refused("a request with its own revision in `_meta` cannot be in a batch"));
        }
        if request.method == "initialize" && verb != Verb::Raw {
            return Err(refused("`initialize` cannot be in a batch"));
        }
    }
    Ok(Route::Batch { claimed, messages })
}
