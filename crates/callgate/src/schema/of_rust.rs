//! The schemas of Rust types: schemars' own, in the form that clients take.
//!
//! One generator for each, so that a method's schema has only what the method needs. What is read and
//! what is written have different schemas: a field may be optional in the one only.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::inline::inline;
use super::walk::{Holds, holds};
use crate::method::{DefinitionError, compile};

/// The schema of all arguments of a function, whose fields they are: as it is checked, and as it is
/// advertised.
///
/// The check has the bounds of integers, which would be noise elsewhere, and no defaults: serde fills them
/// in by itself, with what the code says at that moment.
pub(crate) fn input<A: JsonSchema>() -> (Value, Value) {
    let mut schema = schema::<A>(SchemaSettings::draft2020_12().for_deserialize());
    if let Value::Object(root) = &mut schema {
        root.shift_remove("title");
        root.shift_remove("description");
        let properties = root.entry("properties").or_insert_with(|| json!({}));
        let properties = properties.as_object_mut();
        let is_empty = properties.as_ref().is_none_or(|properties| properties.is_empty());
        properties.into_iter().flat_map(Map::values_mut).for_each(put_words_last);
        if is_empty && root.len() <= 2 {
            root.insert("additionalProperties".to_owned(), json!(false));
        }
    }
    let mut check = schema.clone();
    bound_integers(&mut check);
    let properties = check.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        property.as_object_mut().and_then(|property| property.shift_remove("default"));
    }
    drop_wrong_defaults(&mut schema);
    (check, schema)
}

/// The schema of what a function gives; `None` where it says nothing.
pub(crate) fn output<R: JsonSchema>() -> Result<Option<Value>, DefinitionError> {
    let schema = schema::<R>(SchemaSettings::draft2020_12().for_serialize());
    let Some(root) = schema.as_object() else { return Ok(None) };
    if is_result(root) {
        let problem = "this is a `Result` under another name, whose errors would be shown to callers; \
                       write `Result<…>` in the signature";
        return Err(DefinitionError::value("result", problem));
    }
    let says_something = root.keys().any(|key| key != "title" && key != "description")
        && root.get("type") != Some(&json!("null"));
    Ok(says_something.then_some(schema))
}

/// Whether it is what schemars makes of a `Result`.
fn is_result(root: &Map<String, Value>) -> bool {
    let Some(Value::Array(either)) = root.get("oneOf") else { return false };
    let required =
        |name: &str| either.iter().any(|one| one.get("required") == Some(&json!([name])));
    either.len() == 2 && required("Ok") && required("Err")
}

/// JSON Schema knows no widths: what does not fit would pass the check, and fail where it is read.
fn bound_integers(schema: &mut Value) {
    let map = match schema {
        Value::Object(map) => map,
        Value::Array(items) => return items.iter_mut().for_each(bound_integers),
        _ => return,
    };
    let (low, high) = match map.get("format").and_then(Value::as_str) {
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("int64" | "int") => (json!(i64::MIN), json!(i64::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        _ => (Value::Null, Value::Null),
    };
    if high.is_number() {
        map.entry("minimum").or_insert(low);
        map.entry("maximum").or_insert(high);
    }
    for (keyword, value) in map {
        match (holds(keyword), value) {
            (Holds::Data, _) => {}
            (Holds::ByName, Value::Object(named)) => named.values_mut().for_each(bound_integers),
            (_, value) => bound_integers(value),
        }
    }
}

/// A default that its own schema refuses is not shown: infinity, which is null in JSON, or what is
/// written in another form than it is read in.
fn drop_wrong_defaults(schema: &mut Value) {
    let definitions = schema.get("$defs").cloned();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        let Some(default) = property.get("default").cloned() else { continue };
        let mut alone = property.clone();
        if let (Value::Object(alone), Some(definitions)) = (&mut alone, &definitions) {
            alone.insert("$defs".to_owned(), definitions.clone());
        }
        let fits = compile(&alone).is_ok_and(|validator| validator.is_valid(&default));
        if let (Value::Object(property), false) = (property, fits) {
            property.shift_remove("default");
        }
    }
}

fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut generator = settings.into_generator();
    let mut schema = generator.subschema_for::<T>().to_value();
    let definitions = generator.take_definitions(true);
    if let (Value::Object(root), false) = (&mut schema, definitions.is_empty()) {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    inline(schema)
}

/// In the order in which hand-made parameters have them.
fn put_words_last(property: &mut Value) {
    let Value::Object(property) = property else { return };
    for key in ["description", "default"] {
        if let Some(value) = property.shift_remove(key) {
            property.insert(key.to_owned(), value);
        }
    }
}
