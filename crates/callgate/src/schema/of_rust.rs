//! The schemas of Rust types: schemars' own, in the form that clients take.
//!
//! One generator for each, so that a method's schema has only what the method needs. What is read and
//! what is written have different schemas: a field may be optional in the one only.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::inline::inline;

/// The schema of all arguments of a function, whose fields they are.
pub(crate) fn input<A: JsonSchema>() -> Value {
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
    schema
}

/// The schema of what a function gives; `None` where it says nothing.
pub(crate) fn output<R: JsonSchema>() -> Option<Value> {
    let schema = schema::<R>(SchemaSettings::draft2020_12().for_serialize());
    let says_something =
        schema.as_object()?.keys().any(|key| key != "title" && key != "description")
            && schema.get("type") != Some(&json!("null"));
    says_something.then_some(schema)
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
