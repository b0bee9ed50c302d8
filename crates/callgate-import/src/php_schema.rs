//! JSON Schemas as PHP writes them: its `json_encode` has `[]` for every empty map.

use callgate::internal::for_each_schema_mut;
use serde_json::{Map, Value};

/// Keywords whose value is a map of schemas.
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Writes empty maps of schemas as objects. Values that are data, such as `default`, stay.
pub(crate) fn repair(schema: &mut Value) {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_maps_of_schemas_become_objects_and_data_stays() {
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
        repair(&mut schema);
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
