//! What a service answered, read as it is written in the wild.
//!
//! JSON-RPC 2.0, and the 1.x manner: `"error":null` beside the result, no `jsonrpc`. An error counts
//! under any HTTP status, a result only where the status is good. What the service calls its answer
//! does not matter as long as it is one.

mod batch;
#[cfg(test)]
mod tests;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::refusal::Refusal;
use super::request::RequestId;
use crate::wire::jsonrpc::{Envelope, METHOD_NOT_FOUND, RpcError};

pub(super) use batch::BatchReply;

/// The code of errors that come without one.
const NO_CODE: i64 = -32000;

/// What the error -32601 means at the URL of a tool.
const NOT_FOR_CALLER: &str =
    "The service behind this tool does not have it for you: you may not use it, or it is gone";

/// A longer media type is none.
const MAX_MEDIA: usize = 60;

/// A response of the service.
#[derive(Debug, Clone)]
pub(super) struct ServiceResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

/// The request that a message answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Addressee<'a> {
    /// The request with this id.
    Request(RequestId<'a>),
    /// A request that the service could not read.
    Unnamed,
    /// None: the message is no reply.
    Nobody,
}

impl<'a> Addressee<'a> {
    pub(super) fn of(message: &'a str) -> Self {
        match read_reply(trimmed(message)) {
            Ok(reply) if reply.method.is_some() => Self::Nobody,
            Ok(reply) => match reply.id.and_then(RequestId::of) {
                Some(id) => Self::Request(id),
                None if has_no_id(&reply) && reply.error.is_some() => Self::Unnamed,
                None => Self::Nobody,
            },
            Err(_) => Self::Nobody,
        }
    }
}

impl ServiceResponse {
    /// A message without HTTP around it.
    pub(super) fn bare(body: String) -> Self {
        Self { status: StatusCode::OK, headers: HeaderMap::new(), body }
    }

    /// Returns the result of the method, or its error, or why there is neither.
    pub(super) fn read(&self, id: &RequestId<'_>) -> Result<Box<RawValue>, Failure> {
        let reply = read_reply(trimmed(&self.body))
            .map_err(|failure| self.refused().unwrap_or_else(|| self.explained(failure)))?;
        if let Some(refusal) = self.refusal_despite(reply.error) {
            return Err(Failure::Refused(refusal));
        }
        match (reply.error, reply.result) {
            (Some(error), _) if answers(&reply, id) => Err(Failure::Error(rpc_error(error))),
            (Some(error), _) if has_no_id(&reply) => {
                let error = rpc_error(error);
                let is_denied = says_denied(&error);
                Err(if is_denied { Failure::Denied(error) } else { Failure::Error(error) })
            }
            (None, Some(result)) if answers(&reply, id) => match self.refused() {
                None => Ok(result.to_owned()),
                Some(failure) => Err(failure),
            },
            (None, None) => {
                let failure = Failure::NotRpc("neither a result nor an error");
                Err(self.refused().unwrap_or(failure))
            }
            _ => Err(Failure::WrongId),
        }
    }

    /// The same for the URL of one tool. Drupal's `jsonrpc_mcp` answers there with HTTP 404: with the
    /// error -32601 to those who may not use the tool, with a page if there is none.
    pub(super) fn read_at_tool_url(&self, id: &RequestId<'_>) -> Result<Box<RawValue>, Failure> {
        let is_not_found = self.status == StatusCode::NOT_FOUND;
        self.read(id).map_err(|failure| match failure {
            Failure::Error(error) if is_not_found && error.code == METHOD_NOT_FOUND => {
                Failure::Denied(RpcError::new(error.code, NOT_FOR_CALLER))
            }
            Failure::Status(_) if is_not_found => Failure::NoSuchTool,
            failure => failure,
        })
    }

    /// Returns `true` if it is HTTP 401 and no reply of the method: a method may have run that answers
    /// with an error of its own, or with a result, whatever the status is.
    pub(super) fn is_unauthorized(&self, id: &RequestId<'_>) -> bool {
        let is_reply = || match read_reply(trimmed(&self.body)) {
            Ok(reply) if reply.result.is_some() => true,
            Ok(reply) => answers(&reply, id) && !self.headers.contains_key(WWW_AUTHENTICATE),
            Err(_) => false,
        };
        self.status == StatusCode::UNAUTHORIZED && !is_reply()
    }

    /// Returns the body if the status is good.
    pub(super) fn into_text(self) -> Result<String, Failure> {
        match self.refused() {
            Some(failure) => Err(failure),
            None => Ok(self.body),
        }
    }

    /// Returns a refusal with an error that is not the method's: one beside a challenge, or none of
    /// JSON-RPC, such as `"error":"access_denied"` of OAuth.
    fn refusal_despite(&self, error: Option<&RawValue>) -> Option<Refusal> {
        let is_foreign = error.is_some_and(|error| !error.get().starts_with('{'));
        Refusal::of(self.status, &self.headers)
            .filter(|_| is_foreign || self.headers.contains_key(WWW_AUTHENTICATE))
    }

    /// Returns the failure that the status alone stands for.
    fn refused(&self) -> Option<Failure> {
        match Refusal::of(self.status, &self.headers) {
            Some(refusal) => Some(Failure::Refused(refusal)),
            None => (!self.status.is_success()).then_some(Failure::Status(self.status)),
        }
    }

    /// Returns the failure of a body that is no reply, with what the headers say about it.
    fn explained(&self, failure: Failure) -> Failure {
        if self.body.trim().is_empty() {
            return Failure::Empty(self.status);
        }
        match media(&self.headers) {
            Some(media) if !media.contains("json") => Failure::ContentType(media),
            _ => failure,
        }
    }
}

/// Some editors of PHP files leave a byte order mark.
fn trimmed(body: &str) -> &str {
    body.trim_start_matches('\u{feff}').trim()
}

/// The media type, if it is one.
fn media(headers: &HeaderMap) -> Option<String> {
    let media = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media = media.split(';').next()?.trim().to_ascii_lowercase();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/+-.".contains(c);
    (!media.is_empty() && media.len() <= MAX_MEDIA && media.chars().all(is_allowed))
        .then_some(media)
}

type Reply<'a> = Envelope<'a, IgnoredAny>;

/// Reads a message of the service. An `error` that is null counts as absent.
fn read_reply(body: &str) -> Result<Reply<'_>, Failure> {
    let reply = Reply::read(body).map_err(|error| {
        if error.is_data() && body.starts_with('{') {
            Failure::NotRpc("a key is there twice")
        } else if serde_json::from_str::<&RawValue>(body).is_ok() {
            Failure::NotRpc("not an object")
        } else {
            Failure::NotJson
        }
    })?;
    let error = reply.error.filter(|error| error.get() != "null");
    Ok(Reply { error, ..reply })
}

/// Returns `true` if a message answers the request with this id.
fn answers(reply: &Reply<'_>, id: &RequestId<'_>) -> bool {
    reply.id.and_then(RequestId::of).as_ref() == Some(id)
}

/// Returns `true` if a message has no id, or that of replies to requests that could not be read.
fn has_no_id(reply: &Reply<'_>) -> bool {
    reply.id.is_none_or(|id| matches!(id.get(), "null" | "0"))
}

/// An error as it is, and as well as can be where it is none of JSON-RPC.
fn rpc_error(raw: &RawValue) -> RpcError {
    if let Ok(error) = serde_json::from_str(raw.get()) {
        return error;
    }
    let error: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    let text = |key| error.get(key).and_then(Value::as_str);
    let code = error.get("code").and_then(|code| match code {
        Value::String(code) => code.parse().ok(),
        code => code.as_i64(),
    });
    let message = error.as_str().or(text("message")).unwrap_or_default().to_owned();
    let data = match error.get("data") {
        Some(data) => Some(data.clone()),
        None if message.is_empty() => Some(error),
        None => None,
    };
    RpcError { code: code.unwrap_or(NO_CODE), message, data }
}

/// Drupal has no code of its own for it.
fn says_denied(error: &RpcError) -> bool {
    let data = error.data.as_ref().and_then(Value::as_str).unwrap_or(&error.message);
    data.get(..13).is_some_and(|start| start.eq_ignore_ascii_case("access denied"))
}
