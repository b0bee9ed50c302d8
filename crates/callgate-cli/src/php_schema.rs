//! JSON Schemas as PHP writes them: its `json_encode` has `[]` for every empty map.

use serde_json::{Map, Value};

/// Keywords whose value is a map of schemas.
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is a schema.
const SCHEMAS: [&str; 8] =
    ["items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["oneOf", "anyOf", "allOf", "prefixItems"];

/// Maximum depth to which schemas are repaired; JSON is read to 128 levels.
const MAX_DEPTH: usize = 64;

/// Writes empty maps of schemas as objects. Values that are data, such as `default`, stay.
pub(crate) fn repair(schema: &mut Value) {
    repair_at(schema, 0);
}

/// Does the same for the members of a schema.
pub(crate) fn repair_members(members: &mut Map<String, Value>) {
    repair_members_at(members, 0);
}

fn repair_at(schema: &mut Value, depth: usize) {
    if let Value::Object(members) = schema
        && depth <= MAX_DEPTH
    {
        repair_members_at(members, depth);
    }
}

fn repair_members_at(members: &mut Map<String, Value>, depth: usize) {
    for (keyword, member) in members {
        match member {
            Value::Array(items) if items.is_empty() && MAPS.contains(&keyword.as_str()) => {
                *member = Value::Object(Map::new());
            }
            Value::Object(schemas) if MAPS.contains(&keyword.as_str()) => {
                for schema in schemas.values_mut() {
                    repair_at(schema, depth + 1);
                }
            }
            Value::Array(schemas) if LISTS.contains(&keyword.as_str()) => {
                for schema in schemas {
                    repair_at(schema, depth + 1);
                }
            }
            member if SCHEMAS.contains(&keyword.as_str()) => repair_at(member, depth + 1),
            _ => {}
        }
    }
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
