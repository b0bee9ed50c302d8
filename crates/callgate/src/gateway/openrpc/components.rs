//! The definitions that the schemas of a document share.
//!
//! Each tool's schema stands for itself, with its definitions under `$defs`. In a document they are
//! taken apart, so what a part refers to moves to `components.schemas`, and the references with it.
//! Two definitions are one if they are called the same and are the same with all that they refer
//! to; others of one name are numbered.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{ContentDescriptor, anything};
use crate::model::schema::walk::{for_each_reference_mut, for_each_schema, references};
use crate::model::tool::portable;
use crate::wire::percent::decoded;

/// Where a schema keeps its definitions, in the words of its drafts.
const HOLDERS: [&str; 2] = ["$defs", "definitions"];

/// A whole schema, whose parts are taken into a document.
#[derive(Debug)]
pub struct SourceSchema {
    /// What it is called where something refers to all of it, or into it.
    name: String,
    /// Without the definitions.
    root: Value,
    definitions: Value,
}

impl SourceSchema {
    /// Takes a schema apart. The name is for references to the whole of it.
    pub fn new(name: String, mut root: Value) -> Self {
        let mut definitions = Map::new();
        if let Value::Object(root) = &mut root {
            for holder in HOLDERS {
                definitions.extend(root.shift_remove_entry(holder));
            }
            // Its own name and its draft: neither is true inside of a document.
            for keyword in ["$id", "$schema"] {
                root.shift_remove(keyword);
            }
        }
        Self { name, root, definitions: Value::Object(definitions) }
    }

    fn value(&self, place: &str) -> Option<&Value> {
        if place.is_empty() { Some(&self.root) } else { self.definitions.pointer(place) }
    }

    /// What a reference names, if it is in this schema and is given as a path: the place of a
    /// definition, which is empty for the root, and the path inside of it.
    fn target<'a>(&self, reference: &'a str) -> Option<(String, Cow<'a, str>)> {
        let path = reference.strip_prefix('#')?;
        let mut steps = path.splitn(4, '/');
        let start = steps.next().filter(|start| start.is_empty())?;
        let holder = steps.next().and_then(decoded);
        let (place, inside): (_, Cow<'a, str>) = match (holder, steps.next()) {
            (Some(holder), Some(name)) if HOLDERS.contains(&holder.as_ref()) => {
                let inside = steps.next().map_or(start.into(), |rest| format!("/{rest}").into());
                (format!("/{holder}/{}", decoded(name)?), inside)
            }
            _ => (String::new(), path.into()),
        };
        self.value(&place)?.pointer(&decoded(&inside)?)?;
        Some((place, inside))
    }

    /// A definition by itself; `None` if something in it refers to another place than this schema.
    fn definition(&self, place: &str) -> Option<Definition> {
        let schema = self.value(place)?;
        let digest = Sha256::digest(serde_json::to_vec(&(place, schema)).ok()?).into();
        let places = movable_references(schema)?.into_iter().map(|it| Some(self.target(it)?.0));
        Some(Definition { digest, needs: places.collect::<Option<_>>()? })
    }
}

/// What is known of a definition.
#[derive(Debug)]
struct Definition {
    /// Stands for its place and its text.
    digest: [u8; 32],
    /// The places that it refers to.
    needs: HashSet<String>,
}

/// The definitions of a document.
#[derive(Debug, Default)]
pub struct Components {
    schemas: BTreeMap<String, Value>,
    /// The key of each definition that is there, by what tells it from others.
    keys: HashMap<[u8; 32], String>,
    /// How many keys were made of each name.
    numbers: HashMap<String, usize>,
}

impl Components {
    /// Returns the properties of an input schema, each as a parameter.
    pub fn params<'a>(&mut self, input: &'a SourceSchema) -> Vec<ContentDescriptor<'a>> {
        let list = input.root.get("required").and_then(Value::as_array);
        let required: HashSet<&str> =
            list.into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = input.root.get("properties").and_then(Value::as_object);
        let mut adopting = SchemaMover::new(self, input);
        let param = |(name, property): (&'a String, &'a Value)| {
            let mut schema = adopting.adopt(property);
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

    /// Returns an output schema as it stands in the document.
    pub fn result(&mut self, output: &SourceSchema) -> Value {
        SchemaMover::new(self, output).adopt(&output.root)
    }

    /// `components.schemas`, unless there are none.
    pub fn finish(self) -> Option<BTreeMap<String, Value>> {
        (!self.schemas.is_empty()).then_some(self.schemas)
    }

    fn new_key(&mut self, name: &str) -> String {
        let plain: String = name.chars().map(portable).collect();
        let plain = if plain.is_empty() { "schema".to_owned() } else { plain };
        let number = self.numbers.entry(plain.clone()).or_default();
        loop {
            *number += 1;
            let key = if *number == 1 { plain.clone() } else { format!("{plain}_{number}") };
            if !self.schemas.contains_key(&key) {
                return key;
            }
        }
    }
}

/// Takes parts of one schema into the document.
#[derive(Debug)]
struct SchemaMover<'a> {
    components: &'a mut Components,
    source: &'a SourceSchema,
    /// What was looked at, by its place.
    definitions: HashMap<String, Option<Definition>>,
    /// The keys of the definitions, by their places; `None` where one cannot be moved.
    keys: HashMap<String, Option<String>>,
    /// Places whose definitions have a key and are not there yet.
    promised: Vec<(String, String)>,
}

impl<'a> SchemaMover<'a> {
    fn new(components: &'a mut Components, source: &'a SourceSchema) -> Self {
        Self {
            components,
            source,
            definitions: HashMap::new(),
            keys: HashMap::new(),
            promised: Vec::new(),
        }
    }

    /// A part of the schema as it stands in the document. One with references that cannot be moved
    /// says nothing: without them it could say something wrong.
    fn adopt(&mut self, schema: &Value) -> Value {
        let can_move = movable_references(schema).is_some_and(|references| {
            references.into_iter().all(|reference| self.moved(reference).is_some())
        });
        let adopted = if can_move { self.pointed_here(schema) } else { anything() };
        // One after the other: chains of definitions may be long.
        while let Some((place, key)) = self.promised.pop() {
            let schema = self.source.value(&place).unwrap_or(&Value::Null);
            let schema = self.pointed_here(schema);
            self.components.schemas.insert(key, schema);
        }
        adopted
    }

    /// A copy whose references are those of the document.
    fn pointed_here(&mut self, schema: &Value) -> Value {
        let mut copy = schema.clone();
        for_each_reference_mut(&mut copy, &mut |_, reference| {
            if let Some(moved) = self.moved(reference) {
                *reference = moved;
            }
        });
        copy
    }

    /// A reference as it is in the document.
    fn moved(&mut self, reference: &str) -> Option<String> {
        let (place, inside) = self.source.target(reference)?;
        if !self.keys.contains_key(&place) {
            let key = self.new_or_equal(&place);
            self.keys.insert(place.clone(), key);
        }
        let key = self.keys.get(&place)?.as_ref()?;
        Some(format!("#/components/schemas/{key}{inside}"))
    }

    /// The key of a definition: that of an equal one, or its own from now on.
    fn new_or_equal(&mut self, place: &str) -> Option<String> {
        let identity = self.identity(place)?;
        if let Some(key) = self.components.keys.get(&identity) {
            return Some(key.clone());
        }
        let name = match place.rsplit_once('/') {
            Some((_, name)) => name.replace("~1", "/").replace("~0", "~"),
            None => self.source.name.clone(),
        };
        let key = self.components.new_key(&name);
        self.components.keys.insert(identity, key.clone());
        // Taken; what it is follows.
        self.components.schemas.insert(key.clone(), Value::Null);
        self.promised.push((place.to_owned(), key.clone()));
        Some(key)
    }

    /// Stands for a definition and all that it needs; `None` if some of that cannot be moved.
    fn identity(&mut self, place: &str) -> Option<[u8; 32]> {
        let mut seen = HashSet::new();
        let mut digests = BTreeSet::new();
        let mut waiting = vec![place.to_owned()];
        while let Some(place) = waiting.pop() {
            if !seen.insert(place.clone()) {
                continue;
            }
            let source = self.source;
            let definition = self.definitions.entry(place);
            let definition = definition.or_insert_with_key(|place| source.definition(place));
            let Definition { digest, needs } = definition.as_ref()?;
            digests.insert(*digest);
            waiting.extend(needs.iter().filter(|place| !seen.contains(*place)).cloned());
        }
        let own = self.definitions.get(place)?.as_ref()?.digest;
        let all = digests.iter().fold(Sha256::new_with_prefix(own), Sha256::chain_update);
        Some(all.finalize().into())
    }
}

/// The references in a schema; `None` where they are not to be read from the document's root.
fn movable_references(schema: &Value) -> Option<Vec<&str>> {
    let found = references(schema);
    let mut has_own_base = false;
    for_each_schema(schema, &mut |map| has_own_base |= map.contains_key("$id"));
    (found.is_empty() || !has_own_base).then_some(found)
}
