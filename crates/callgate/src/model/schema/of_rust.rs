//! Schemas of Rust types, from schemars.
//!
//! Each schema has its own generator, so that it contains only its own definitions. A type has separate schemas for
//! deserialization and for serialization, because a field may be optional in only one of them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::inline::inline;
use super::validator::compile_properties;
use super::walk::for_each_schema_mut;
use crate::model::method::DefinitionError;

/// Returns the check schema and the advertised schema of a function's arguments, which are the fields of `A`.
///
/// The check schema has the bounds of integers, which clients do not need. It has no defaults, because serde fills them
/// in.
pub(crate) fn input<A: JsonSchema>() -> (Value, Value) {
    let mut schema = schema::<A>(SchemaSettings::draft2020_12().for_deserialize());
    if let Value::Object(root) = &mut schema {
        root.shift_remove("title");
        root.shift_remove("description");
        let properties = root.entry("properties").or_insert_with(|| json!({}));
        let properties = properties.as_object_mut();
        let is_empty = properties.as_ref().is_none_or(|properties| properties.is_empty());
        properties.into_iter().flat_map(Map::values_mut).for_each(move_annotations_last);
        if is_empty && root.len() <= 2 {
            root.insert("additionalProperties".to_owned(), json!(false));
        }
    }
    let mut check = schema.clone();
    for_each_schema_mut(&mut check, &mut bound_integers);
    let properties = check.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        property.as_object_mut().and_then(|property| property.shift_remove("default"));
    }
    remove_invalid_defaults(&mut schema);
    (check, schema)
}

/// Returns the schema of an elicitation form with the fields of `T`. Clients show only flat objects of strings,
/// numbers, booleans and choices, without `null`.
pub(crate) fn form<T: JsonSchema>() -> Result<Value, String> {
    let mut schema = schema::<T>(SchemaSettings::draft2020_12().for_deserialize());
    remove_invalid_defaults(&mut schema);
    let root = schema.as_object_mut().filter(|root| root.get("type") == Some(&json!("object")));
    let root = root.ok_or("it is not a struct with named fields")?;
    root.retain(|key, _| ["type", "properties", "required"].contains(&key.as_str()));
    let Some(Value::Object(properties)) = root.get_mut("properties") else {
        return Err("it has no fields".to_owned());
    };
    for (name, property) in properties {
        let is_shown = property.as_object_mut().is_some_and(make_form_field);
        if !is_shown {
            return Err(format!(
                "field `{name}` is not a string, a number, a boolean, an enum without data, or an `Option` of one of \
                 these"
            ));
        }
    }
    Ok(schema)
}

/// Converts the schema of a field. Returns `false` if clients cannot show the field.
fn make_form_field(field: &mut Map<String, Value>) -> bool {
    if let Some(Value::Array(alternatives)) = field.get("anyOf")
        && let [Value::Object(alternative), null] = alternatives.as_slice()
        && *null == json!({"type": "null"})
    {
        let alternative = alternative.clone();
        field.shift_remove("anyOf");
        field.extend(alternative);
    }
    if let Some(Value::Array(types)) = field.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [single_type] = types.as_slice() {
            let single_type = single_type.clone();
            field.insert("type".to_owned(), single_type);
        }
    }
    let form: &[&str] = match field.get("type").and_then(Value::as_str) {
        Some("string") => &["minLength", "maxLength", "format", "enum"],
        Some("number" | "integer") => &["minimum", "maximum"],
        Some("boolean") => &[],
        _ => return false,
    };
    if let Some(Value::Array(choices)) = field.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    let formats = ["email", "uri", "date", "date-time"];
    let has_format = |value: &Value| value.as_str().is_some_and(|it| formats.contains(&it));
    field.retain(|key, value| match key.as_str() {
        "format" => has_format(value),
        "default" => !value.is_null(),
        "type" | "title" | "description" => true,
        key => form.contains(&key),
    });
    true
}

/// Returns the schema of a function's result, or `None` if the schema would allow any value or only null.
pub(crate) fn output<R: JsonSchema>() -> Result<Option<Value>, DefinitionError> {
    let schema = schema::<R>(SchemaSettings::draft2020_12().for_serialize());
    let Some(root) = schema.as_object() else { return Ok(None) };
    if is_result(root) {
        let problem = "the type is another name for `Result`, so callers would see its errors as results; \
                       write `Result<…>` in the signature";
        return Err(DefinitionError::value("result", problem));
    }
    let is_specific = root.keys().any(|key| key != "title" && key != "description")
        && root.get("type") != Some(&json!("null"));
    Ok(is_specific.then_some(schema))
}

/// Returns `true` for the schema that schemars generates for a `Result`.
fn is_result(root: &Map<String, Value>) -> bool {
    let Some(Value::Array(alternatives)) = root.get("oneOf") else { return false };
    let requires = |name: &str| {
        alternatives.iter().any(|alternative| alternative.get("required") == Some(&json!([name])))
    };
    alternatives.len() == 2 && requires("Ok") && requires("Err")
}

/// Adds bounds to integers. Without bounds, values out of range would pass the check and fail in serde.
fn bound_integers(schema: &mut Map<String, Value>) {
    let (low, high) = match schema.get("format").and_then(Value::as_str) {
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("int64" | "int") => (json!(i64::MIN), json!(i64::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        _ => return,
    };
    schema.entry("minimum").or_insert(low);
    schema.entry("maximum").or_insert(high);
}

/// Removes defaults that do not match their own schema. For example, infinity becomes null in JSON.
fn remove_invalid_defaults(schema: &mut Value) {
    let validator = compile_properties(schema);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let Some(default) = property.get("default") else { continue };
        let is_valid = validator.as_ref().is_ok_and(|it| it.is_valid(&json!({name: default})));
        if let (Value::Object(property), false) = (property, is_valid) {
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
    let mut schema = inline(schema);
    for_each_schema_mut(&mut schema, &mut list_choices);
    schema
}

/// Converts a union of constants to the keyword `enum`, because many clients ignore such unions. schemars generates
/// these unions for enums with doc comments on variants. The comments are added to the description.
fn list_choices(schema: &mut Map<String, Value>) {
    if let Some(choices) = Choices::of(schema) {
        choices.write(schema);
    }
}

/// The constants of a union that contains only constants and null.
#[derive(Default)]
struct Choices {
    types: Vec<Value>,
    values: Vec<Value>,
    description: Option<Value>,
    /// One line per documented constant.
    notes: Vec<String>,
}

impl Choices {
    fn of(map: &Map<String, Value>) -> Option<Self> {
        let mut choices = Self { description: map.get("description").cloned(), ..Self::default() };
        if let Some(union) = map.get("oneOf") {
            choices.add(union)?;
            return Some(choices);
        }
        let [alternative, null] = map.get("anyOf")?.as_array()?.as_slice() else { return None };
        choices.add(alternative.get("oneOf")?)?;
        if *null != json!({"type": "null"}) {
            return None;
        }
        choices.types.push(json!("null"));
        choices.values.push(Value::Null);
        choices.description =
            choices.description.or_else(|| alternative.get("description").cloned());
        Some(choices)
    }

    fn add(&mut self, union: &Value) -> Option<()> {
        for branch in union.as_array()? {
            let branch = branch.as_object()?;
            let supported = ["type", "const", "enum", "description"];
            if !branch.keys().all(|key| supported.contains(&key.as_str())) {
                return None;
            }
            let kind = branch.get("type")?;
            if !self.types.contains(kind) {
                self.types.push(kind.clone());
            }
            let constants = match (branch.get("const"), branch.get("enum")) {
                (Some(constant), None) => std::slice::from_ref(constant),
                (None, Some(Value::Array(constants))) => constants,
                _ => return None,
            };
            self.values.extend_from_slice(constants);
            if let (Some(Value::String(note)), [constant]) = (branch.get("description"), constants)
            {
                let constant =
                    constant.as_str().map_or_else(|| constant.to_string(), ToOwned::to_owned);
                self.notes.push(format!("- `{constant}`: {note}"));
            }
        }
        (!self.values.is_empty()).then_some(())
    }

    fn write(mut self, map: &mut Map<String, Value>) {
        for keyword in ["oneOf", "anyOf", "description"] {
            map.shift_remove(keyword);
        }
        let single_type = (self.types.len() == 1).then(|| self.types.pop()).flatten();
        map.shift_insert(0, "type".to_owned(), single_type.unwrap_or(Value::Array(self.types)));
        map.shift_insert(1, "enum".to_owned(), Value::Array(self.values));
        let text = self.description.as_ref().and_then(Value::as_str).unwrap_or_default();
        let description = format!("{text}\n\n{}", self.notes.join("\n"));
        if !description.trim().is_empty() {
            map.insert("description".to_owned(), description.trim().into());
        }
    }
}

/// Moves description and default to the end, where parameters defined by hand have them.
fn move_annotations_last(property: &mut Value) {
    let Value::Object(property) = property else { return };
    for key in ["description", "default"] {
        if let Some(value) = property.shift_remove(key) {
            property.insert(key.to_owned(), value);
        }
    }
}
