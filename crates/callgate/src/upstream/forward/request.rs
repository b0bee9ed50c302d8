//! Builds the body and the headers of a request.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::value::RawValue;

use crate::access::Caller;
use crate::http_client::sensitive;
use crate::upstream::Call;
use crate::upstream::forward::{Authentication, CallerHeaders, Failure, ForwardOptions};
use crate::wire::{percent, strict_json};

/// The constant parts of a request.
const START: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":";
const PARAMS: &[u8] = b",\"params\":";
const ID: &[u8] = b",\"id\":";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RequestId<'a> {
    String(Cow<'a, str>),
    Number(u64),
}

impl<'a> RequestId<'a> {
    /// Parses the id of a reply. Accepts `7.0` for 7. Returns `None` for an id that no request has, such as 0. Some
    /// services use the id 0 in replies to requests that they cannot parse.
    pub(crate) fn of(raw: &'a RawValue) -> Option<Self> {
        if let Some(text) = strict_json::text(raw) {
            return Some(Self::String(text));
        }
        let digits = raw.get().strip_suffix(".0").unwrap_or(raw.get());
        digits.parse().ok().filter(|number| *number > 0).map(Self::Number)
    }

    pub(crate) fn into_owned(self) -> RequestId<'static> {
        match self {
            Self::String(text) => RequestId::String(text.into_owned().into()),
            Self::Number(number) => RequestId::Number(number),
        }
    }
}

/// Returns the credentials that are sent before the parameters of the call. Empty strings are not sent.
fn first_params<'a>(options: &'a ForwardOptions, auth: &'a Authentication) -> [&'a str; 3] {
    let shared = if auth.is_omitted { "" } else { &options.first_params.0 };
    let session = auth.session.as_ref().map_or("", |session| &session.first_param.0);
    [session, &auth.parts.first_param.0, shared]
}

/// Fails if a credential must be the first parameter, but the parameters are sent by name.
pub(crate) fn check_first_params(
    options: &ForwardOptions,
    call: &Call<'_>,
    auth: &Authentication,
) -> Result<(), Failure> {
    let is_list = call.params.get().trim_start().starts_with('[');
    if !is_list && first_params(options, auth).iter().any(|json| !json.is_empty()) {
        return Err(Failure::CredentialByName);
    }
    Ok(())
}

pub(crate) fn body(
    options: &ForwardOptions,
    call: &Call<'_>,
    id: &RequestId<'_>,
    auth: &Authentication,
) -> Bytes {
    let params = call.params.get();
    let shared = if auth.is_omitted { "" } else { &options.members.0 };
    let session = auth.session.as_ref().map_or("", |session| &session.member.0);
    let first = first_params(options, auth);
    let members = [shared, session, &auth.parts.member.0];
    let length: usize = first.iter().chain(&members).map(|part| part.len()).sum();
    let id_length = match id {
        RequestId::String(id) => id.len() + 2,
        RequestId::Number(id) => id.checked_ilog10().map_or(1, |digits| digits as usize + 1),
    };
    // The length is exact for most requests, because `Bytes` needs another allocation for a vector with free capacity.
    let length = length + params.len() + call.remote_name.len() + 2 + id_length;
    let mut body = Vec::with_capacity(START.len() + PARAMS.len() + ID.len() + length + 1);
    body.extend_from_slice(START);
    let _ = serde_json::to_writer(&mut body, call.remote_name);
    body.extend_from_slice(PARAMS);
    splice_first(&mut body, first, params);
    body.extend_from_slice(ID);
    let _ = match id {
        RequestId::String(id) => serde_json::to_writer(&mut body, &**id),
        RequestId::Number(id) => serde_json::to_writer(&mut body, id),
    };
    // Each member begins with a comma, unless it is empty.
    for member in members {
        body.extend_from_slice(member.as_bytes());
    }
    body.push(b'}');
    body.into()
}

/// Writes a list of parameters with the parameters `first` at the front.
fn splice_first(body: &mut Vec<u8>, first: [&str; 3], params: &str) {
    let rest = params.trim_start().strip_prefix('[');
    let Some(rest) = rest.filter(|_| first.iter().any(|items| !items.is_empty())) else {
        return body.extend_from_slice(params.as_bytes());
    };
    body.push(b'[');
    let (mut separator, call_params) =
        ("", if rest.trim_start().starts_with(']') { "" } else { rest });
    for items in first.into_iter().chain([call_params]).filter(|items| !items.is_empty()) {
        body.extend_from_slice(separator.as_bytes());
        body.extend_from_slice(items.as_bytes());
        separator = ",";
    }
    if call_params.is_empty() {
        body.extend_from_slice(rest.as_bytes());
    }
}

/// Returns the headers of a request, or `None` if the request has only the configured headers.
pub(crate) fn headers(
    options: &ForwardOptions,
    caller: &Caller,
    auth: &Authentication,
) -> Option<HeaderMap> {
    let passes_caller = caller.user.is_some() && options.caller_headers.names().next().is_some();
    (passes_caller || auth.has_headers()).then(|| all_headers(options, caller, auth))
}

fn all_headers(options: &ForwardOptions, caller: &Caller, auth: &Authentication) -> HeaderMap {
    let mut headers = options.headers.clone();
    if auth.is_omitted {
        headers.remove(AUTHORIZATION);
    }
    for parts in auth.all_parts() {
        for (name, value) in &parts.headers {
            headers.insert(name, value.clone());
        }
    }
    let CallerHeaders { user_id, user_name, role, token } = &options.caller_headers;
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
    if let (Some(name), Some(token), false) = (token, caller.token(), auth.is_omitted) {
        let scheme = if *name == AUTHORIZATION { "Bearer " } else { "" };
        if let Ok(value) = sensitive(&format!("{scheme}{}", token.expose())) {
            headers.insert(name.clone(), value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(first: &str, params: &str) -> String {
        let mut body = Vec::new();
        splice_first(&mut body, ["", "", first], params);
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn first_params_precede_the_params_of_the_call() {
        assert_eq!(spliced("\"token:x\"", "[]"), r#"["token:x"]"#);
        assert_eq!(spliced("\"token:x\"", "[ ]"), r#"["token:x" ]"#);
        assert_eq!(spliced("\"token:x\",1", "[[2],3]"), r#"["token:x",1,[2],3]"#);
        assert_eq!(spliced("", "[2]"), "[2]");
        assert_eq!(spliced("", r#"{"a":1}"#), r#"{"a":1}"#);
    }

    #[test]
    fn an_id_is_recognised_in_equivalent_json_spellings() {
        let parses_to = |id: RequestId<'_>, raw: &str| {
            RequestId::of(&RawValue::from_string(raw.to_owned()).unwrap()) == Some(id)
        };
        let text = || RequestId::String("mcp_1".into());
        assert!(parses_to(text(), "\"mcp\\u005f1\""));
        assert!(!parses_to(text(), "\"mcp_2\""));
        assert!(parses_to(RequestId::Number(7), "7"));
        assert!(parses_to(RequestId::Number(7), "7.0"));
        assert!(!parses_to(RequestId::Number(7), "\"7\""));
        assert!(!parses_to(RequestId::Number(7), "null"));
    }
}
