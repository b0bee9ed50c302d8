//! Rewrites schemas so that each of them has one type.
//!
//! Some clients fail on a `type` with several types, or on a parameter without a type: they lose the tool, or all tools
//! of the server. For MCP, several types are therefore written as `anyOf` of single types, and a missing type as
//! `anyOf` of all types. A value is valid for the rewritten schema exactly if it is valid for the original.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::walk::{for_each_schema, for_each_schema_mut, is_annotation, references};
use crate::model::tool::HEADER_KEYWORD;

type Schema = Map<String, Value>;

/// All JSON types. An integer is a number.
const ALL_TYPES: [&str; 6] = ["string", "number", "boolean", "object", "array", "null"];

/// Keywords with a list of alternatives.
const UNIONS: [&str; 2] = ["anyOf", "oneOf"];

/// Keywords from which clients derive the type of a value.
const TYPE_KEYWORDS: [&str; 7] = ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"];

/// Returns the keywords that restrict only values of this type and do not depend on keywords of other types.
fn keywords_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "string" => &["minLength", "maxLength", "pattern", "format"],
        "integer" | "number" => {
            &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
        }
        "array" => &[
            "items",
            "prefixItems",
            "contains",
            "minContains",
            "maxContains",
            "minItems",
            "maxItems",
            "uniqueItems",
        ],
        "object" => &[
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "dependentRequired",
        ],
        _ => &[],
    }
}

/// Returns the rewritten schema, or `None` if nothing has to be rewritten.
///
/// A schema with references into its parts, such as `#/properties/a`, is not rewritten, because the parts would move. A
/// schema with `unevaluatedItems` is not rewritten either, because the effect of that keyword depends on whether the
/// same schema has `items`.
pub(crate) fn single_types(schema: &Value) -> Option<Value> {
    let (mut is_affected, mut has_unevaluated_items) = (false, false);
    for_each_schema(schema, &mut |map| {
        is_affected |= needs_rewrite(map);
        has_unevaluated_items |= map.contains_key("unevaluatedItems");
    });
    let is_movable = |target: &str| target == "#" || target.starts_with("#/$defs/");
    if !is_affected || has_unevaluated_items || !references(schema).into_iter().all(is_movable) {
        return None;
    }
    let mut rewritten = schema.clone();
    for_each_schema_mut(&mut rewritten, &mut |map| {
        split_types(map);
        type_members(map);
    });
    for_each_schema_mut(&mut rewritten, &mut flatten);
    (rewritten != *schema).then_some(rewritten)
}

/// Returns `true` if a schema has a list of types.
pub(crate) fn has_type_list(schema: &Schema) -> bool {
    schema.get("type").is_some_and(Value::is_array)
}

/// Returns the names of properties without a type.
pub(crate) fn untyped_properties(schema: &Schema) -> impl Iterator<Item = &str> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.filter(|(_, property)| !is_typed(property)).map(|(name, _)| name.as_str())
}

fn is_typed(schema: &Value) -> bool {
    schema
        .as_object()
        .is_some_and(|map| TYPE_KEYWORDS.iter().any(|keyword| map.contains_key(*keyword)))
}

fn needs_rewrite(schema: &Schema) -> bool {
    let is_union = |member: &Value| UNIONS.iter().any(|keyword| member.get(*keyword).is_some());
    has_type_list(schema)
        || (!schema.contains_key("type") && types_of_values(schema).is_some())
        || untyped_properties(schema).next().is_some()
        || members(schema).any(|member| !is_typed(member) || is_union(member))
}

/// Returns the members of all unions of a schema.
fn members(schema: &Schema) -> impl Iterator<Item = &Value> {
    let unions = UNIONS.iter().filter_map(|keyword| schema.get(*keyword)?.as_array());
    unions.flatten()
}

/// Replaces a list of types by one type, or by `anyOf` of single types.
fn split_types(schema: &mut Schema) {
    let listed = match schema.get("type") {
        Some(Value::Array(names)) => distinct(names.iter().filter_map(Value::as_str)),
        Some(_) => return,
        None => types_of_values(schema).unwrap_or_default(),
    };
    let is_repeated = |kind: &str| kind == "integer" && listed.contains(&"number");
    let kept = listed.iter().filter(|kind| !is_repeated(kind) && has_values(schema, kind));
    let types: Vec<String> = kept.map(|kind| (*kind).to_owned()).collect();
    let index = schema.keys().position(|keyword| keyword == "type").unwrap_or(0);
    match types.as_slice() {
        [] => {}
        [single_type] => {
            keep_values(schema, single_type);
            schema.shift_remove("type");
            schema.shift_insert(index, "type".to_owned(), single_type.as_str().into());
        }
        _ if members(schema).next().is_some()
            && (members(schema).all(|it| is_within(it, &types))
                || (!schema.contains_key("type") && members(schema).all(is_typed))) =>
        {
            schema.shift_remove("type");
        }
        _ if has_headers(schema) => {}
        _ => {
            schema.shift_remove("type");
            let branches = types.iter().map(|kind| branch(schema, kind)).collect();
            for keyword in types.iter().flat_map(|kind| keywords_of(kind)) {
                schema.shift_remove(*keyword);
            }
            schema.shift_remove("enum");
            add_union(schema, index, branches);
        }
    }
}

/// Returns the types of the values in `enum` or `const`.
fn types_of_values(schema: &Schema) -> Option<Vec<&'static str>> {
    let types = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Some(distinct(values(schema)?.iter().map(types)))
}

/// Returns the types of a list without duplicates, in the original order.
fn distinct<'a>(listed: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut types = Vec::new();
    for kind in listed {
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    types
}

fn values(schema: &Schema) -> Option<&[Value]> {
    let listed = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    schema.get("const").map(std::slice::from_ref).or(listed)
}

/// Returns `true` unless `enum` or `const` excludes all values of the type.
fn has_values(schema: &Schema, kind: &str) -> bool {
    values(schema).is_none_or(|values| values.iter().any(|value| is_of(value, kind)))
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => value.is_null(),
    }
}

/// Removes the values of other types from `enum`.
fn keep_values(schema: &mut Schema, kind: &str) {
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| is_of(value, kind));
    }
}

/// Returns the part of a schema that applies to one type.
fn branch(schema: &Schema, kind: &str) -> Value {
    let mut branch = Schema::from_iter([("type".to_owned(), kind.into())]);
    let is_of_type = |keyword: &str| keywords_of(kind).contains(&keyword);
    let is_kept = |keyword: &str| is_of_type(keyword) || (keyword == "enum" && kind != "null");
    let kept = schema.iter().filter(|(keyword, _)| is_kept(keyword));
    branch.extend(kept.map(|(keyword, value)| (keyword.clone(), value.clone())));
    keep_values(&mut branch, kind);
    Value::Object(branch)
}

/// Adds `anyOf` with these branches. If the schema already has `anyOf`, adds the new one to `allOf`.
fn add_union(schema: &mut Schema, index: usize, branches: Value) {
    if !schema.contains_key("anyOf") {
        schema.shift_insert(index.min(schema.len()), "anyOf".to_owned(), branches);
    } else if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(json!({"anyOf": branches}));
    }
}

/// Returns `true` if a member of a union allows only these types.
fn is_within(member: &Value, types: &[String]) -> bool {
    let is_listed = |kind: &str| {
        types.iter().any(|allowed| allowed == kind || (allowed == "number" && kind == "integer"))
    };
    match member.get("type") {
        Some(Value::String(kind)) => is_listed(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).all(is_listed),
        // The member had a list of types, which has already become a union.
        _ => UNIONS
            .iter()
            .filter_map(|keyword| member.get(*keyword)?.as_array())
            .any(|inner| !inner.is_empty() && inner.iter().all(|member| is_within(member, types))),
    }
}

/// Returns `true` if a nested property has the annotation `x-mcp-header`. Such a property must not move into a union,
/// because clients find the annotation only below `properties`.
fn has_headers(schema: &Schema) -> bool {
    let mut found = false;
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (_, property) in properties {
        for_each_schema(property, &mut |map| found |= map.contains_key(HEADER_KEYWORD));
    }
    found
}

/// Adds a type to untyped properties, and to untyped members of unions.
fn type_members(schema: &mut Schema) {
    let outer = schema.get("type").and_then(Value::as_str).map(ToOwned::to_owned);
    for keyword in UNIONS {
        let members = schema.get_mut(keyword).and_then(Value::as_array_mut);
        for member in members.into_iter().flatten().filter(|member| !is_typed(member)) {
            match (&outer, member) {
                (Some(kind), Value::Object(member)) => {
                    member.shift_insert(0, "type".to_owned(), kind.as_str().into());
                }
                (None, Value::Object(member)) if allows_any(member) => list_all_types(member),
                _ => {}
            }
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let untyped = properties.into_iter().flat_map(Map::values_mut).filter(|it| !is_typed(it));
    for property in untyped.filter_map(Value::as_object_mut) {
        // Properties of a schema without a type, such as the condition in `if`, are not parameters.
        if outer.is_some() || allows_any(property) {
            list_all_types(property);
        }
    }
}

/// Returns `true` if a schema has no keyword that restricts values.
fn allows_any(schema: &Schema) -> bool {
    schema.keys().all(|keyword| is_annotation(keyword))
}

/// Writes a schema without a type as a union of all types. The types whose values the schema restricts come first.
fn list_all_types(schema: &mut Schema) {
    if has_headers(schema) {
        return;
    }
    let mut types = ALL_TYPES;
    types.sort_by_key(|kind| !keywords_of(kind).iter().any(|it| schema.contains_key(*it)));
    schema.entry("items").or_insert_with(|| json!({}));
    schema.shift_insert(0, "type".to_owned(), json!(types));
    split_types(schema);
}

/// Moves the members of nested unions to the outer one, since some clients support only one level. Inner unions are
/// flattened first. Otherwise, equal members of an inner `anyOf` would prevent flattening the outer union.
fn flatten(schema: &mut Schema) {
    for outer in UNIONS {
        let Some(Value::Array(members)) = schema.get_mut(outer) else { continue };
        members.iter_mut().filter_map(Value::as_object_mut).for_each(flatten);
        let Some((flat, description)) = flattened(outer, members) else { continue };
        schema.insert(outer.to_owned(), Value::Array(flat));
        if let Some(description) = description {
            schema.entry("description").or_insert(description);
        }
    }
}

/// Returns the members of a union and of nested unions, with the first description of the nested unions.
fn flattened(outer: &str, members: &[Value]) -> Option<(Vec<Value>, Option<Value>)> {
    let (mut flat, mut unique_members, mut description) = (Vec::new(), HashSet::new(), None);
    let mut is_any_of = outer == "anyOf";
    let mut is_nested = false;
    let mut pending: Vec<&Value> = members.iter().rev().collect();
    while let Some(member) = pending.pop() {
        match nested_union(member) {
            Some((keyword, inner)) => {
                is_nested = true;
                is_any_of &= keyword == "anyOf";
                pending.extend(inner.iter().rev());
                description = description.or_else(|| member.get("description").cloned());
            }
            None if is_any_of && !unique_members.insert(member) => {}
            None => flat.push(member.clone()),
        }
    }
    (is_nested && (is_any_of || are_disjoint(&flat))).then_some((flat, description))
}

/// Returns the members of a schema that has no keywords other than a union, a title and a description.
fn nested_union(schema: &Value) -> Option<(&'static str, &Vec<Value>)> {
    let schema = schema.as_object()?;
    let keyword = UNIONS.into_iter().find(|keyword| schema.contains_key(*keyword))?;
    let is_plain = |name: &String| [keyword, "title", "description"].contains(&name.as_str());
    let members = schema.get(keyword)?.as_array()?;
    schema.keys().all(is_plain).then_some((keyword, members))
}

/// Returns `true` if no value matches the types of two of the schemas.
fn are_disjoint(schemas: &[Value]) -> bool {
    let mut known_types: Vec<&str> = Vec::new();
    schemas.iter().all(|schema| {
        let Some(kind) = schema.get("type").and_then(Value::as_str) else { return false };
        let kind = if kind == "integer" { "number" } else { kind };
        let is_new = !known_types.contains(&kind);
        known_types.push(kind);
        is_new
    })
}
