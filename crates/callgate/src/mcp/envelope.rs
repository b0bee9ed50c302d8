//! One message, taken apart: the envelope, `params` and `_meta`. Values stay as they stand in the text.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::classify::{McpRequest, Message};
use super::reject::Reject;
use crate::jsonrpc::{self, Envelope, EnvelopeError, INVALID_PARAMS};
use crate::strict_json::{self, text};

/// Maximum number of members of `params` and of `_meta`.
const MAX_MEMBERS: usize = 64;
/// Maximum length of a number that is an id: readers of JSON disagree on longer ones.
const MAX_DIGITS: usize = 20;

/// Reads a message.
pub(crate) fn incoming(body: &str) -> Result<Message<'_>, Reject> {
    let refused = |error: EnvelopeError| Reject::bad_request(error.code(), error.to_string());
    let envelope = Envelope::<&RawValue>::parse(body).map_err(refused)?;
    let id = envelope.id;
    if id.is_some_and(|id| !is_id(id.get())) {
        return Err(refused(EnvelopeError::invalid("`id` must be a string or an integer")));
    }
    let request = match envelope.message() {
        Ok(jsonrpc::Message::Response { id, outcome }) => {
            return Ok(Message::Response { id, outcome });
        }
        Ok(jsonrpc::Message::Request(request)) => request,
        Err(error) => return Err(refused(error).of_optional(id)),
    };
    let method = request.method;
    match (id, params_and_meta(request.params)) {
        (Some(id), Ok((params, meta))) => {
            Ok(Message::Request(McpRequest { id, method, params, meta }))
        }
        (None, Ok((params, _))) => Ok(Message::Notification { method, params }),
        (Some(id), Err(reject)) => Err(reject.of(id)),
        (None, Err(reject)) => Err(reject.of_notification()),
    }
}

fn params_and_meta(params: Option<&RawValue>) -> Result<(Members<'_>, Members<'_>), Reject> {
    if params.is_some_and(|raw| !raw.get().starts_with(['{', '[', 'n'])) {
        let error = EnvelopeError::invalid("`params` must be an object");
        return Err(Reject::bad_request(error.code(), error.to_string()));
    }
    let read = |name: &str, raw| {
        let wrong = |problem| Reject::bad_request(INVALID_PARAMS, format!("`{name}` {problem}"));
        Members::parse(raw).map_err(wrong)
    };
    let params = read("params", params)?;
    let meta = read("params._meta", params.get("_meta"))?;
    Ok((params, meta))
}

/// Returns `true` if this can be the id of a request: a string or a whole number.
pub(super) fn is_id(raw: &str) -> bool {
    raw.starts_with('"')
        || (raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && raw.len() <= MAX_DIGITS
            && !raw.contains(['.', 'e', 'E']))
}

/// The members of an object, each name once.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object. Absent is an empty one, and so is null, which some clients write for it.
    pub(crate) fn parse(raw: Option<&'a RawValue>) -> Result<Self, String> {
        let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else {
            return Ok(Self::default());
        };
        if !raw.starts_with('{') {
            return Err("must be an object".to_owned());
        }
        match strict_json::members(raw) {
            Ok(members) if members.len() <= MAX_MEMBERS => Ok(Self(members)),
            Ok(_) => Err(format!("has more than {MAX_MEMBERS} members")),
            Err(error) => Err(format!("must be an object: {}", strict_json::problem(&error))),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Returns a member that must be a string if it is present.
    pub(crate) fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, Reject> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        let text = text(raw)
            .ok_or_else(|| Reject::invalid_params(format!("`{name}` must be a string")))?;
        Ok(Some(text))
    }

    /// Returns a member that must be present and a string.
    pub(crate) fn required_text(&self, name: &str) -> Result<Cow<'a, str>, Reject> {
        self.text(name)?.ok_or_else(|| Reject::invalid_params(format!("`{name}` is missing")))
    }
}
