//! One message, taken apart: the envelope, `params` and `_meta`. Values stay as they stand in the text.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::classify::{McpRequest, Message};
use crate::mcp::reply::error::Reject;
use crate::wire::jsonrpc;
use crate::wire::jsonrpc::{Envelope, EnvelopeError, INVALID_PARAMS};
use crate::wire::strict_json;
use crate::wire::strict_json::text;

/// Maximum number of members of `params` and of `_meta`.
const MAX_MEMBERS: usize = 64;
/// Maximum length of a number that is an id: readers of JSON disagree on longer ones.
const MAX_DIGITS: usize = 20;

/// Reads a message. Only one whose `params` are no object is read again, to say what is wrong.
pub(crate) fn incoming(body: &str) -> Result<Message<'_>, Reject> {
    match Envelope::<Members<'_>>::read(body) {
        Ok(envelope) => message(envelope, |params| params.map_or(Ok(Members::default()), Ok)),
        Err(_) => message(
            Envelope::<&RawValue>::parse(body).map_err(|error| refused(&error))?,
            read_params,
        ),
    }
}

fn refused(error: &EnvelopeError) -> Reject {
    Reject::bad_request(error.code(), error.to_string())
}

fn message<'a, P>(
    envelope: Envelope<'a, P>,
    read_params: impl FnOnce(Option<P>) -> Result<Members<'a>, Reject>,
) -> Result<Message<'a>, Reject> {
    let id = envelope.id;
    if id.is_some_and(|id| !is_id(id.get())) {
        return Err(refused(&EnvelopeError::invalid("`id` must be a string or an integer")));
    }
    let request = match envelope.message() {
        Ok(jsonrpc::Message::Response { id, outcome }) => {
            return Ok(Message::Response { id, outcome });
        }
        Ok(jsonrpc::Message::Request(request)) => request,
        Err(error) => return Err(refused(&error).of_optional(id)),
    };
    let (method, params) = (request.method, read_params(request.params));
    let read = params.and_then(|params| {
        let params = params.checked("params")?;
        let meta = Members::parse("params._meta", params.get("_meta"))?;
        Ok((params, meta))
    });
    match (id, read) {
        (Some(id), Ok((params, meta))) => {
            Ok(Message::Request(McpRequest { id, method, params, meta }))
        }
        (None, Ok((params, _))) => Ok(Message::Notification { method, params }),
        (Some(id), Err(reject)) => Err(reject.of(id)),
        (None, Err(reject)) => Err(reject.of_notification()),
    }
}

fn read_params(params: Option<&RawValue>) -> Result<Members<'_>, Reject> {
    if params.is_some_and(|raw| !raw.get().starts_with(['{', '[', 'n'])) {
        return Err(refused(&EnvelopeError::invalid("`params` must be an object")));
    }
    Members::parse("params", params)
}

/// Returns `true` if this can be the id of a request: a string or a whole number.
pub(crate) fn is_id(raw: &str) -> bool {
    raw.starts_with('"')
        || (raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && raw.len() <= MAX_DIGITS
            && !raw.contains(['.', 'e', 'E']))
}

/// The members of an object, each name once.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        strict_json::read_members(deserializer).map(Self)
    }
}

impl<'a> Members<'a> {
    /// Reads an object. Absent is an empty one, and so is null, which some clients write for it.
    fn parse(name: &str, raw: Option<&'a RawValue>) -> Result<Self, Reject> {
        let wrong =
            |why| Reject::bad_request(INVALID_PARAMS, format!("`{name}` must be an object{why}"));
        let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else {
            return Ok(Self::default());
        };
        if !raw.starts_with('{') {
            return Err(wrong(String::new()));
        }
        let members = strict_json::members(raw);
        let members =
            members.map_err(|error| wrong(format!(": {}", strict_json::problem(&error))))?;
        Self(members).checked(name)
    }

    fn checked(self, name: &str) -> Result<Self, Reject> {
        if self.0.len() <= MAX_MEMBERS {
            return Ok(self);
        }
        let problem = format!("`{name}` has more than {MAX_MEMBERS} members");
        Err(Reject::bad_request(INVALID_PARAMS, problem))
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
