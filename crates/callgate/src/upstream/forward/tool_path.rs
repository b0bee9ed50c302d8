//! The URL of each tool, for services with one URL per tool.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use thiserror::Error;

use crate::upstream::forward::Target;
use crate::wire::percent;

const ID: &str = "{id}";

/// Path of the tools of Drupal's `jsonrpc_mcp`, relative to the path of the site.
const TOOLS: &str = "/mcp/tools/";

/// The path of a tool, with a placeholder for its id: `/mcp/tools/{id}`.
///
/// Value of [`ForwardOptions::tool_path`](crate::upstream::forward::ForwardOptions::tool_path). [`Target`] has an
/// example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPath {
    before: String,
    after: String,
}

/// The text is not a path with exactly one segment `{id}`.
///
/// Error of parsing a [`ToolPath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected a path with one segment `{{id}}`, such as `/mcp/tools/{{id}}`")]
pub struct ToolPathError;

impl ToolPath {
    /// Returns the path of tools in `jsonrpc_mcp`: the path of the URL without a trailing `/jsonrpc`, followed by
    /// `/mcp/tools/{id}`.
    pub fn beside(target: &Target) -> Self {
        Self { before: format!("{}{TOOLS}", target.site_path()), after: String::new() }
    }

    /// Returns the URL of a method, with the server and the query of `uri`. Returns `None` for an id such as `..`
    /// or `list`, with which the URL would lead to something other than a tool.
    pub(crate) fn uri(&self, uri: &Uri, method: &str) -> Option<Uri> {
        // Servers resolve these segments as relative paths. Some servers decode the path first.
        if method.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")) {
            return None;
        }
        // These ids are other routes of `jsonrpc_mcp`.
        if self.before.ends_with(TOOLS) && matches!(method, "list" | "describe") {
            return None;
        }
        let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
        let path = format!("{}{}{}{query}", self.before, percent::segment(method), self.after);
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(path.parse().ok()?);
        Uri::from_parts(parts).ok()
    }
}

impl FromStr for ToolPath {
    type Err = ToolPathError;

    fn from_str(text: &str) -> Result<Self, ToolPathError> {
        let (before, after) = text.split_once(ID).ok_or(ToolPathError)?;
        let path: Option<http::uri::PathAndQuery> = format!("{before}x{after}").parse().ok();
        let is_path = path.is_some_and(|path| path.query().is_none());
        let is_segment = before.ends_with('/') && (after.is_empty() || after.starts_with('/'));
        if is_path
            && is_segment
            && before.starts_with('/')
            && !text.contains(['?', '#', ' '])
            && !after.contains(['{', '}'])
            && !before.contains(['{', '}'])
        {
            Ok(Self { before: before.to_owned(), after: after.to_owned() })
        } else {
            Err(ToolPathError)
        }
    }
}

impl fmt::Display for ToolPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{ID}{}", self.before, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_tool_path_is_derived_from_the_path_of_the_service() {
        for (url, path) in [
            ("http://localhost/jsonrpc", "/mcp/tools/{id}"),
            ("http://localhost/de/jsonrpc/", "/de/mcp/tools/{id}"),
            ("http://localhost", "/mcp/tools/{id}"),
            ("http://localhost/rpc", "/rpc/mcp/tools/{id}"),
            ("http://localhost/my-jsonrpc", "/my-jsonrpc/mcp/tools/{id}"),
            ("unix:/run/a.sock:/web/jsonrpc", "/web/mcp/tools/{id}"),
        ] {
            let tool_path = ToolPath::beside(&url.parse().unwrap());
            assert_eq!(tool_path.to_string(), path, "{url}");
            assert_eq!(path.parse(), Ok(tool_path));
        }
    }

    #[test]
    fn an_id_becomes_one_escaped_segment_and_ids_of_other_routes_are_rejected() {
        let path: ToolPath = "/t/{id}/call".parse().unwrap();
        let uri: Uri = "http://localhost:1/rpc?key=1".parse().unwrap();
        for (method, expected) in [
            ("probe.echo", "/t/probe.echo/call"),
            ("a/b", "/t/a%2Fb/call"),
            ("a?b#c%2F é", "/t/a%3Fb%23c%252F%20%C3%A9/call"),
        ] {
            let found = path.uri(&uri, method).unwrap().to_string();
            assert_eq!(found, format!("http://localhost:1{expected}?key=1"));
        }
        for relative in ["..", ".", "../x", "a/../../b", "a\\..\\b"] {
            assert_eq!(path.uri(&uri, relative), None, "{relative}");
        }
        assert!(path.uri(&uri, "list").is_some());
        let tool_path = ToolPath::beside(&"http://localhost/jsonrpc".parse().unwrap());
        for reserved in ["list", "describe"] {
            assert_eq!(tool_path.uri(&uri, reserved), None, "another route: {reserved}");
        }
    }

    #[test]
    fn a_path_without_exactly_one_segment_for_the_id_is_rejected() {
        for invalid in [
            "",
            "/mcp/tools",
            "mcp/{id}",
            "/a{id}",
            "/{id}b",
            "/{id}?x=1",
            "/{id}#x",
            "/{id}/{id}",
            "/a b/{id}",
            "/{name}/{id}",
            "http://localhost/{id}",
        ] {
            assert_eq!(invalid.parse::<ToolPath>(), Err(ToolPathError), "{invalid}");
        }
    }
}
