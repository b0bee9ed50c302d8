//! Definitions that the schemas of a document share.
//!
//! The schema of each tool has its own `$defs`. In a document, these definitions and the references to them move to
//! `components.schemas`. Definitions with the same name and content are merged. Different definitions with the same
//! name are numbered.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{ContentDescriptor, any_value_schema};
use crate::model::schema::walk::{for_each_reference_mut, for_each_schema, references};
use crate::model::tool::portable;
use crate::wire::percent::decoded;

/// Keywords for definitions in the drafts of JSON Schema.
const DEFINITION_KEYWORDS: [&str; 2] = ["$defs", "definitions"];

/// A schema whose parts are moved into a document.
#[derive(Debug)]
pub struct SourceSchema {
    /// Name for references to the root.
    name: String,
    /// The schema without its definitions.
    root: Value,
    definitions: Value,
}

impl SourceSchema {
    /// Separates a schema from its definitions. `name` is used for references to the root.
    pub fn new(name: String, mut root: Value) -> Self {
        let mut definitions = Map::new();
        if let Value::Object(root) = &mut root {
            for keyword in DEFINITION_KEYWORDS {
                definitions.extend(root.shift_remove_entry(keyword));
            }
            // The identifier and the draft of a schema do not apply inside a document.
            for keyword in ["$id", "$schema"] {
                root.shift_remove(keyword);
            }
        }
        Self { name, root, definitions: Value::Object(definitions) }
    }

    fn value(&self, path: &str) -> Option<&Value> {
        if path.is_empty() { Some(&self.root) } else { self.definitions.pointer(path) }
    }

    /// Resolves a reference within this schema. Returns the path of the definition, which is empty for the root, and
    /// the path inside the definition.
    fn target<'a>(&self, reference: &'a str) -> Option<(String, Cow<'a, str>)> {
        let path = reference.strip_prefix('#')?;
        let mut segments = path.splitn(4, '/');
        let start = segments.next().filter(|start| start.is_empty())?;
        let keyword = segments.next().and_then(decoded);
        let (path, inner_path): (_, Cow<'a, str>) = match (keyword, segments.next()) {
            (Some(keyword), Some(name)) if DEFINITION_KEYWORDS.contains(&keyword.as_ref()) => {
                let inner_path =
                    segments.next().map_or(start.into(), |rest| format!("/{rest}").into());
                (format!("/{keyword}/{}", decoded(name)?), inner_path)
            }
            _ => (String::new(), path.into()),
        };
        self.value(&path)?.pointer(&decoded(&inner_path)?)?;
        Some((path, inner_path))
    }

    /// Returns a digest of a definition and of all definitions that it refers to. Returns `None` if one of them refers
    /// to something outside of this schema.
    fn digest(&self, path: &str) -> Option<[u8; 32]> {
        let mut reachable = BTreeMap::new();
        let mut pending = vec![path.to_owned()];
        while let Some(path) = pending.pop() {
            let Entry::Vacant(entry) = reachable.entry(path) else { continue };
            let schema = self.value(entry.key())?;
            for reference in movable_references(schema)? {
                pending.push(self.target(reference)?.0);
            }
            entry.insert(schema);
        }
        Some(Sha256::digest(serde_json::to_vec(&(path, reachable)).ok()?).into())
    }
}

/// The `components.schemas` of a document.
#[derive(Debug, Default)]
pub struct Components {
    schemas: BTreeMap<String, Value>,
    /// Key of each definition, by the digest of the definition and of all definitions that it refers to.
    keys: HashMap<[u8; 32], String>,
    /// For each name of a definition, the number of the last key that was made from the name.
    numbers: HashMap<String, usize>,
}

impl Components {
    /// Moves the properties of an input schema into the document, as parameters.
    pub fn params<'a>(&mut self, input: &'a SourceSchema) -> Vec<ContentDescriptor<'a>> {
        let list = input.root.get("required").and_then(Value::as_array);
        let required: HashSet<&str> =
            list.into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = input.root.get("properties").and_then(Value::as_object);
        let mut mover = SchemaMover::new(self, input);
        let param = |(name, property): (&'a String, &'a Value)| {
            let mut schema = mover.move_schema(property);
            if let Some(map) = schema.as_object_mut() {
                map.shift_remove("description");
            }
            ContentDescriptor {
                name,
                description: property.get("description").and_then(Value::as_str),
                required: Some(required.contains(name.as_str())),
                schema,
            }
        };
        properties.into_iter().flatten().map(param).collect()
    }

    /// Moves an output schema into the document.
    pub fn result(&mut self, output: &SourceSchema) -> Value {
        SchemaMover::new(self, output).move_schema(&output.root)
    }

    /// Returns the definitions, if there are any.
    pub fn finish(self) -> Option<BTreeMap<String, Value>> {
        (!self.schemas.is_empty()).then_some(self.schemas)
    }

    fn new_key(&mut self, name: &str) -> String {
        let base: String = name.chars().map(portable).collect();
        let base = if base.is_empty() { "schema".to_owned() } else { base };
        let number = self.numbers.entry(base.clone()).or_default();
        loop {
            *number += 1;
            let key = if *number == 1 { base.clone() } else { format!("{base}_{number}") };
            if !self.schemas.contains_key(&key) {
                return key;
            }
        }
    }
}

/// Moves parts of one schema into a document.
#[derive(Debug)]
struct SchemaMover<'a> {
    components: &'a mut Components,
    source: &'a SourceSchema,
    /// Key of each definition in the document, by its path in the source schema; `None` if the definition cannot be
    /// moved.
    keys: HashMap<String, Option<String>>,
    /// Paths and keys of definitions that are still to be written.
    pending: Vec<(String, String)>,
}

impl<'a> SchemaMover<'a> {
    fn new(components: &'a mut Components, source: &'a SourceSchema) -> Self {
        Self { components, source, keys: HashMap::new(), pending: Vec::new() }
    }

    /// Returns a copy of a part of the source schema, with references that point into the document. If a reference
    /// cannot be moved, returns a schema that accepts every value.
    fn move_schema(&mut self, schema: &Value) -> Value {
        let can_move = movable_references(schema).is_some_and(|references| {
            references.into_iter().all(|reference| self.moved_reference(reference).is_some())
        });
        let moved_schema =
            if can_move { self.with_moved_references(schema) } else { any_value_schema() };
        // Iterative, because chains of definitions may be long.
        while let Some((path, key)) = self.pending.pop() {
            let schema = self.source.value(&path).unwrap_or(&Value::Null);
            let schema = self.with_moved_references(schema);
            self.components.schemas.insert(key, schema);
        }
        moved_schema
    }

    /// Returns a copy whose references point into the document.
    fn with_moved_references(&mut self, schema: &Value) -> Value {
        let mut copy = schema.clone();
        for_each_reference_mut(&mut copy, &mut |_, reference| {
            if let Some(moved_reference) = self.moved_reference(reference) {
                *reference = moved_reference;
            }
        });
        copy
    }

    /// Converts a reference so that it points into the document.
    fn moved_reference(&mut self, reference: &str) -> Option<String> {
        let (path, inner_path) = self.source.target(reference)?;
        if !self.keys.contains_key(&path) {
            let key = self.key_for(&path);
            self.keys.insert(path.clone(), key);
        }
        let key = self.keys.get(&path)?.as_ref()?;
        Some(format!("#/components/schemas/{key}{inner_path}"))
    }

    /// Returns the key of an equal definition in the document, or a new key.
    fn key_for(&mut self, path: &str) -> Option<String> {
        let digest = self.source.digest(path)?;
        if let Some(key) = self.components.keys.get(&digest) {
            return Some(key.clone());
        }
        let name = match path.rsplit_once('/') {
            Some((_, name)) => name.replace("~1", "/").replace("~0", "~"),
            None => self.source.name.clone(),
        };
        let key = self.components.new_key(&name);
        self.components.keys.insert(digest, key.clone());
        // Reserves the key. The schema is written later.
        self.components.schemas.insert(key.clone(), Value::Null);
        self.pending.push((path.to_owned(), key.clone()));
        Some(key)
    }
}

/// Returns the references in a schema, or `None` if a nested `$id` changes the base of references.
fn movable_references(schema: &Value) -> Option<Vec<&str>> {
    let found = references(schema);
    let mut has_nested_id = false;
    for_each_schema(schema, &mut |map| has_nested_id |= map.contains_key("$id"));
    (found.is_empty() || !has_nested_id).then_some(found)
}
