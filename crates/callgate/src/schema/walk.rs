//! The schemas inside of a schema, told from data that only look like them.

use serde_json::{Map, Value};

/// What a keyword of a schema holds.
pub(crate) enum Holds {
    /// A schema, or a list of them, or nothing of interest.
    Schemas,
    /// Schemas by names that are no keywords.
    ByName,
    /// Values, which may look like anything.
    Data,
}

pub(crate) fn holds(keyword: &str) -> Holds {
    match keyword {
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
            Holds::ByName
        }
        "const" | "enum" | "default" | "examples" => Holds::Data,
        _ => Holds::Schemas,
    }
}

/// Visits a schema and every schema in it.
pub(crate) fn for_each_schema<'a>(
    schema: &'a Value,
    visit: &mut dyn FnMut(&'a Map<String, Value>),
) {
    match schema {
        Value::Object(map) => {
            visit(map);
            for (keyword, value) in map {
                match (holds(keyword), value) {
                    (Holds::Data, _) => {}
                    (Holds::ByName, Value::Object(named)) => {
                        named.values().for_each(|schema| for_each_schema(schema, visit));
                    }
                    _ => for_each_schema(value, visit),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| for_each_schema(item, visit)),
        _ => {}
    }
}

/// The same, to change them; from the outside.
pub(crate) fn for_each_schema_mut(
    schema: &mut Value,
    visit: &mut dyn FnMut(&mut Map<String, Value>),
) {
    match schema {
        Value::Object(map) => {
            visit(map);
            for (keyword, value) in map {
                match (holds(keyword), value) {
                    (Holds::Data, _) => {}
                    (Holds::ByName, Value::Object(named)) => {
                        named.values_mut().for_each(|schema| for_each_schema_mut(schema, visit));
                    }
                    (_, value) => for_each_schema_mut(value, visit),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                for_each_schema_mut(item, visit);
            }
        }
        _ => {}
    }
}
