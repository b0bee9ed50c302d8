//! Bundles schemas of a document into one self-contained schema.
//!
//! Definitions that the schemas refer to move to `$defs`. Then `inline_definitions` inlines them where they are used,
//! unless they are recursive or large. OpenRPC's schemas use draft 7 and are rewritten for 2020-12.

use std::collections::{HashMap, HashSet, VecDeque};

use anyhow::{Context as _, ensure};
use callgate::internal::{for_each_schema_mut, inline_definitions, json_bytes};
use serde_json::{Map, Value, json};

use super::references::{Document, pointer};
use crate::limits::{MAX_COPIED_BYTES, MAX_DEFINITIONS, MAX_SCHEMA_BYTES};

/// The schemas of one method. All of them are copied by [`Bundle::copy`].
#[derive(Debug)]
pub(super) struct Bundle<'a> {
    document: Document<'a>,
    /// Keys in `$defs`, by the location of the definition.
    keys: HashMap<Location, String>,
    used_keys: HashSet<String>,
    /// Definitions that have a key but are not copied yet, each with the schema that contains it.
    pending: VecDeque<(String, &'a Value, &'a Value)>,
    /// Number of bytes that may still be copied.
    bytes_left: usize,
}

/// A JSON pointer into the document, or into the schema at this memory address.
type Location = (String, Option<usize>);

impl<'a> Bundle<'a> {
    pub(super) fn new(document: Document<'a>) -> Self {
        let (keys, used_keys, pending) = (HashMap::new(), HashSet::new(), VecDeque::new());
        Self { document, keys, used_keys, pending, bytes_left: MAX_COPIED_BYTES }
    }

    /// Returns a copy of a schema whose references point into `$defs`.
    pub(super) fn add(&mut self, schema: &'a Value) -> anyhow::Result<Value> {
        self.copy(schema, schema)
    }

    /// Adds all necessary definitions to `root`, a schema that is composed of added schemas. Returns the result.
    pub(super) fn finish(mut self, mut root: Value) -> anyhow::Result<Value> {
        let mut definitions = Map::new();
        while let Some((key, schema, schema_root)) = self.pending.pop_front() {
            definitions.insert(key, self.copy(schema, schema_root)?);
        }
        if let (Value::Object(root), false) = (&mut root, definitions.is_empty()) {
            root.insert("$defs".to_owned(), Value::Object(definitions));
        }
        let schema = inline_definitions(root);
        let is_within_limit = json_bytes(&schema, MAX_SCHEMA_BYTES).is_some();
        ensure!(is_within_limit, "the schema has more than {MAX_SCHEMA_BYTES} bytes");
        Ok(schema)
    }

    fn copy(&mut self, schema: &Value, schema_root: &'a Value) -> anyhow::Result<Value> {
        let bytes = json_bytes(schema, self.bytes_left).with_context(|| {
            format!("the schema and all schemas that it refers to have more than {MAX_COPIED_BYTES} bytes together")
        })?;
        self.bytes_left -= bytes;
        let mut copy = schema.clone();
        boolean_to_object(&mut copy);
        let mut result = Ok(());
        for_each_schema_mut(&mut copy, &mut |members| {
            if result.is_ok() {
                result = self.rewrite(members, schema_root);
            }
        });
        result.map(|()| copy)
    }

    fn rewrite(
        &mut self,
        members: &mut Map<String, Value>,
        schema_root: &'a Value,
    ) -> anyhow::Result<()> {
        // Definitions are copied where they are referenced. The other keywords would be wrong in a copy.
        for keyword in ["$defs", "definitions", "$id", "$schema", "$anchor", "$comment"] {
            members.shift_remove(keyword);
        }
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            ensure!(!members.contains_key(keyword), "`{keyword}` is not supported");
        }
        if let Some(Value::String(reference)) = members.get_mut("$ref") {
            *reference = format!("#/$defs/{}", self.key(reference, schema_root)?);
        }
        upgrade_keywords(members);
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("properties" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                    named.values_mut().for_each(boolean_to_object);
                }
                ("oneOf" | "anyOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                    schemas.iter_mut().for_each(boolean_to_object);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the key of a referenced definition. The definition is in the document, or in the schema that
    /// contains the reference, because many tools embed whole schemas in documents.
    fn key(&mut self, reference: &str, schema_root: &'a Value) -> anyhow::Result<String> {
        let pointer = pointer(reference)?;
        let (location, target, root) = match self.document.find(reference) {
            Ok(target) if !pointer.is_empty() => ((pointer, None), target, target),
            found => match (schema_root.pointer(&pointer), found) {
                (Some(target), _) => {
                    let address = std::ptr::from_ref(schema_root).addr();
                    ((pointer, Some(address)), target, schema_root)
                }
                (None, Err(error)) => return Err(error),
                (None, Ok(target)) => ((pointer, None), target, target),
            },
        };
        if let Some(key) = self.keys.get(&location) {
            return Ok(key.clone());
        }
        ensure!(
            self.keys.len() < MAX_DEFINITIONS,
            "the schema needs more than {MAX_DEFINITIONS} definitions"
        );
        let key = self.new_key(&location.0);
        self.keys.insert(location, key.clone());
        self.pending.push_back((key.clone(), target, root));
        Ok(key)
    }

    /// Returns a new key: the last part of a pointer, with only characters that need no escaping, and with a number if
    /// the key is already used.
    fn new_key(&mut self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let escaped =
            |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
        let name: String = last.chars().map(escaped).collect();
        let name = if name.is_empty() { "root".to_owned() } else { name };
        let mut key = name.clone();
        for number in 2.. {
            if self.used_keys.insert(key.clone()) {
                break;
            }
            key = format!("{name}_{number}");
        }
        key
    }
}

fn boolean_to_object(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({"not": {}}),
        _ => {}
    }
}

/// Rewrites keywords of older drafts.
fn upgrade_keywords(schema: &mut Map<String, Value>) {
    // A boolean `required` belongs to draft 3.
    if schema.get("required").is_some_and(Value::is_boolean) {
        schema.shift_remove("required");
    }
    let additional_items = schema.shift_remove("additionalItems");
    if let Some(Value::Array(_)) = schema.get("items") {
        if let Some(items) = schema.shift_remove("items").filter(|items| *items != json!([])) {
            schema.insert("prefixItems".to_owned(), items);
        }
        schema.insert("items".to_owned(), additional_items.unwrap_or_else(|| json!({})));
    }
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(is_exclusive) = schema.get(flag).and_then(Value::as_bool) else { continue };
        schema.shift_remove(flag);
        if is_exclusive && let Some(value) = schema.shift_remove(limit) {
            schema.insert(flag.to_owned(), value);
        }
    }
    if let Some(Value::Object(dependencies)) = schema.shift_remove("dependencies") {
        let (names, schemas): (Map<_, _>, Map<_, _>) =
            dependencies.into_iter().partition(|(_, dependency)| dependency.is_array());
        for (keyword, members) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !members.is_empty() {
                schema.insert(keyword.to_owned(), Value::Object(members));
            }
        }
    }
}
