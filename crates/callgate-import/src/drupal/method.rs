//! The methods of `jsonrpc_discovery`. Versions of the module write them in different formats. All versions omit
//! false and empty values.

use callgate::model::ParamStyle;
use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::text;
use crate::schema::{object_schema, param_name, repair_php};
use crate::source::Proposal;

/// Returns the methods of a reply.
pub(super) fn list(reply: Value) -> Option<Vec<Value>> {
    match reply {
        Value::Array(list) => Some(list),
        Value::Object(mut reply) => match reply.shift_remove("data")? {
            Value::Array(list) => Some(list),
            Value::Object(by_id) => Some(by_id.into_iter().map(|(_, method)| method).collect()),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a method. The module does not specify whether the method is a tool, so `exposed` stays empty.
pub(super) fn proposal(method: &Value) -> Result<Proposal, String> {
    let id = text(method, "id").ok_or("the method has no `id`")?;
    let description = attribute(method, "usage").and_then(Value::as_str).map(str::trim);
    let (style, schema) = params(attribute(method, "params"));
    let output = attribute(method, "output").filter(|output| output.is_object()).cloned();
    let row = MethodRow {
        rpc_method: id.to_owned(),
        description: description.filter(|usage| !usage.is_empty()).map(ToOwned::to_owned),
        params_by: Some(style.as_str().to_owned()),
        input_schema: Some(schema.to_string()),
        output_schema: output.map(|mut output| {
            repair_php(&mut output);
            output.to_string()
        }),
        ..MethodRow::default()
    };
    Ok(Proposal::new(row, None))
}

/// Returns a member of a method or a parameter: the one in its `attributes`, or else its own.
fn attribute<'v>(part: &'v Value, key: &str) -> Option<&'v Value> {
    part.get("attributes").and_then(|attributes| attributes.get(key)).or_else(|| part.get(key))
}

/// Returns the style of the parameters and their schema. Parameters in a list or with numeric names are positional.
fn params(params: Option<&Value>) -> (ParamStyle, Value) {
    let params: Vec<(String, &Value)> = match params {
        Some(Value::Object(named)) => {
            named.iter().map(|(name, param)| (name.clone(), param)).collect()
        }
        Some(Value::Array(list)) => {
            list.iter().enumerate().map(|(number, param)| (number.to_string(), param)).collect()
        }
        _ => Vec::new(),
    };
    let style = style(params.iter().map(|(name, _)| name));
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (number, (name, param)) in params.into_iter().enumerate() {
        let name = match style {
            ParamStyle::Named => name,
            _ => positional_name(param, number, &properties),
        };
        if attribute(param, "required") == Some(&json!(true)) {
            required.push(json!(name));
        }
        properties.insert(name, schema(param));
    }
    // The schema refuses unknown parameters, which Drupal would silently ignore.
    let mut schema = object_schema(properties, required);
    repair_php(&mut schema);
    (style, schema)
}

/// Returns the name of a positional parameter.
fn positional_name(param: &Value, number: usize, used: &Map<String, Value>) -> String {
    let is_name = |id: &&str| !id.bytes().all(|byte| byte.is_ascii_digit());
    let declared = text(param, "id").filter(is_name).filter(|id| !used.contains_key(*id));
    let mut names = (number..=number + used.len()).map(param_name);
    let generated = || names.find(|name| !used.contains_key(name));
    declared.map(ToOwned::to_owned).or_else(generated).unwrap_or_default()
}

/// Returns the schema of a parameter. The schema of its factory, in `schema` beside `attributes`, takes precedence over
/// the declared schema.
fn schema(param: &Value) -> Value {
    let factory_schema = param.get("schema").filter(|schema| schema.is_object());
    let declared = || attribute(param, "schema").filter(|schema| schema.is_object());
    let mut schema = factory_schema.or_else(declared).cloned().unwrap_or_else(|| json!({}));
    let description = attribute(param, "description").and_then(Value::as_str);
    if let (Some(description), Value::Object(schema)) = (description, &mut schema) {
        schema.entry("description").or_insert_with(|| json!(description));
    }
    schema
}

/// Returns `Positional` if all names are numbers, because Drupal then accepts the parameters as a JSON array. Otherwise
/// returns `Named`.
fn style<'a>(names: impl IntoIterator<Item = &'a String>) -> ParamStyle {
    let mut names = names.into_iter().peekable();
    let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    if names.peek().is_some() && names.all(is_number) {
        ParamStyle::Positional
    } else {
        ParamStyle::Named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positional_parameters_with_conflicting_names_are_all_kept() {
        let (_, schema) = params(Some(&json!([{"id": "param2"}, {"id": "1"}])));
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["param2", "param3"]);
    }
}
