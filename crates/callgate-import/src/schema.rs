//! JSON Schemas of parameters.

use callgate::internal::for_each_schema_mut;
use serde_json::{Map, Value, json};

/// Keywords whose value is a map of schemas.
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Returns the name of a positional parameter that has no name.
pub(crate) fn param_name(position: usize) -> String {
    format!("param{}", position + 1)
}

/// Returns the schema of an object with these properties and no others.
pub(crate) fn object_schema(properties: Map<String, Value>, required: Vec<Value>) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), Value::Array(required));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(schema)
}

/// Replaces empty lists by empty maps where a schema requires a map, because PHP encodes both as `[]`. Does not change
/// data, such as `default`.
pub(crate) fn repair_php(schema: &mut Value) {
    for_each_schema_mut(schema, &mut |members| {
        for (keyword, member) in members {
            if MAPS.contains(&keyword.as_str()) && member.as_array().is_some_and(Vec::is_empty) {
                *member = Value::Object(Map::new());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lists_become_objects_in_schema_maps_and_are_unchanged_in_data() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": [], "default": {"properties": []}},
                "b": {"items": {"anyOf": [{"properties": []}]}, "enum": []},
                "properties": {"properties": []},
            },
            "$defs": [],
            "required": [],
        });
        repair_php(&mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {}, "default": {"properties": []}},
                "b": {"items": {"anyOf": [{"properties": {}}]}, "enum": []},
                "properties": {"properties": {}},
            },
            "$defs": {},
            "required": [],
        });
        assert_eq!(schema, expected);
    }
}
