//! Schemas of a document as schemas that stand for themselves.
//!
//! What they refer to moves under `$defs`, then the library writes it where it is used, unless it is
//! recursive or large. OpenRPC's schemas are draft 7; what JSON Schema 2020-12 writes otherwise is
//! rewritten.

use std::collections::{HashMap, HashSet, VecDeque};

use callgate::inline_definitions;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::references::{ReferenceError, References, pointer};

/// A method's schema may need so many definitions.
const MAX_DEFINITIONS: usize = 1000;
/// And may have so many bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Why a schema cannot be taken.
#[derive(Debug, Error)]
pub(super) enum SchemaError {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("`{0}` is not supported")]
    Keyword(&'static str),
    #[error("the schema needs more than {MAX_DEFINITIONS} definitions")]
    TooManyDefinitions,
    #[error("the schema has {0} bytes, more than {MAX_BYTES}")]
    TooLarge(usize),
}

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
    pub(super) fn adopt(&mut self, schema: &'a Value) -> Result<Value, SchemaError> {
        self.copy(schema, schema)
    }

    /// A schema that was put together from adopted ones, with all that they refer to.
    pub(super) fn finish(mut self, mut root: Map<String, Value>) -> Result<Value, SchemaError> {
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
        if size > MAX_BYTES { Err(SchemaError::TooLarge(size)) } else { Ok(schema) }
    }

    fn copy(&mut self, schema: &'a Value, own_root: &'a Value) -> Result<Value, SchemaError> {
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(true) => return Ok(json!({})),
            Value::Bool(false) => return Ok(json!({"not": {}})),
            Value::Array(items) => {
                return items.iter().map(|item| self.copy(item, own_root)).collect();
            }
            other => return Ok(other.clone()),
        };
        let mut copy = Map::new();
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => {
                    let key = self.key(reference, own_root)?;
                    copy.insert("$ref".to_owned(), json!(format!("#/$defs/{key}")));
                }
                ("$dynamicRef", _) => return Err(SchemaError::Keyword("$dynamicRef")),
                ("$recursiveRef", _) => return Err(SchemaError::Keyword("$recursiveRef")),
                // Definitions are found where references lead; of the others, nothing is so here. A
                // `required` that is no list is a habit of draft 3.
                ("$defs" | "definitions" | "$id" | "$schema" | "$anchor" | "$comment", _)
                | ("required", Value::Bool(_)) => {}
                ("const" | "enum" | "default" | "examples" | "example", data) => {
                    copy.insert(keyword.clone(), data.clone());
                }
                ("properties" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                    let named = named
                        .iter()
                        .map(|(name, schema)| Ok((name.clone(), self.copy(schema, own_root)?)));
                    let named = named.collect::<Result<Map<_, _>, SchemaError>>()?;
                    copy.insert(keyword.clone(), Value::Object(named));
                }
                ("additionalProperties" | "uniqueItems" | "deprecated", Value::Bool(_)) => {
                    copy.insert(keyword.clone(), value.clone());
                }
                ("readOnly" | "writeOnly" | "exclusiveMinimum" | "exclusiveMaximum", flag) => {
                    copy.insert(keyword.clone(), flag.clone());
                }
                _ => {
                    copy.insert(keyword.clone(), self.copy_unless_flag(value, own_root)?);
                }
            }
        }
        modernise(&mut copy);
        Ok(Value::Object(copy))
    }

    /// What an unknown keyword holds: `true` need not be a schema there.
    fn copy_unless_flag(
        &mut self,
        value: &'a Value,
        own_root: &'a Value,
    ) -> Result<Value, SchemaError> {
        if value.is_boolean() { Ok(value.clone()) } else { self.copy(value, own_root) }
    }

    /// The key of what a reference leads to, which is in the document, or in the schema that the
    /// reference is in: many tools write whole schemas into documents.
    fn key(&mut self, reference: &str, own_root: &'a Value) -> Result<String, SchemaError> {
        let pointer = pointer(reference)?;
        let (place, target, root) = match self.references.find(reference) {
            Ok(target) if !pointer.is_empty() => ((pointer, None), target, target),
            found => match (own_root.pointer(&pointer), found) {
                (Some(target), _) => {
                    let address = std::ptr::from_ref(own_root).addr();
                    ((pointer, Some(address)), target, own_root)
                }
                (None, Err(error)) => return Err(error.into()),
                (None, Ok(target)) => ((pointer, None), target, target),
            },
        };
        if let Some(key) = self.keys.get(&place) {
            return Ok(key.clone());
        }
        if self.keys.len() >= MAX_DEFINITIONS {
            return Err(SchemaError::TooManyDefinitions);
        }
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

/// What older drafts write otherwise.
fn modernise(schema: &mut Map<String, Value>) {
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
