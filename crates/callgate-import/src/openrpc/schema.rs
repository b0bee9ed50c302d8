//! Schemas of a document as schemas that stand for themselves.
//!
//! What they refer to moves under `$defs`, then the library writes it where it is used, unless it is
//! recursive or large. OpenRPC's schemas are draft 7; what JSON Schema 2020-12 writes otherwise is
//! rewritten.

use std::collections::{HashMap, HashSet, VecDeque};

use anyhow::ensure;
use callgate::internal::{for_each_schema_mut, inline_definitions};
use serde_json::{Map, Value, json};

use super::references::{References, pointer};

/// Maximum number of definitions that a method's schema needs.
const MAX_DEFINITIONS: usize = 1000;
/// Maximum size of a method's schema, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Takes parts of a document into one schema.
#[derive(Debug)]
pub(super) struct Adoption<'a> {
    references: References<'a>,
    /// The keys under `$defs`, by where the definitions are.
    keys: HashMap<Place, String>,
    taken: HashSet<String>,
    /// What has a key and is not adopted yet.
    waiting: VecDeque<(String, &'a Value, &'a Value)>,
}

/// A pointer, and whether it is into a schema of its own rather than into the document.
type Place = (String, Option<usize>);

impl<'a> Adoption<'a> {
    pub(super) fn new(references: References<'a>) -> Self {
        Self { references, keys: HashMap::new(), taken: HashSet::new(), waiting: VecDeque::new() }
    }

    /// A schema of the document, with its references into `$defs`.
    pub(super) fn adopt(&mut self, schema: &'a Value) -> anyhow::Result<Value> {
        self.copy(schema, schema)
    }

    /// A schema that was put together from adopted ones, with all that they refer to.
    pub(super) fn finish(mut self, mut root: Map<String, Value>) -> anyhow::Result<Value> {
        let mut definitions = Map::new();
        while let Some((key, schema, own_root)) = self.waiting.pop_front() {
            let schema = self.copy(schema, own_root)?;
            definitions.insert(key, schema);
        }
        if !definitions.is_empty() {
            root.insert("$defs".to_owned(), Value::Object(definitions));
        }
        let schema = inline_definitions(Value::Object(root));
        let size = schema.to_string().len();
        ensure!(size <= MAX_BYTES, "the schema has {size} bytes, more than {MAX_BYTES}");
        Ok(schema)
    }

    fn copy(&mut self, schema: &Value, own_root: &'a Value) -> anyhow::Result<Value> {
        let mut copy = schema.clone();
        write_as_object(&mut copy);
        let mut result = Ok(());
        for_each_schema_mut(&mut copy, &mut |members| {
            if result.is_ok() {
                result = self.adopt_members(members, own_root);
            }
        });
        result.map(|()| copy)
    }

    fn adopt_members(
        &mut self,
        members: &mut Map<String, Value>,
        own_root: &'a Value,
    ) -> anyhow::Result<()> {
        // Definitions are found where references lead; of the others, nothing is so here.
        for keyword in ["$defs", "definitions", "$id", "$schema", "$anchor", "$comment"] {
            members.shift_remove(keyword);
        }
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            ensure!(!members.contains_key(keyword), "`{keyword}` is not supported");
        }
        if let Some(Value::String(reference)) = members.get_mut("$ref") {
            *reference = format!("#/$defs/{}", self.key(reference, own_root)?);
        }
        modernise(members);
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("properties" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                    named.values_mut().for_each(write_as_object);
                }
                ("oneOf" | "anyOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                    schemas.iter_mut().for_each(write_as_object);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The key of what a reference leads to, which is in the document, or in the schema that the
    /// reference is in: many tools write whole schemas into documents.
    fn key(&mut self, reference: &str, own_root: &'a Value) -> anyhow::Result<String> {
        let pointer = pointer(reference)?;
        let (place, target, root) = match self.references.find(reference) {
            Ok(target) if !pointer.is_empty() => ((pointer, None), target, target),
            found => match (own_root.pointer(&pointer), found) {
                (Some(target), _) => {
                    let address = std::ptr::from_ref(own_root).addr();
                    ((pointer, Some(address)), target, own_root)
                }
                (None, Err(error)) => return Err(error),
                (None, Ok(target)) => ((pointer, None), target, target),
            },
        };
        if let Some(key) = self.keys.get(&place) {
            return Ok(key.clone());
        }
        ensure!(
            self.keys.len() < MAX_DEFINITIONS,
            "the schema needs more than {MAX_DEFINITIONS} definitions"
        );
        let key = self.new_key(&place.0);
        self.keys.insert(place, key.clone());
        self.waiting.push_back((key.clone(), target, root));
        Ok(key)
    }

    /// The pointer's last part, in letters that need no escape.
    fn new_key(&mut self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
        let plain: String = last.chars().map(plain).collect();
        let plain = if plain.is_empty() { "root".to_owned() } else { plain };
        let mut key = plain.clone();
        for number in 2.. {
            if self.taken.insert(key.clone()) {
                break;
            }
            key = format!("{plain}_{number}");
        }
        key
    }
}

/// Writes a boolean schema as an object.
fn write_as_object(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({"not": {}}),
        _ => {}
    }
}

/// What older drafts write otherwise.
fn modernise(schema: &mut Map<String, Value>) {
    // A habit of draft 3.
    if schema.get("required").is_some_and(Value::is_boolean) {
        schema.shift_remove("required");
    }
    let rest = schema.shift_remove("additionalItems");
    if let Some(Value::Array(_)) = schema.get("items") {
        if let Some(items) = schema.shift_remove("items").filter(|items| *items != json!([])) {
            schema.insert("prefixItems".to_owned(), items);
        }
        schema.insert("items".to_owned(), rest.unwrap_or_else(|| json!({})));
    }
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(flag) {
            Some(Value::Bool(true)) => {
                schema.shift_remove(flag);
                if let Some(value) = schema.shift_remove(limit) {
                    schema.insert(flag.to_owned(), value);
                }
            }
            Some(Value::Bool(false)) => {
                schema.shift_remove(flag);
            }
            _ => {}
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
