//! Requests: the arguments spliced into an envelope, and who is asking if the service wants to know.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;

use super::credential::Authentication;
use super::options::{ForwardOptions, Hidden, PassCaller};
use crate::access::Caller;
use crate::upstream::Call;
use crate::wire::percent;
use crate::wire::strict_json;

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RequestId<'a> {
    Text(Cow<'a, str>),
    Number(u64),
}

impl<'a> RequestId<'a> {
    /// Reads the id of a reply, unless it is one that no request has. A number may have become `7.0` on
    /// its way, and 0 is the id of replies to requests that could not be read.
    pub(super) fn of(found: &'a RawValue) -> Option<Self> {
        if let Some(text) = strict_json::text(found) {
            return Some(Self::Text(text));
        }
        let digits = found.get().strip_suffix(".0").unwrap_or(found.get());
        digits.parse().ok().filter(|number| *number > 0).map(Self::Number)
    }

    pub(super) fn into_owned(self) -> RequestId<'static> {
        match self {
            Self::Text(text) => RequestId::Text(text.into_owned().into()),
            Self::Number(number) => RequestId::Number(number),
        }
    }
}

/// Returns the body of a request.
pub(super) fn body(
    options: &ForwardOptions,
    call: &Call<'_>,
    id: &RequestId<'_>,
    auth: &Authentication,
) -> Bytes {
    let (params, Hidden(members), Hidden(own_member)) =
        (call.params.get(), &options.members, &auth.member);
    let first = [&auth.first_param.0, &options.first_params.0];
    let length = params.len() + first[0].len() + first[1].len() + members.len();
    let mut text = String::with_capacity(length + own_member.len() + call.method.len() + 96);
    text.push_str("{\"jsonrpc\":\"2.0\",\"method\":");
    let _ = write!(text, "{}", Value::from(call.method));
    text.push_str(",\"params\":");
    splice_first(&mut text, first, params);
    text.push_str(",\"id\":");
    let _ = match id {
        RequestId::Text(id) => write!(text, "{}", Value::from(&**id)),
        RequestId::Number(id) => write!(text, "{id}"),
    };
    // Each begins with a comma.
    text.push_str(members);
    text.push_str(own_member);
    text.push('}');
    text.into()
}

/// Writes a list of parameters with further ones before its own.
fn splice_first(text: &mut String, first: [&String; 2], params: &str) {
    let rest = params.trim_start().strip_prefix('[');
    let Some(rest) = rest.filter(|_| first.iter().any(|items| !items.is_empty())) else {
        return text.push_str(params);
    };
    text.push('[');
    let (mut separator, own) = ("", if rest.trim_start().starts_with(']') { "" } else { rest });
    for items in [first[0].as_str(), first[1], own].into_iter().filter(|items| !items.is_empty()) {
        text.push_str(separator);
        text.push_str(items);
        separator = ",";
    }
    if own.is_empty() {
        text.push_str(rest);
    }
}

/// Returns the headers of a request.
pub(super) fn headers(
    options: &ForwardOptions,
    caller: &Caller,
    auth: &Authentication,
) -> HeaderMap {
    let mut headers = options.headers.clone();
    if let Some((name, value)) = &auth.header {
        headers.insert(name.clone(), value.clone());
    }
    if let Some(bearer) = &auth.bearer {
        headers.insert(AUTHORIZATION, bearer.clone());
    }
    let PassCaller { user_id, user_name, role, token } = &options.pass_caller;
    let Some(user) = &caller.user else { return headers };
    let mut pass = |name: &Option<http::HeaderName>, value: &str| {
        let Some(name) = name else { return };
        if let Ok(value) = HeaderValue::from_str(&percent::header_value(value)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(first: &str, params: &str) -> String {
        let mut text = String::new();
        splice_first(&mut text, [&String::new(), &first.to_owned()], params);
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
    fn an_id_is_known_in_other_spellings() {
        let is = |id: RequestId<'_>, found: &str| {
            RequestId::of(&RawValue::from_string(found.to_owned()).unwrap()) == Some(id)
        };
        let text = || RequestId::Text("mcp_1".into());
        assert!(is(text(), "\"mcp\\u005f1\""));
        assert!(!is(text(), "\"mcp_2\""));
        assert!(is(RequestId::Number(7), "7"));
        assert!(is(RequestId::Number(7), "7.0"));
        assert!(!is(RequestId::Number(7), "\"7\""));
        assert!(!is(RequestId::Number(7), "null"));
    }
}
