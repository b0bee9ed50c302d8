//! What is sent: the arguments spliced into an envelope, and who is asking where that is wanted.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;

use super::credential::Sent;
use super::options::{ForwardOptions, Hidden, PassCaller};
use crate::access::Caller;
use crate::strict_json;
use crate::upstream::Call;

/// The id of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestId<'a> {
    Text(&'a str),
    Number(u64),
}

impl RequestId<'_> {
    /// Whether a reply's id is this one. A number may have become `7.0` on its way.
    pub(super) fn is(&self, found: &RawValue) -> bool {
        match self {
            Self::Text(id) => strict_json::text(found).is_some_and(|found| found == *id),
            Self::Number(id) => {
                let digits = found.get().strip_suffix(".0").unwrap_or(found.get());
                digits.parse() == Ok(*id)
            }
        }
    }
}

/// The whole body of a request.
pub(super) fn body(
    options: &ForwardOptions,
    call: &Call<'_>,
    id: RequestId<'_>,
    credential: Option<&Sent>,
) -> Bytes {
    let (params, Hidden(first), Hidden(members)) =
        (call.params.get(), &options.first_params, &options.members);
    let first = credential.map_or(Cow::Borrowed(first.as_str()), |own| own.before(first));
    let own_member = credential.map_or("", Sent::as_member);
    let length = params.len() + first.len() + members.len() + own_member.len() + call.method.len();
    let mut text = String::with_capacity(length + 96);
    text.push_str("{\"jsonrpc\":\"2.0\",\"method\":");
    let _ = write!(text, "{}", Value::from(call.method));
    text.push_str(",\"params\":");
    splice_first(&mut text, &first, params);
    text.push_str(",\"id\":");
    let _ = match id {
        RequestId::Text(id) => write!(text, "{}", Value::from(id)),
        RequestId::Number(id) => write!(text, "{id}"),
    };
    // Each begins with a comma.
    text.push_str(members);
    text.push_str(own_member);
    text.push('}');
    text.into()
}

/// A list with further items before its own.
fn splice_first(text: &mut String, first: &str, params: &str) {
    match params.trim_start().strip_prefix('[') {
        Some(rest) if !first.is_empty() => {
            text.push('[');
            text.push_str(first);
            if !rest.trim_start().starts_with(']') {
                text.push(',');
            }
            text.push_str(rest);
        }
        _ => text.push_str(params),
    }
}

/// The headers of a request.
pub(super) fn headers(
    options: &ForwardOptions,
    caller: &Caller,
    credential: Option<&Sent>,
) -> HeaderMap {
    let mut headers = options.headers.clone();
    if let Some(own) = credential {
        own.add_to(&mut headers);
    }
    let PassCaller { user_id, user_name, role, token } = &options.pass_caller;
    let Some(user) = &caller.user else { return headers };
    let mut pass = |name: &Option<http::HeaderName>, value: &str| {
        if let (Some(name), Ok(value)) = (name, HeaderValue::from_str(&visible(value))) {
            headers.insert(name.clone(), value);
        }
    };
    pass(user_id, &user.id.to_string());
    pass(user_name, &user.name);
    if let Some(user_role) = &user.role {
        pass(role, user_role);
    }
    if let (Some(name), Some(token)) = (token, caller.token()) {
        let scheme = if *name == AUTHORIZATION { "Bearer " } else { "" };
        if let Ok(mut value) = HeaderValue::from_str(&format!("{scheme}{}", token.expose())) {
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
    }
    headers
}

/// Percent-encoded where a header could not have it as it is.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(first: &str, params: &str) -> String {
        let mut text = String::new();
        splice_first(&mut text, first, params);
        text
    }

    #[test]
    fn further_parameters_come_first() {
        assert_eq!(spliced("\"token:x\"", "[]"), r#"["token:x"]"#);
        assert_eq!(spliced("\"token:x\"", "[ ]"), r#"["token:x" ]"#);
        assert_eq!(spliced("\"token:x\",1", "[[2],3]"), r#"["token:x",1,[2],3]"#);
        assert_eq!(spliced("", "[2]"), "[2]");
        assert_eq!(spliced("", r#"{"a":1}"#), r#"{"a":1}"#);
    }

    #[test]
    fn names_that_no_header_can_have_are_encoded() {
        assert_eq!(visible("ada"), "ada");
        assert_eq!(visible("Zoë 100%\r\n"), "Zo%C3%AB%20100%25%0D%0A");
    }

    #[test]
    fn an_id_is_known_in_other_spellings() {
        let is = |id: RequestId<'_>, found: &str| {
            id.is(&RawValue::from_string(found.to_owned()).unwrap())
        };
        assert!(is(RequestId::Text("mcp_1"), "\"mcp\\u005f1\""));
        assert!(!is(RequestId::Text("mcp_1"), "\"mcp_2\""));
        assert!(is(RequestId::Number(7), "7"));
        assert!(is(RequestId::Number(7), "7.0"));
        assert!(!is(RequestId::Number(7), "\"7\""));
        assert!(!is(RequestId::Number(7), "null"));
    }
}
