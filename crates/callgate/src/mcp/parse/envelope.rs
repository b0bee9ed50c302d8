//! Reads a message: the JSON-RPC envelope, `params` and `_meta` in one pass. Values stay as JSON text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;

use super::classify::{McpMessage, McpRequest};
use super::method::McpMethod;
use crate::mcp::McpError;
use crate::wire::jsonrpc::{self, Envelope, EnvelopeError, INVALID_PARAMS};
use crate::wire::strict_json::{self, text};

/// Maximum number of members of `params` and of `_meta`.
const MAX_MEMBERS: usize = 64;
/// Maximum length of `params` that are read again to report an error, in bytes.
const MAX_READ_AGAIN: usize = 64 * 1024;
/// Maximum length of a number that is used as an id. JSON parsers differ in how they read longer numbers.
const MAX_DIGITS: usize = 20;

/// Reads a message. If `params` is not a valid object, the message is read again to report the error.
pub(crate) fn read_message(body: &str) -> Result<McpMessage<'_>, McpError> {
    match Envelope::<McpParams<'_>>::read(body) {
        Ok(envelope) => message(envelope, |params| params.unwrap_or_default().checked()),
        Err(error) => message(
            Envelope::<&RawValue>::parse(body).map_err(|error| invalid(&error))?,
            |params| McpParams::parse(params, &error),
        ),
    }
}

fn invalid(error: &EnvelopeError) -> McpError {
    McpError::bad_request(error.code(), error.to_string())
}

fn message<'a, P>(
    envelope: Envelope<'a, P>,
    read_params: impl FnOnce(Option<P>) -> Result<McpParams<'a>, McpError>,
) -> Result<McpMessage<'a>, McpError> {
    let id = envelope.id;
    if id.is_some_and(|id| !is_id(id.get())) {
        return Err(invalid(&EnvelopeError::invalid("`id` must be a string or an integer")));
    }
    let request = match envelope.message() {
        Ok(jsonrpc::RpcMessage::Response { id, outcome }) => {
            return Ok(McpMessage::Response { id, outcome });
        }
        Ok(jsonrpc::RpcMessage::Request(request)) => request,
        Err(error) => return Err(invalid(&error).with_optional_id(id)),
    };
    let method_name = request.method;
    match (id, read_params(request.params)) {
        (Some(id), Ok(McpParams { members: params, meta })) => {
            let method = McpMethod::of(&method_name);
            Ok(McpMessage::Request(McpRequest { id, method, method_name, params, meta }))
        }
        (None, Ok(params)) => {
            Ok(McpMessage::Notification { method: method_name, params: params.members })
        }
        (Some(id), Err(error)) => Err(error.with_id(id)),
        (None, Err(error)) => Err(error.for_notification()),
    }
}

/// Returns the id of a request that is refused before its method runs.
#[cfg(feature = "http")]
pub(crate) fn request_id(body: &[u8]) -> Option<Box<RawValue>> {
    #[derive(serde::Deserialize)]
    struct WithId<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let WithId { id } = serde_json::from_slice(body).ok()?;
    is_id(id.get()).then(|| id.to_owned())
}

/// Returns `true` if the JSON value is a valid request id: a string or an integer.
pub(crate) fn is_id(raw: &str) -> bool {
    raw.starts_with('"')
        || (raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && raw.len() <= MAX_DIGITS
            && !raw.contains(['.', 'e', 'E']))
}

/// `params`, with `_meta` in a separate field.
#[derive(Debug, Default)]
struct McpParams<'a> {
    members: RawMembers<'a>,
    meta: RawMembers<'a>,
}

impl<'de> Deserialize<'de> for McpParams<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut meta = None;
        let members = deserializer.deserialize_any(McpMembersVisitor { meta: Some(&mut meta) })?;
        Ok(Self { members, meta: meta.unwrap_or_default() })
    }
}

impl<'a> McpParams<'a> {
    /// Reads `params` again after `error`, to find out whether the error is in `params` or in `_meta`. Long `params`
    /// are not read again, because reading takes up to 5 ms for each of the two objects.
    fn parse(raw: Option<&'a RawValue>, error: &serde_json::Error) -> Result<Self, McpError> {
        if raw.is_some_and(|raw| raw.get().len() > MAX_READ_AGAIN && raw.get().starts_with('{')) {
            let problem = format!("`params`: {}", strict_json::problem(error));
            return Err(McpError::bad_request(INVALID_PARAMS, problem));
        }
        if raw.is_some_and(|raw| !raw.get().starts_with(['{', '[', 'n'])) {
            return Err(invalid(&EnvelopeError::invalid("`params` must be an object")));
        }
        let members = RawMembers::parse("params", raw)?;
        let meta = RawMembers::parse("params._meta", members.get("_meta"))?;
        Ok(Self { members, meta })
    }

    fn checked(self) -> Result<Self, McpError> {
        let (members, meta) = (self.members.checked("params")?, self.meta.checked("params._meta")?);
        Ok(Self { members, meta })
    }
}

/// The members of an object with unique keys.
#[derive(Debug, Default)]
pub(crate) struct RawMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(McpMembersVisitor { meta: None })
    }
}

/// Reads at most one member more than [`MAX_MEMBERS`], and skips the rest. Must be used with `deserialize_any`, because
/// `deserialize_map` would copy a string of any length into its error.
struct McpMembersVisitor<'m, 'a> {
    /// If set, `_meta` is stored here instead of among the members.
    meta: Option<&'m mut Option<RawMembers<'a>>>,
}

impl<'de> Visitor<'de> for McpMembersVisitor<'_, 'de> {
    type Value = RawMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_str<E: serde::de::Error>(self, _text: &str) -> Result<Self::Value, E> {
        Err(E::invalid_type(Unexpected::Other("string"), &self))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        #[derive(serde::Deserialize)]
        struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);
        // Most objects have two or three members.
        let mut members = RawMembers(Vec::with_capacity(4));
        while let Some(MemberName(key)) = map.next_key()? {
            let meta = self.meta.as_deref_mut().filter(|_| key == "_meta");
            if members.get(&key).is_some() || meta.as_ref().is_some_and(|meta| meta.is_some()) {
                return Err(A::Error::custom(format_args!("the key `{key}` is duplicated")));
            }
            match meta {
                Some(meta) => {
                    *meta = Some(map.next_value::<Option<RawMembers<'de>>>()?.unwrap_or_default());
                }
                None => members.0.push((key, map.next_value()?)),
            }
            if members.0.len() > MAX_MEMBERS {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(members)
    }
}

impl<'a> RawMembers<'a> {
    /// Reads an object. An absent value and null count as an empty object, because some clients send null.
    fn parse(name: &str, raw: Option<&'a RawValue>) -> Result<Self, McpError> {
        let not_an_object =
            |details| McpError::bad_request(INVALID_PARAMS, format!("`{name}` must be {details}"));
        let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else {
            return Ok(Self::default());
        };
        if !raw.starts_with('{') {
            return Err(not_an_object("an object".to_owned()));
        }
        let members: Result<Self, _> = serde_json::from_str(raw);
        members
            .map_err(|error| {
                not_an_object(format!("a valid object: {}", strict_json::problem(&error)))
            })?
            .checked(name)
    }

    fn checked(self, name: &str) -> Result<Self, McpError> {
        if self.0.len() <= MAX_MEMBERS {
            return Ok(self);
        }
        let problem = format!("`{name}` has more than {MAX_MEMBERS} members");
        Err(McpError::bad_request(INVALID_PARAMS, problem))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Returns a member, which must be a string if it is present.
    pub(crate) fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, McpError> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        let text = text(raw)
            .ok_or_else(|| McpError::invalid_params(format!("`{name}` must be a string")))?;
        Ok(Some(text))
    }

    /// Returns a member, which must be present and a string.
    pub(crate) fn required_text(&self, name: &str) -> Result<Cow<'a, str>, McpError> {
        self.text(name)?.ok_or_else(|| McpError::invalid_params(format!("`{name}` is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(params: &str) -> String {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{params}}}"#);
        read_message(&body).unwrap_err().error.message
    }

    fn object(members: usize) -> String {
        let members: Vec<String> = (0..members).map(|n| format!("\"k{n}\":0")).collect();
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn the_number_of_members_is_limited() {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"_meta":{},"x":1}}}}"#,
            object(64)
        );
        assert!(matches!(read_message(&body), Ok(McpMessage::Request(_))));
        assert_eq!(problem(&object(65)), "`params` has more than 64 members");
        assert_eq!(problem(&object(5000)), "`params` has more than 64 members");
        let meta = format!("{{\"_meta\":{}}}", object(65));
        assert_eq!(problem(&meta), "`params._meta` has more than 64 members");
    }

    #[test]
    fn duplicate_keys_are_refused_in_params_and_meta() {
        let duplicate_error = |key: &str| format!("the key `{key}` is duplicated");
        for (params, name, key) in [
            (r#"{"a":1,"\u0061":2}"#, "params", "a"),
            (r#"{"_meta":{},"_meta":{}}"#, "params", "_meta"),
            (r#"{"_meta":{"b":1,"b":2}}"#, "params._meta", "b"),
        ] {
            assert_eq!(
                problem(params),
                format!("`{name}` must be a valid object: {}", duplicate_error(key))
            );
        }
    }

    #[test]
    fn long_params_with_an_error_are_not_read_again() {
        let long_text = "a".repeat(70_000);
        let meta = format!(r#"{{"x":"{long_text}","_meta":{{"b":1,"b":2}}}}"#);
        assert_eq!(problem(&meta), "`params`: the key `b` is duplicated");
        let invalid_meta = format!(r#"{{"x":"{long_text}","_meta":1}}"#);
        assert_eq!(
            problem(&invalid_meta),
            "`params`: invalid type: integer `1`, expected an object"
        );
        let error = problem(&format!("\"{long_text}\""));
        assert_eq!(error, "not a JSON-RPC 2.0 request: `params` must be an object");
        assert_eq!(problem(&format!("[\"{long_text}\"]")), "`params` must be an object");
    }
}
