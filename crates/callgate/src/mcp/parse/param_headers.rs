//! `Mcp-Param-*`: headers in which a modern client repeats arguments. They must equal the arguments in the body,
//! because a proxy may have routed the request by the headers.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::classify::header_mismatch;
use super::headers::{Header, Headers, decode};
use crate::mcp::McpError;
use crate::model::tool::HeaderParam;
use crate::wire::strict_json::{members_named, text};

/// Compares arguments with their headers.
pub(crate) fn check(
    params: &[HeaderParam],
    arguments: Option<&RawValue>,
    headers: &dyn Headers,
) -> Result<(), McpError> {
    let is_used = |name: &str| params.iter().flat_map(|it| &it.path).any(|it| **it == *name);
    let mut parsed = Vec::new();
    for HeaderParam { header, path } in params {
        let argument = arguments.and_then(|it| argument_at(&mut parsed, it, path, is_used));
        match (argument, headers.header(header)) {
            (None, Header::Absent) => {}
            (None, _) => {
                return Err(header_mismatch(header, "is present, but its argument is not"));
            }
            (Some(_), Header::Absent) => return Err(header_mismatch(header, "is missing")),
            (Some(_), Header::Unusable) => {
                return Err(header_mismatch(header, "occurs twice or is not plain text"));
            }
            (Some(argument), Header::One(value)) => match decode(value) {
                None => return Err(header_mismatch(header, "is not valid Base64")),
                Some(value) if matches(&value, argument) => {}
                Some(_) => return Err(header_mismatch(header, "does not match the body")),
            },
        }
    }
    Ok(())
}

/// Objects in the arguments by their paths. They can be large, so each is parsed only once.
type ParsedObjects<'a, 'p> = Vec<(&'p [Box<str>], Vec<(Cow<'a, str>, &'a RawValue)>)>;

/// Returns the argument at a path, or `None` if it is absent or null.
fn argument_at<'a, 'p>(
    parsed: &mut ParsedObjects<'a, 'p>,
    arguments: &'a RawValue,
    path: &'p [Box<str>],
    is_used: impl Fn(&str) -> bool,
) -> Option<&'a RawValue> {
    let mut value = arguments;
    for (depth, name) in path.iter().enumerate() {
        let parent = path.get(..depth)?;
        if !parsed.iter().any(|(object_path, _)| *object_path == parent) {
            parsed.push((parent, members_named(value.get(), &is_used).unwrap_or_default()));
        }
        let (_, object) = parsed.iter().find(|(object_path, _)| *object_path == parent)?;
        value = object.iter().find(|(key, _)| **key == **name)?.1;
    }
    (value.get() != "null").then_some(value)
}

fn matches(header: &str, argument: &RawValue) -> bool {
    let raw = argument.get();
    if raw.starts_with('"') {
        return text(argument).is_some_and(|text| text == header);
    }
    if raw == "true" || raw == "false" {
        return raw == header;
    }
    match (raw.parse::<i128>(), header.parse::<i128>()) {
        (Ok(argument), Ok(header)) => argument == header,
        _ => match (raw.parse::<f64>(), header.parse::<f64>()) {
            #[expect(clippy::float_cmp, reason = "compares decimal numbers such as `1.0` and `1`")]
            (Ok(argument), Ok(header)) => argument == header,
            // The later check of the arguments reports a list or an object with a better message.
            _ => raw.starts_with(['[', '{']),
        },
    }
}
