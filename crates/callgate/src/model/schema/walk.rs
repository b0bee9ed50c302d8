//! Traversal of nested schemas and references, and sizes of values. The traversal skips data such as defaults.

use serde_json::{Map, Value};

/// Kind of a keyword's value.
pub(crate) enum KeywordKind {
    /// A schema or an array of schemas; any other value is ignored.
    Schemas,
    /// Schemas by name.
    ByName,
    /// Data that may look like a schema.
    Data,
}

pub(crate) fn keyword_kind(keyword: &str) -> KeywordKind {
    match keyword {
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
            KeywordKind::ByName
        }
        "const" | "enum" | "default" | "example" | "examples" | "dependentRequired" => {
            KeywordKind::Data
        }
        _ if keyword.starts_with("x-") => KeywordKind::Data,
        _ => KeywordKind::Schemas,
    }
}

/// Returns `true` for keywords that do not restrict values.
pub(crate) fn is_annotation(keyword: &str) -> bool {
    keyword.starts_with("x-")
        || matches!(
            keyword,
            "title"
                | "description"
                | "default"
                | "examples"
                | "deprecated"
                | "readOnly"
                | "writeOnly"
                | "$comment"
        )
}

/// Keywords whose value is a reference.
const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];

/// Visits a schema and all nested schemas, outer ones first.
pub(crate) fn for_each_schema<'a>(
    schema: &'a Value,
    visit: &mut dyn FnMut(&'a Map<String, Value>),
) {
    match schema {
        Value::Object(map) => {
            visit(map);
            map.iter().for_each(|(keyword, value)| for_each_schema_in(keyword, value, visit));
        }
        Value::Array(items) => items.iter().for_each(|item| for_each_schema(item, visit)),
        _ => {}
    }
}

/// Visits all schemas in the value of a keyword.
pub(crate) fn for_each_schema_in<'a>(
    keyword: &str,
    value: &'a Value,
    visit: &mut dyn FnMut(&'a Map<String, Value>),
) {
    match (keyword_kind(keyword), value) {
        (KeywordKind::Data, _) => {}
        (KeywordKind::ByName, Value::Object(named)) => {
            named.values().for_each(|schema| for_each_schema(schema, visit));
        }
        _ => for_each_schema(value, visit),
    }
}

/// Visits a schema and all nested schemas with mutable access, outer ones first.
pub fn for_each_schema_mut(schema: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(map) => {
            visit(map);
            for (keyword, value) in map {
                match (keyword_kind(keyword), value) {
                    (KeywordKind::Data, _) => {}
                    (KeywordKind::ByName, Value::Object(named)) => {
                        named.values_mut().for_each(|schema| for_each_schema_mut(schema, visit));
                    }
                    (_, value) => for_each_schema_mut(value, visit),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_schema_mut(item, visit)),
        _ => {}
    }
}

pub(crate) fn references(schema: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for_each_schema(schema, &mut |map| {
        found.extend(REFERENCES.iter().filter_map(|keyword| map.get(*keyword)?.as_str()));
    });
    found
}

/// Visits all references in a schema with their keywords.
pub fn for_each_reference_mut(schema: &mut Value, visit: &mut dyn FnMut(&str, &mut String)) {
    for_each_schema_mut(schema, &mut |map| {
        for keyword in REFERENCES {
            if let Some(Value::String(reference)) = map.get_mut(keyword) {
                visit(keyword, reference);
            }
        }
    });
}

/// Returns how deeply schemas are nested.
pub(crate) fn depth(schema: &Value) -> usize {
    let deepest = |schemas: &mut dyn Iterator<Item = &Value>| schemas.map(depth).max().unwrap_or(0);
    match schema {
        Value::Object(map) => {
            let inner = map.iter().map(|(keyword, value)| match (keyword_kind(keyword), value) {
                (KeywordKind::Data, _) => 0,
                (KeywordKind::ByName, Value::Object(named)) => deepest(&mut named.values()),
                _ => depth(value),
            });
            1 + inner.max().unwrap_or(0)
        }
        Value::Array(items) => deepest(&mut items.iter()),
        _ => 0,
    }
}

/// Returns `true` if the `type` of a schema includes `kind`.
pub(crate) fn accepts(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => false,
    }
}

/// Returns the number of JSON values: the value itself and all nested values.
pub(crate) fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Object(members) => members.values().map(nodes).sum::<usize>(),
        Value::Array(items) => items.iter().map(nodes).sum(),
        _ => 0,
    }
}

/// Returns the size of a value as JSON, in bytes. Returns `None` as soon as the size exceeds `max_bytes`. Does not read
/// a string that is too long, unlike a writer that counts the bytes.
pub fn json_bytes(value: &Value, max_bytes: usize) -> Option<usize> {
    let mut bytes_left = max_bytes;
    subtract_json(value, &mut bytes_left)?;
    Some(max_bytes - bytes_left)
}

fn subtract_json(value: &Value, bytes_left: &mut usize) -> Option<()> {
    let mut subtract = |bytes: usize| {
        *bytes_left = bytes_left.checked_sub(bytes)?;
        Some(())
    };
    match value {
        Value::Null | Value::Bool(true) => subtract(4),
        Value::Bool(false) => subtract(5),
        Value::Number(number) => subtract(number.to_string().len()),
        Value::String(text) => subtract_text(text, bytes_left),
        Value::Array(items) => {
            subtract(items.len().max(1) + 1)?;
            items.iter().try_for_each(|item| subtract_json(item, bytes_left))
        }
        Value::Object(members) => {
            subtract(2 * members.len() + 2 - members.len().min(1))?;
            members.iter().try_for_each(|(name, member)| {
                subtract_text(name, bytes_left)?;
                subtract_json(member, bytes_left)
            })
        }
    }
}

fn subtract_text(text: &str, bytes_left: &mut usize) -> Option<()> {
    *bytes_left = bytes_left.checked_sub(text.len() + 2)?;
    let escape = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..=31 => 5,
        _ => 0,
    };
    *bytes_left = bytes_left.checked_sub(text.bytes().map(escape).sum())?;
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_bytes_returns_the_length_of_the_json_text() {
        let value = json!({
            "a": [], "b": [1, -2.5, null], "c": {}, "d": {"e": true}, "f": false,
            "g\"": "\u{0}\u{1f}\n\r\t\u{8}\u{c}\\/ü\u{7f}",
        });
        let length = value.to_string().len();
        assert_eq!(json_bytes(&value, usize::MAX), Some(length));
        assert_eq!(json_bytes(&value, length), Some(length));
        assert_eq!(json_bytes(&value, length - 1), None);
    }
}
