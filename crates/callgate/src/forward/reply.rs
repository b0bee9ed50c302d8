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
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::refusal::Refusal;
use super::reply_id::ReplyId;
use super::request::RequestId;
use crate::jsonrpc::{METHOD_NOT_FOUND, RpcError};
use crate::strict_json;

pub(super) use batch::{BatchReply, Part};

/// The code of errors that come without one.
const NO_CODE: i64 = -32000;

/// What the error -32601 means at the URL of a tool.
const NOT_FOR_CALLER: &str =
    "The service behind this tool does not have it for you: you may not use it, or it is gone";

/// A longer media type is none.
const MAX_MEDIA: usize = 60;

/// A whole answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a str,
}

/// The same, with what it consists of.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Whole {
    /// One that came without HTTP around it.
    pub(super) fn bare(body: String) -> Self {
        Self { status: StatusCode::OK, headers: HeaderMap::new(), body }
    }

    pub(super) fn read(&self, id: &RequestId<'_>) -> Result<super::Replied, Failure> {
        self.answer().read(id)
    }

    /// The same for the URL of one tool. Drupal's `jsonrpc_mcp` answers there with HTTP 404: with the
    /// error -32601 to those who may not use the tool, with a page where there is none.
    pub(super) fn read_at_tool_url(&self, id: &RequestId<'_>) -> Result<super::Replied, Failure> {
        let is_not_found = self.status == StatusCode::NOT_FOUND;
        match self.read(id) {
            Ok(Err(Reply::Error(error))) if is_not_found && error.code == METHOD_NOT_FOUND => {
                Ok(Err(Reply::Denied(RpcError::new(error.code, NOT_FOR_CALLER))))
            }
            Err(Failure::Status(_)) if is_not_found => Err(Failure::NoSuchTool),
            read => read,
        }
    }

    /// Returns `true` if it is HTTP 401 and no reply of the method: a method may have run that answers
    /// with an error of its own, or with a result, whatever the status is.
    pub(super) fn is_unauthorized(&self, id: &RequestId<'_>) -> bool {
        let is_reply = || match Parts::read(trimmed(&self.body)) {
            Ok(parts) if parts.result.is_some() => true,
            Ok(parts) => {
                let is_ours = parts.id.is_some_and(|found| id.is(found));
                is_ours && !self.headers.contains_key(WWW_AUTHENTICATE)
            }
            Err(_) => false,
        };
        self.status == StatusCode::UNAUTHORIZED && !is_reply()
    }

    /// The body, where the status is good.
    pub(super) fn into_text(self) -> Result<String, Failure> {
        match self.answer().refused() {
            Some(failure) => Err(failure),
            None => Ok(self.body),
        }
    }

    fn answer(&self) -> Answer<'_> {
        Answer { status: self.status, headers: &self.headers, body: &self.body }
    }
}

/// Whom a message answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Addressee {
    /// The request with this id.
    Request(ReplyId),
    /// An error of somebody who could not read the request.
    Unnamed,
    /// It is no reply.
    Nobody,
}

impl Addressee {
    pub(super) fn of(message: &str) -> Self {
        match Parts::read(trimmed(message)) {
            Ok(parts) if parts.is_call => Self::Nobody,
            Ok(parts) => match parts.id.and_then(ReplyId::of) {
                Some(id) => Self::Request(id),
                None if parts.has_no_id() && parts.error.is_some() => Self::Unnamed,
                None => Self::Nobody,
            },
            Err(_) => Self::Nobody,
        }
    }
}

/// What the method said in place of a result.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Error(RpcError),
    /// As Drupal says it: with an id of null, in the error's data.
    Denied(RpcError),
}

impl From<Reply> for RpcError {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Error(error) | Reply::Denied(error) => error,
        }
    }
}

impl Answer<'_> {
    /// The result, or the method's error, or why it is neither.
    pub(super) fn read(self, id: &RequestId<'_>) -> Result<Result<Box<RawValue>, Reply>, Failure> {
        let parts = match Parts::read(trimmed(self.body)) {
            Ok(parts) => parts,
            Err(failure) => return Err(self.refused().unwrap_or_else(|| self.explained(failure))),
        };
        if let Some(refusal) = self.refusal_despite(parts.error) {
            return Err(Failure::Refused(refusal));
        }
        let is_ours = parts.id.is_some_and(|found| id.is(found));
        match (parts.error, parts.result) {
            (Some(error), _) if is_ours || parts.has_no_id() => {
                let error = rpc_error(error);
                let is_denied = !is_ours && says_denied(&error);
                Ok(Err(if is_denied { Reply::Denied(error) } else { Reply::Error(error) }))
            }
            (None, Some(result)) if is_ours => match self.refused() {
                None => Ok(Ok(result.to_owned())),
                Some(failure) => Err(failure),
            },
            (None, None) => {
                let failure = Failure::NotRpc("neither a result nor an error");
                Err(self.refused().unwrap_or(failure))
            }
            _ => Err(Failure::WrongId),
        }
    }

    /// A refusal with an error that is not the method's: one beside a challenge, or none of JSON-RPC,
    /// such as `"error":"access_denied"` of OAuth.
    fn refusal_despite(self, error: Option<&RawValue>) -> Option<Refusal> {
        let is_foreign = error.is_some_and(|error| !error.get().starts_with('{'));
        Refusal::of(self.status, self.headers)
            .filter(|_| is_foreign || self.headers.contains_key(WWW_AUTHENTICATE))
    }

    /// What the status alone says.
    fn refused(self) -> Option<Failure> {
        match Refusal::of(self.status, self.headers) {
            Some(refusal) => Some(Failure::Refused(refusal)),
            None => (!self.status.is_success()).then_some(Failure::Status(self.status)),
        }
    }

    /// With what the headers say about it.
    fn explained(self, failure: Failure) -> Failure {
        if self.body.trim().is_empty() {
            return Failure::Empty(self.status);
        }
        match media(self.headers) {
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

/// The members that count, as they stand.
#[derive(Debug, Default)]
struct Parts<'a> {
    id: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    /// Not null.
    error: Option<&'a RawValue>,
    /// Whether it names a method.
    is_call: bool,
}

impl<'a> Parts<'a> {
    fn read(body: &'a str) -> Result<Self, Failure> {
        let members = strict_json::members(body).map_err(|error| {
            if error.is_data() && body.starts_with('{') {
                Failure::NotRpc("a key is there twice")
            } else if serde_json::from_str::<&RawValue>(body).is_ok() {
                Failure::NotRpc("not an object")
            } else {
                Failure::NotJson
            }
        })?;
        let mut parts = Self::default();
        for (name, value) in members {
            match name.as_ref() {
                "id" => parts.id = Some(value),
                "result" => parts.result = Some(value),
                "error" if value.get() != "null" => parts.error = Some(value),
                "method" => parts.is_call = true,
                _ => {}
            }
        }
        Ok(parts)
    }

    /// What those send who could not read the request's.
    fn has_no_id(&self) -> bool {
        self.id.is_none_or(|id| matches!(id.get(), "null" | "0"))
    }
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
