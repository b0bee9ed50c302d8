//! Normalises schemas from rows, classes and services: repairs empty objects that PHP writes as `[]`, and removes
//! keywords that the APIs of language models reject. Keeps the order of keys.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::walk::{KeywordKind, accepts, depth, for_each_schema_mut, keyword_kind};
use super::{REST_PARAM, UNCHECKED, WIRE_NAME};
use crate::model::method::DefinitionError;
use crate::model::tool::{is_portable, portable_name};

/// Maximum nesting depth below the root.
const MAX_DEPTH: usize = 64;

/// Values of `format` that specify the width of a number, such as `int32`. Some clients reject them.
const WIDTH_FORMATS: [&str; 14] = [
    "int", "int8", "int16", "int32", "int64", "int128", "uint", "uint8", "uint16", "uint32",
    "uint64", "uint128", "float", "double",
];

/// Keywords that are removed from the root of a schema, because some clients drop all tools of a server
/// if the schema of one tool has them.
pub(crate) const HIDDEN_AT_ROOT: [&str; 5] = ["oneOf", "anyOf", "allOf", "not", "enum"];

/// Properties are renamed only if the root has no keywords other than these.
const PLAIN_AT_ROOT: [&str; 8] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "description",
    "$defs",
    "examples",
    "default",
];

/// Keywords whose value is a single schema.
const SINGLE_SCHEMA_KEYWORDS: [&str; 8] =
    ["items", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties"];

/// Keywords of the root that define which undeclared properties are allowed.
const UNDECLARED_PROPERTY_KEYWORDS: [&str; 3] =
    ["additionalProperties", "unevaluatedProperties", "propertyNames"];

/// Keywords of the root whose schemas can declare further properties.
const APPLICATORS: [&str; 7] =
    ["allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$ref", "$dynamicRef"];

/// Returns the keyword that must be set to `false` so that an input schema rejects undeclared arguments. Returns `None`
/// if the schema declares no arguments, if it already defines which undeclared arguments it allows, or if it requires
/// arguments that it does not declare.
pub(crate) fn closing_keyword(root: &Map<String, Value>) -> Option<&'static str> {
    let properties = root.get("properties")?.as_object()?;
    let is_declared = |name: &Value| name.as_str().is_some_and(|it| properties.contains_key(it));
    let mut required = root.get("required").and_then(Value::as_array).into_iter().flatten();
    let has = |keyword: &&str| root.contains_key(*keyword);
    if properties.is_empty()
        || UNDECLARED_PROPERTY_KEYWORDS.iter().any(has)
        || !required.all(is_declared)
    {
        return None;
    }
    let is_plain = !APPLICATORS.iter().any(has);
    Some(if is_plain { "additionalProperties" } else { "unevaluatedProperties" })
}

/// Normalises a nested schema.
pub(crate) fn subschema(mut schema: Value) -> Result<Value, DefinitionError> {
    repair(&mut schema);
    if !schema.is_object() {
        return Err(DefinitionError::NotASchema(truncated(&schema)));
    }
    if depth(&schema) > MAX_DEPTH + 1 {
        return Err(DefinitionError::SchemaTooDeep);
    }
    for_each_schema_mut(&mut schema, &mut clean);
    if let Value::Object(map) = &mut schema {
        map.shift_remove("$schema");
        // Only `Method::unchecked` can turn the check off, not a schema.
        map.shift_remove(UNCHECKED);
    }
    Ok(schema)
}

/// Normalises an input schema. Returns the check schema, and the advertised schema if it differs from the check schema.
pub(crate) fn input(schema: Value) -> Result<(Value, Option<Value>), DefinitionError> {
    let mut schema = subschema(schema)?;
    let Value::Object(root) = &mut schema else {
        return Err(DefinitionError::NotASchema(truncated(&schema)));
    };
    match root.get("type") {
        None => {
            root.shift_insert(0, "type".to_owned(), json!("object"));
        }
        Some(Value::String(name)) if name == "object" => {}
        Some(other) => return Err(DefinitionError::InputNotAnObject(truncated(other))),
    }
    if !root.contains_key("properties") {
        let index = root.len().min(1);
        root.shift_insert(index, "properties".to_owned(), json!({}));
    }
    root.shift_remove("title");
    rename_properties(root);
    let mut advertised = root.clone();
    for keyword in HIDDEN_AT_ROOT {
        let hidden = advertised.shift_remove(keyword);
        if let (Some(Value::Array(branches)), "oneOf" | "anyOf" | "allOf") = (hidden, keyword) {
            advertise_properties(&mut advertised, branches);
        }
    }
    remove_check_keywords(&mut advertised);
    let advertised = (advertised != *root).then_some(Value::Object(advertised));
    Ok((schema, advertised))
}

/// Removes the keywords of check schemas from the properties of an advertised schema.
pub(super) fn remove_check_keywords(root: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        property.shift_remove(WIRE_NAME);
        property.shift_remove(REST_PARAM);
    }
}

/// After a union was removed from the root, adds the properties that the union's members declare. If several members
/// declare the same property, its schema becomes the union of the members' schemas for it.
fn advertise_properties(root: &mut Map<String, Value>, branches: Vec<Value>) {
    let Some(Value::Object(advertised)) = root.get_mut("properties") else { return };
    let mut found: Map<String, Value> = Map::new();
    for branch in branches {
        let Value::Object(mut branch) = branch else { continue };
        let Some(Value::Object(properties)) = branch.shift_remove("properties") else { continue };
        for (name, property) in properties {
            match found.entry(name).or_insert_with(|| json!([])) {
                Value::Array(schemas) if !schemas.contains(&property) => schemas.push(property),
                _ => {}
            }
        }
    }
    for (name, mut schemas) in found {
        let schema = match schemas.as_array_mut() {
            Some(one) if one.len() == 1 => one.swap_remove(0),
            _ => json!({"anyOf": schemas}),
        };
        advertised.entry(name).or_insert(schema);
    }
}

/// Renames properties whose names clients reject: some APIs of language models reject a request with a name that does
/// not match `^[a-zA-Z0-9_.-]{1,64}$`. Adds [`WIRE_NAME`] to renamed properties. Changes nothing if the root has
/// keywords other than [`PLAIN_AT_ROOT`], because these could refer to property names.
pub(super) fn rename_properties(root: &mut Map<String, Value>) {
    let is_plain = root.keys().all(|key| PLAIN_AT_ROOT.contains(&key.as_str()));
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    if !is_plain || properties.keys().all(|name| is_portable(name)) {
        return;
    }
    let mut used_names: HashSet<String> =
        properties.keys().filter(|name| is_portable(name)).cloned().collect();
    let mut renamed: HashMap<String, String> = HashMap::new();
    let old = std::mem::take(properties);
    for (name, mut property) in old {
        match &mut property {
            Value::Object(map) if !name.is_empty() && !is_portable(&name) => {
                map.insert(WIRE_NAME.to_owned(), Value::String(name.clone()));
                let new = portable_name(&name, &mut used_names);
                renamed.insert(name, new.clone());
                properties.insert(new, property);
            }
            _ => {
                properties.insert(name, property);
            }
        }
    }
    if let Some(Value::Array(required)) = root.get_mut("required") {
        for name in required {
            if let Some(new) = name.as_str().and_then(|name| renamed.get(name)) {
                *name = Value::String(new.clone());
            }
        }
    }
}

pub(crate) fn output(schema: Value) -> Result<Value, DefinitionError> {
    let mut schema = subschema(schema)?;
    if let Value::Object(root) = &mut schema {
        root.shift_remove("title");
    }
    Ok(schema)
}

/// Removes keywords that clients reject, adds `items` to arrays that lack it, and repairs direct subschemas.
fn clean(map: &mut Map<String, Value>) {
    if map
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| WIDTH_FORMATS.contains(&format))
    {
        map.shift_remove("format");
    }
    if matches!(map.get("required"), Some(Value::Object(none)) if none.is_empty()) {
        map.shift_remove("required");
    }
    for (keyword, value) in map.iter_mut() {
        match (keyword.as_str(), &mut *value) {
            ("additionalProperties", Value::Bool(_)) => {}
            (keyword, _) if SINGLE_SCHEMA_KEYWORDS.contains(&keyword) => repair(value),
            ("oneOf" | "anyOf" | "allOf" | "prefixItems", Value::Array(members)) => {
                members.iter_mut().for_each(repair);
            }
            (keyword, _) if matches!(keyword_kind(keyword), KeywordKind::ByName) => {
                repair(value);
                value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(repair);
            }
            _ => {}
        }
    }
    if accepts(map, "array") && !map.contains_key("items") {
        map.insert("items".to_owned(), json!({}));
    }
}

/// Replaces `true` and PHP's empty array by `{}`.
fn repair(schema: &mut Value) {
    if *schema == true || schema.as_array().is_some_and(Vec::is_empty) {
        *schema = json!({});
    }
}

fn truncated(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}
