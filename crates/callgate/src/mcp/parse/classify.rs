//! Determines the protocol era of a message, or the error for an invalid message. [`classify`] is a pure function of
//! the kind of message, the headers and the body, and is used for HTTP and stdio.
//!
//! The body determines the era, and the headers must agree with the body. The first row that matches applies:
//!
//! | message | result |
//! | --- | --- |
//! | GET, DELETE with a modern version header | 405 |
//! | GET with neither a session nor a version nor a last event id | 405 |
//! | GET, DELETE | opens the stream of a legacy session, or ends the session |
//! | not JSON, not JSON-RPC, `id: null` | 400 with -32700 or -32600 |
//! | a list, not in `rawRequest` | a batch of 2025-03-26; 400 -32600 in other revisions, or with a modern message or `initialize` |
//! | a list, in `rawRequest` | a batch of any legacy revision; 400 -32600 with a modern message or version header |
//! | a response | legacy: accepted; with a modern version header 400 -32600 |
//! | a notification | accepted |
//! | `initialize` without a complete modern `_meta` | the legacy handshake |
//! | `_meta` names a revision | modern, see [`check_modern`] |
//! | a modern version header, but no revision in `_meta` | 400 -32602 with the missing keys, if modern revisions are offered |
//! | anything else | legacy; an unknown version in the header is 400 -32600 |

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::str::FromStr as _;

use serde_json::json;
use serde_json::value::RawValue;

use super::envelope::{RawMembers, read_message};
use super::headers::{self, Header, Headers, decode};
use super::method::McpMethod;
use crate::mcp::McpError;
use crate::wire::jsonrpc::{self, INVALID_PARAMS, INVALID_REQUEST};
use crate::wire::strict_json::text;
use crate::wire::{Era, Revision};

/// `_meta` key of the protocol revision of a modern request.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key of the capabilities of a modern client.
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Error code: a header does not match the body, or is missing.
pub const HEADER_MISMATCH: i64 = -32020;
/// Error code: the protocol revision is not supported.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// The kind of a message, by its HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboundKind {
    /// POST, or a line over stdio: a message in the body.
    Message,
    /// GET: opens a notification stream.
    OpenStream,
    /// DELETE: ends the session.
    EndSession,
    /// GET with `?rawRequest=`: a message in the URL, for debugging. Batches are accepted in every legacy revision.
    RawRequest,
}

/// A classified message.
#[derive(Debug)]
pub(crate) enum Route<'a> {
    /// A request with its revision and capabilities in `_meta`.
    Modern(McpRequest<'a>),
    /// A message of a legacy client. `header_revision` is the revision in the version header.
    Legacy { header_revision: Option<Revision>, message: McpMessage<'a> },
    /// A batch. Each invalid message has its own error.
    Batch { header_revision: Option<Revision>, messages: Vec<Result<McpMessage<'a>, McpError>> },
    /// A legacy client opens its notification stream.
    OpenStream { header_revision: Option<Revision> },
    /// A legacy client ends its session.
    EndSession,
}

impl Route<'_> {
    /// Returns `true` if the response depends on the caller's tools.
    pub(crate) fn depends_on_tools(&self) -> bool {
        match self {
            Self::Modern(request) => request.method.depends_on_tools(),
            Self::Legacy { message, .. } => message.depends_on_tools(),
            Self::Batch { messages, .. } => {
                messages.iter().flatten().any(McpMessage::depends_on_tools)
            }
            Self::OpenStream { .. } => true,
            Self::EndSession => false,
        }
    }
}

/// A JSON-RPC message.
#[derive(Debug)]
pub(crate) enum McpMessage<'a> {
    Request(McpRequest<'a>),
    Notification { method: Cow<'a, str>, params: RawMembers<'a> },
    Response { id: &'a RawValue, outcome: RpcResult<'a> },
}

impl McpMessage<'_> {
    fn depends_on_tools(&self) -> bool {
        matches!(self, Self::Request(request) if request.method.depends_on_tools())
    }
}

pub(crate) type RpcResult<'a> = Result<&'a RawValue, &'a RawValue>;

/// A request with its parsed parameters.
#[derive(Debug)]
pub(crate) struct McpRequest<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: McpMethod,
    /// Name of the method.
    pub(crate) method_name: Cow<'a, str>,
    pub(crate) params: RawMembers<'a>,
    pub(crate) meta: RawMembers<'a>,
}

/// Classifies a message. `newest` is the newest revision that the server offers.
pub(crate) fn classify<'a>(
    kind: InboundKind,
    headers: Option<&dyn Headers>,
    body: &'a str,
    newest: Revision,
) -> Result<Route<'a>, McpError> {
    match kind {
        InboundKind::Message | InboundKind::RawRequest => {}
        InboundKind::OpenStream | InboundKind::EndSession if is_modern_header(headers) => {
            return Err(McpError::new(405, INVALID_REQUEST, "this revision allows only POST"));
        }
        // Clients of the old HTTP+SSE transport would wait for an event that this server never sends.
        InboundKind::OpenStream if headers.is_some_and(lacks_protocol_headers) => {
            let message = "GET opens the event stream of a session: POST `initialize` first, and \
                           send `Mcp-Session-Id`; this server has no HTTP+SSE transport";
            return Err(McpError::new(405, INVALID_REQUEST, message));
        }
        InboundKind::OpenStream => {
            return Ok(Route::OpenStream { header_revision: header_revision(headers)? });
        }
        InboundKind::EndSession => return Ok(Route::EndSession),
    }
    if body.trim_start().starts_with('[') {
        return batch(kind, headers, body);
    }
    let request = match read_message(body)? {
        McpMessage::Request(request) => request,
        McpMessage::Response { .. } if is_modern_header(headers) => {
            let problem = "clients of this revision send no responses";
            return Err(McpError::bad_request(INVALID_REQUEST, problem));
        }
        // The specification defines no header rules for modern notifications.
        message => return Ok(Route::Legacy { header_revision: None, message }),
    };
    let has_version = request.meta.get(META_VERSION).is_some();
    let has_complete_meta = has_version && request.meta.get(META_CAPABILITIES).is_some();
    let is_handshake = request.method == McpMethod::Initialize && !has_complete_meta;
    if has_version && !is_handshake {
        let id = request.id;
        return check_modern(request, headers, newest).map_err(|error| error.with_id(id));
    }
    if !is_handshake && newest.is_modern() && is_modern_header(headers) {
        return Err(missing_meta(&request.meta).with_id(request.id));
    }
    let header_revision = match header_revision(headers) {
        // The handshake itself negotiates the revision, so the header is ignored.
        _ if is_handshake => None,
        Err(error) => return Err(error.with_id(request.id)),
        Ok(header_revision) => header_revision,
    };
    Ok(Route::Legacy { header_revision, message: McpMessage::Request(request) })
}

/// Checks a modern request. The checks have this order:
///
/// | failure | code |
/// | --- | --- |
/// | `_meta` lacks the revision or the client's capabilities | 400 -32602 |
/// | the version header is missing or does not match | 400 -32020 |
/// | the revision is not offered | 400 -32022 |
/// | `Mcp-Method` or `Mcp-Name` is missing or does not match | 400 -32020 |
///
/// The method later checks `Mcp-Param-*` and its own parameters.
fn check_modern<'a>(
    request: McpRequest<'a>,
    headers: Option<&dyn Headers>,
    newest: Revision,
) -> Result<Route<'a>, McpError> {
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
        check_header(headers, headers::PROTOCOL_VERSION, &version)?;
    }
    if !Revision::from_str(&version).is_ok_and(Revision::is_modern) {
        return Err(unsupported(&version, newest));
    }
    if let Some(headers) = headers {
        check_header(headers, headers::METHOD, &request.method_name)?;
        check_name(&request, headers)?;
    }
    Ok(Route::Modern(request))
}

/// Returns the error that a server without modern revisions sends for a modern request.
fn legacy_only(version: &str, newest: Revision) -> McpError {
    let message = format!(
        "Unsupported protocol version {version}; the newest version that this server offers is {newest}; \
         a client of that version first sends `initialize`"
    );
    McpError::bad_request(INVALID_REQUEST, message)
}

/// Maximum number of characters of an unknown revision that the error repeats.
const MAX_VERSION: usize = 100;

fn unsupported(version: &str, newest: Revision) -> McpError {
    // Lists only modern revisions. If a legacy revision were listed, a client would repeat the modern request with it.
    let modern = newest.and_older().filter(|revision| revision.is_modern());
    let supported: Vec<&str> = modern.map(Revision::as_str).collect();
    let version: String = version.chars().take(MAX_VERSION).collect();
    let message = format!("Unsupported protocol version {version}");
    let data = json!({"supported": supported, "requested": version});
    McpError::bad_request(UNSUPPORTED_VERSION, message).with_data(data)
}

fn missing_meta(meta: &RawMembers<'_>) -> McpError {
    let value_starts_with =
        |key: &str, start: char| meta.get(key).is_some_and(|raw| raw.get().starts_with(start));
    let missing: Vec<String> =
        [(META_VERSION, '"', "a string"), (META_CAPABILITIES, '{', "an object")]
            .into_iter()
            .filter(|(key, start, _)| !value_starts_with(key, *start))
            .map(|(key, _, expected)| format!("`{key}`, {expected}"))
            .collect();
    let message = format!("`params._meta` must have {}", missing.join(", and "));
    McpError::bad_request(INVALID_PARAMS, message)
}

/// Compares `Mcp-Name` with the name, URI or task id of the request.
fn check_name(request: &McpRequest<'_>, headers: &dyn Headers) -> Result<(), McpError> {
    let Some(member) = request.method.name_member() else { return Ok(()) };
    match request.params.get(member).and_then(text) {
        Some(name) => check_header(headers, headers::NAME, &name),
        // The method reports that the parameter is missing.
        None if headers.header(headers::NAME) == Header::Absent => Ok(()),
        None => Err(header_mismatch(
            headers::NAME,
            "is present, but the body has no value to compare it with",
        )),
    }
}

fn check_header(headers: &dyn Headers, name: &str, expected: &str) -> Result<(), McpError> {
    match headers.header(name) {
        Header::One(value) if decode(value).is_some_and(|value| value == expected) => Ok(()),
        Header::One(_) => Err(header_mismatch(name, "does not match the body")),
        Header::Absent => Err(header_mismatch(name, "is missing")),
        Header::Unusable => Err(header_mismatch(name, "occurs twice or is not plain text")),
    }
}

pub(crate) fn header_mismatch(header: &str, problem: &str) -> McpError {
    McpError::bad_request(HEADER_MISMATCH, format!("the header `{header}` {problem}"))
}

/// Returns `true` if the headers contain no session, no revision and no last event id.
fn lacks_protocol_headers(headers: &dyn Headers) -> bool {
    [headers::SESSION_ID, headers::PROTOCOL_VERSION, headers::LAST_EVENT_ID]
        .iter()
        .all(|name| headers.header(name) == Header::Absent)
}

/// Returns `true` if the version header contains a modern revision, known or future.
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

/// Returns the revision in the version header of a legacy message.
fn header_revision(headers: Option<&dyn Headers>) -> Result<Option<Revision>, McpError> {
    let Some(headers) = headers else { return Ok(None) };
    let version = match headers.header(headers::PROTOCOL_VERSION) {
        Header::Absent => return Ok(None),
        Header::One(version) => version,
        Header::Unusable => "(occurs twice or is not plain text)",
    };
    match Revision::from_str(version) {
        Ok(revision) if !revision.is_modern() => Ok(Some(revision)),
        _ => Err(unsupported_header(version, Revision::NEWEST_LEGACY)),
    }
}

/// Returns the error for a version header that is invalid in a legacy request.
pub(crate) fn unsupported_header(version: &str, newest: Revision) -> McpError {
    let offered: Vec<&str> = newest.and_older().map(Revision::as_str).collect();
    let message = format!(
        "Unsupported protocol version in the header `MCP-Protocol-Version`: {version}; supported \
         are {}",
        offered.join(", ")
    );
    McpError::bad_request(INVALID_REQUEST, message)
}

fn batch<'a>(
    kind: InboundKind,
    headers: Option<&dyn Headers>,
    body: &'a str,
) -> Result<Route<'a>, McpError> {
    let batch_error = |problem: &str| McpError::bad_request(INVALID_REQUEST, problem.to_owned());
    let raw = jsonrpc::batch(body)
        .map_err(|error| McpError::bad_request(error.code(), error.to_string()))?;
    if is_modern_header(headers) {
        return Err(batch_error("this revision does not support batches"));
    }
    let header_revision = header_revision(headers)?;
    let messages: Vec<_> = raw.into_iter().map(|message| read_message(message.get())).collect();
    for message in messages.iter().flatten() {
        let McpMessage::Request(request) = message else { continue };
        if request.meta.get(META_VERSION).is_some() {
            return Err(batch_error(
                "a request with its own revision in `_meta` cannot be in a batch",
            ));
        }
        if request.method == McpMethod::Initialize && kind != InboundKind::RawRequest {
            return Err(batch_error("`initialize` cannot be in a batch"));
        }
    }
    Ok(Route::Batch { header_revision, messages })
}
