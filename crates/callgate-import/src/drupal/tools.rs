//! The tools of `jsonrpc_mcp`: those methods that are marked, with all that MCP says of tools.

use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::{auth, schema, text};
use crate::php_schema;
use crate::source::{Needed, Proposal, declared_safety};

/// Returns the id of the method behind a tool, as it stands.
pub(super) fn id(tool: &Value) -> Option<&str> {
    tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())
}

/// Returns what callers need; an error where that is said in a form that is not known.
pub(super) fn needs(tool: &Value) -> Result<Option<Vec<(String, Needed)>>, String> {
    match tool.get("annotations") {
        None | Some(Value::Null) => Ok(None),
        // PHP's empty map.
        Some(Value::Array(items)) if items.is_empty() => Ok(None),
        Some(Value::Object(annotations)) => auth::needs(annotations.get("auth")),
        Some(_) => Err("`annotations` is no object".to_owned()),
    }
}

/// Returns a tool as a method; its name is the method's id.
pub(super) fn proposal(tool: &Value) -> Result<Proposal, String> {
    let id = id(tool).ok_or("the tool has no `name`")?;
    let needs = needs(tool)?;
    let (style, schema) =
        schema::input(schema_of(tool, "inputSchema")?.unwrap_or_else(|| json!({})));
    let mut output = schema_of(tool, "outputSchema")?;
    output.iter_mut().for_each(php_schema::repair);
    let mut annotations: Map<String, Value> =
        tool.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    annotations.shift_remove("auth");
    let safety = declared_safety(&mut annotations);
    // Another name for what the tool itself says.
    let title = annotations.shift_remove("title");
    let title = text(tool, "title").or_else(|| title.as_ref().and_then(Value::as_str));
    let row = MethodRow {
        rpc_method: id.to_owned(),
        title: title.map(ToOwned::to_owned),
        description: text(tool, "description").map(ToOwned::to_owned),
        annotations: (!annotations.is_empty()).then(|| Value::Object(annotations).to_string()),
        exposed: Some("1".to_owned()),
        params_by: Some(style.as_str().to_owned()),
        input_schema: Some(schema.to_string()),
        output_schema: output.map(|schema| schema.to_string()),
        ..MethodRow::default()
    };
    Ok(Proposal { needs, ..Proposal::new(row, safety) })
}

/// Returns a schema of the tool; PHP writes an empty one as a list.
fn schema_of(tool: &Value, key: &str) -> Result<Option<Value>, String> {
    match tool.get(key) {
        Some(schema @ Value::Object(_)) => Ok(Some(schema.clone())),
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) if items.is_empty() => Ok(None),
        Some(_) => Err(format!("`{key}` is no schema")),
    }
}
