//! Reads the tools that the Drupal module `jsonrpc_mcp` lists.

use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::{auth, schema, text};
use crate::schema::repair_php;
use crate::source::{Proposal, RequiredMask, declared_safety};

pub(super) fn id(tool: &Value) -> Option<&str> {
    tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())
}

/// Returns the sections that callers need. An unknown format is an error.
pub(super) fn needs(tool: &Value) -> Result<Option<Vec<(String, RequiredMask)>>, String> {
    match tool.get("annotations") {
        None | Some(Value::Null) => Ok(None),
        // PHP encodes an empty map as a list.
        Some(Value::Array(items)) if items.is_empty() => Ok(None),
        Some(Value::Object(annotations)) => auth::needs(annotations.get("auth")),
        Some(_) => Err("`annotations` is not an object".to_owned()),
    }
}

/// Reads a tool. Its name is the id of the method.
pub(super) fn proposal(tool: &Value) -> Result<Proposal, String> {
    let id = id(tool).ok_or("the tool has no `name`")?;
    let needs = needs(tool)?;
    let (style, schema) =
        schema::input(schema_of(tool, "inputSchema")?.unwrap_or_else(|| json!({})));
    let mut output = schema_of(tool, "outputSchema")?;
    output.iter_mut().for_each(repair_php);
    let mut annotations: Map<String, Value> =
        tool.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    annotations.shift_remove("auth");
    let safety = declared_safety(&mut annotations);
    // The title of a tool takes precedence over the title in its annotations.
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

/// Returns a schema of the tool. An empty list means that there is no schema, because PHP encodes an empty map as a
/// list.
fn schema_of(tool: &Value, key: &str) -> Result<Option<Value>, String> {
    match tool.get(key) {
        Some(schema @ Value::Object(_)) => Ok(Some(schema.clone())),
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) if items.is_empty() => Ok(None),
        Some(_) => Err(format!("`{key}` is not a schema")),
    }
}
