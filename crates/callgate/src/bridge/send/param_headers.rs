//! `Mcp-Param-*`: headers that repeat arguments of a modern call. Annotations in the schema of the tool say which
//! arguments to repeat. The schemas are read from responses to `tools/list`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::mcp::parse::headers::encode;
use crate::model::tool::{HEADER_KEYWORD, HeaderParam, header_params};
use crate::wire::strict_json::text;

/// Maximum number of tools whose annotations are kept.
const MAX_TOOLS: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct ParamHeaders(Mutex<HashMap<Box<str>, Arc<[HeaderParam]>>>);

#[derive(Deserialize)]
struct ToolList<'a> {
    #[serde(borrow)]
    tools: Vec<ListedTool<'a>>,
    #[serde(borrow, default, rename = "nextCursor")]
    next_cursor: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ListedTool<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow, rename = "inputSchema")]
    input_schema: &'a RawValue,
}

impl ParamHeaders {
    /// Reads the result of `tools/list`. Returns the cursor of the next page.
    pub(crate) fn record_tools<'a>(&self, result: &'a RawValue) -> Option<&'a RawValue> {
        let list: ToolList<'a> = serde_json::from_str(result.get()).ok()?;
        let mut tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in &list.tools {
            let Some(name) = text(tool.name) else { continue };
            let params = annotations(tool.input_schema);
            if params.is_empty() {
                tools.remove(&*name);
            } else if tools.len() < MAX_TOOLS || tools.contains_key(&*name) {
                tools.insert(name.into(), params);
            }
        }
        list.next_cursor
    }

    pub(crate) fn add(&self, tool: &str, arguments: Option<&RawValue>, headers: &mut HeaderMap) {
        let params = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
        for HeaderParam { header, path } in params.as_deref().unwrap_or_default() {
            let Some(argument) = arguments.and_then(|arguments| argument_at(arguments, path))
            else {
                continue;
            };
            let value = text(argument).unwrap_or_else(|| argument.get().into());
            let name = HeaderName::from_bytes(header.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&encode(&value))) {
                headers.insert(name, value);
            }
        }
    }
}

/// Returns the annotated parameters of a tool. Returns none if an annotation is invalid, because clients do not use a
/// tool with an invalid annotation.
fn annotations(schema: &RawValue) -> Arc<[HeaderParam]> {
    if !schema.get().contains(HEADER_KEYWORD) {
        return Arc::default();
    }
    let Ok(schema) = serde_json::from_str(schema.get()) else { return Arc::default() };
    let params = header_params(&schema);
    params.map_or_else(|_| Arc::default(), |params| Arc::from(params.into_vec()))
}

fn argument_at<'a>(arguments: &'a RawValue, path: &[Box<str>]) -> Option<&'a RawValue> {
    let mut value = arguments;
    for name in path {
        let members: HashMap<String, &'a RawValue> = serde_json::from_str(value.get()).ok()?;
        value = members.get(&**name)?;
    }
    (value.get() != "null").then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn raw(value: &serde_json::Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    #[test]
    fn annotated_arguments_are_repeated_in_headers() {
        let param_headers = ParamHeaders::default();
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "where": {"type": "object", "properties": {
                "shard": {"type": "integer", "x-mcp-header": "Shard"}}},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        }});
        let list = json!({"tools": [{"name": "t", "inputSchema": schema}], "nextCursor": "c"});
        assert_eq!(param_headers.record_tools(&raw(&list)).unwrap().get(), "\"c\"");
        let headers_for = |tool: &str, arguments: &serde_json::Value| {
            let mut headers = HeaderMap::new();
            param_headers.add(tool, Some(&raw(arguments)), &mut headers);
            let line = |(name, value): (&HeaderName, &HeaderValue)| {
                format!("{name}: {}", value.to_str().unwrap())
            };
            headers.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(
            headers_for("t", &json!({"region": "eu", "where": {"shard": 7}, "dry": true})),
            ["mcp-param-region: eu", "mcp-param-shard: 7", "mcp-param-dry: true"]
        );
        assert_eq!(
            headers_for("t", &json!({"region": "é", "where": {"shard": null}})),
            ["mcp-param-region: =?base64?w6k=?="]
        );
        assert_eq!(headers_for("other", &json!({"region": "eu"})), [""; 0]);
        let list = json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]});
        assert!(param_headers.record_tools(&raw(&list)).is_none());
        assert_eq!(
            headers_for("t", &json!({"region": "eu"})),
            [""; 0],
            "a new list replaces the annotations"
        );
    }
}
