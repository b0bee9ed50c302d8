//! The tools of `jsonrpc_mcp`: those methods that are marked, with all that MCP says of tools.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{proposed, style, text};
use crate::import::{Proposal, safety};

/// A page of them.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) tools: Vec<Value>,
    pub(super) next_cursor: Option<String>,
}

impl Page {
    pub(super) fn read(page: &str) -> Option<Self> {
        let mut page: Value = serde_json::from_str(page.trim_start_matches('\u{feff}')).ok()?;
        let next = page.get("nextCursor").and_then(Value::as_str);
        let next_cursor = next.filter(|cursor| !cursor.is_empty()).map(ToOwned::to_owned);
        match page.get_mut("tools").map(Value::take)? {
            Value::Array(tools) => Some(Self { tools, next_cursor }),
            _ => None,
        }
    }
}

/// For a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A tool as a method; its name is the method's id.
pub(super) fn proposal(tool: &Value) -> Result<Proposal, String> {
    let id = text(tool, "name").ok_or("the tool has no `name`")?;
    let schema = match tool.get("inputSchema") {
        Some(schema @ Value::Object(_)) => schema.clone(),
        // What PHP makes of an empty one.
        None | Some(Value::Null | Value::Array(_)) => json!({}),
        Some(_) => return Err(format!("`inputSchema` of `{id}` is no schema")),
    };
    let mut proposal = proposed(id, text(tool, "description"));
    let mut annotations: Map<String, Value> =
        tool.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(said) = safety::said(&mut annotations) {
        proposal.row.safety = Some(said.as_str().to_owned());
        proposal.safety_is_guess = false;
    }
    // Another name for what the tool itself says.
    let title = annotations.shift_remove("title");
    let title = text(tool, "title").or_else(|| title.as_ref().and_then(Value::as_str));
    let names = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let style = style(names.map(|(name, _)| name));
    let row = &mut proposal.row;
    row.title = title.map(ToOwned::to_owned);
    row.annotations = (!annotations.is_empty()).then(|| Value::Object(annotations).to_string());
    row.exposed = Some("1".to_owned());
    row.params_by = Some(style.as_str().to_owned());
    row.input_schema = Some(schema.to_string());
    Ok(proposal)
}
