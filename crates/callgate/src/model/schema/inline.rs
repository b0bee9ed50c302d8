//! Inlining of `$defs`.
//!
//! Many clients ignore `$ref`, so definitions are inlined unless they are recursive or large. [`crate::model::types`]
//! applies the same rule to classes of the registry. Schemas can come from untrusted sources, so inlining adds at most
//! [`MAX_ADDED_BYTES`] to a schema.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::walk::{for_each_schema, for_each_schema_mut, json_bytes, nodes};
use crate::model::types::{MAX_INLINE_BYTES, MAX_INLINE_NODES};
use crate::wire::percent;

/// Maximum number of bytes that inlining adds to a schema. Further references are kept.
const MAX_ADDED_BYTES: usize = 1 << 20;

/// Replaces references by the definitions in `$defs`.
///
/// Recursive and large definitions stay in `$defs`. Unresolvable references are kept.
pub fn inline(mut schema: Value) -> Value {
    let definitions = schema.as_object_mut().and_then(|root| root.shift_remove("$defs"));
    let Some(Value::Object(definitions)) = definitions else { return schema };
    let inliner = Inliner::new(&definitions);
    // Some clients look only at the root, so the type must be there.
    for _ in 0..definitions.len() {
        let Value::Object(root) = &mut schema else { break };
        let Some((_, definition)) = inliner.target(root) else { break };
        *root = merged(definition, std::mem::take(root));
    }
    let mut expansion = Expansion { kept: BTreeSet::new(), bytes_left: MAX_ADDED_BYTES };
    let mut schema = inliner.expanded(&schema, &mut expansion);
    let mut kept = BTreeMap::new();
    while let Some(name) = expansion.kept.iter().copied().find(|name| !kept.contains_key(name)) {
        let definition = definitions.get(name).unwrap_or(&Value::Null);
        kept.insert(name, inliner.expanded(definition, &mut expansion));
    }
    if let (Value::Object(root), false) = (&mut schema, kept.is_empty()) {
        root.insert("$defs".to_owned(), kept.into_iter().collect());
    }
    schema
}

struct Inliner<'a> {
    definitions: &'a Map<String, Value>,
    /// Sizes of the definitions, in bytes.
    sizes: BTreeMap<&'a str, usize>,
    /// For each definition, the definitions that it refers to.
    targets: BTreeMap<&'a str, Vec<&'a str>>,
    by_reference: BTreeSet<&'a str>,
}

/// References that are kept, and the number of bytes that may still be inlined.
struct Expansion<'a> {
    kept: BTreeSet<&'a str>,
    bytes_left: usize,
}

impl<'a> Inliner<'a> {
    fn new(definitions: &'a Map<String, Value>) -> Self {
        let size = |definition| json_bytes(definition, MAX_INLINE_BYTES);
        let sizes = definitions.iter().filter_map(|(name, it)| Some((name.as_str(), size(it)?)));
        let mut inliner = Self {
            definitions,
            sizes: sizes.collect(),
            targets: BTreeMap::new(),
            by_reference: BTreeSet::new(),
        };
        for (name, definition) in definitions {
            let mut targets = Vec::new();
            for_each_schema(definition, &mut |map| {
                targets.extend(inliner.target(map).map(|(name, _)| name));
            });
            inliner.targets.insert(name, targets);
        }
        for name in definitions.keys() {
            if inliner.reaches(name, name, &mut BTreeSet::new()) {
                inliner.by_reference.insert(name);
            }
        }
        let mut measured = BTreeSet::new();
        for name in definitions.keys() {
            inliner.measure(name, &mut measured);
        }
        inliner
    }

    /// Returns the name and definition that a schema refers to.
    fn target(&self, schema: &Map<String, Value>) -> Option<(&'a str, &'a Value)> {
        let reference = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        let (name, definition) = self.definitions.get_key_value(&decoded(reference))?;
        Some((name, definition))
    }

    /// Returns `true` if `from` refers to `goal`, directly or indirectly.
    fn reaches(&self, from: &str, goal: &str, visited: &mut BTreeSet<&'a str>) -> bool {
        let mut targets = self.targets.get(from).into_iter().flatten().copied();
        targets.any(|target| {
            target == goal || (visited.insert(target) && self.reaches(target, goal, visited))
        })
    }

    /// Keeps a definition as a reference if its inlined form is too large. First measures the definitions that it
    /// refers to, so that inlining is idempotent.
    fn measure(&mut self, name: &'a str, measured: &mut BTreeSet<&'a str>) {
        if self.by_reference.contains(name) || !measured.insert(name) {
            return;
        }
        for target in self.targets.get(name).cloned().unwrap_or_default() {
            self.measure(target, measured);
        }
        if !self.is_small(name) {
            self.by_reference.insert(name);
        }
    }

    /// Returns `true` if the inlined form of a definition is small enough to be inlined itself.
    fn is_small(&self, name: &str) -> bool {
        let (Some(definition), Some(size)) = (self.definitions.get(name), self.sizes.get(name))
        else {
            return false;
        };
        let mut expansion =
            Expansion { kept: BTreeSet::new(), bytes_left: MAX_INLINE_BYTES - size };
        let expanded = self.expanded(definition, &mut expansion);
        expansion.kept.is_subset(&self.by_reference) && nodes(&expanded) <= MAX_INLINE_NODES
    }

    /// Returns a schema with references inlined.
    fn expanded(&self, schema: &Value, expansion: &mut Expansion<'a>) -> Value {
        let mut schema = schema.clone();
        for_each_schema_mut(&mut schema, &mut |map| {
            while let Some((name, definition)) = self.target(map) {
                let size = self.sizes.get(name).filter(|_| !self.by_reference.contains(name));
                let bytes_left = size.and_then(|size| expansion.bytes_left.checked_sub(*size));
                let Some(bytes_left) = bytes_left else {
                    expansion.kept.insert(name);
                    break;
                };
                expansion.bytes_left = bytes_left;
                *map = merged(definition, std::mem::take(map));
            }
        });
        for_each_schema_mut(&mut schema, &mut merge_null);
        schema
    }
}

/// Annotation keywords. If a definition and the schema that refers to it have the same annotation, the value of the
/// referring schema is used.
const ANNOTATIONS: [&str; 6] =
    ["title", "description", "default", "examples", "deprecated", "$comment"];

/// Merges a definition with the other keywords of the schema that refers to it.
fn merged(definition: &Value, mut siblings: Map<String, Value>) -> Map<String, Value> {
    let mut merged = definition.as_object().cloned().unwrap_or_default();
    siblings.shift_remove("$ref");
    let conflicts = |(keyword, value): (&String, &Value)| {
        let is_merged = matches!(keyword.as_str(), "properties" | "required");
        !is_merged
            && !ANNOTATIONS.contains(&keyword.as_str())
            && merged.get(keyword).is_some_and(|existing| existing != value)
    };
    if siblings.iter().any(conflicts) {
        let (annotations, rules): (Map<_, _>, Map<_, _>) =
            siblings.into_iter().partition(|(keyword, _)| ANNOTATIONS.contains(&keyword.as_str()));
        let mut combined = Map::from_iter([("allOf".to_owned(), json!([merged, rules]))]);
        combined.extend(annotations);
        return combined;
    }
    for (keyword, value) in siblings {
        match (merged.get_mut(&keyword), value) {
            (Some(Value::Object(existing)), Value::Object(mut named))
                if keyword == "properties" =>
            {
                // The properties beside the `$ref` come first, because the tag of a tagged union is one of them.
                named.extend(std::mem::take(existing));
                *existing = named;
            }
            (Some(Value::Array(existing)), Value::Array(mut names)) if keyword == "required" => {
                names.extend(
                    existing.drain(..).filter(|name| !names.contains(name)).collect::<Vec<_>>(),
                );
                *existing = names;
            }
            (_, value) => {
                merged.insert(keyword, value);
            }
        }
    }
    merged
}

/// Keywords that would still reject null if `null` were added to the types of the schema.
const LIMITING: [&str; 8] =
    ["const", "oneOf", "anyOf", "allOf", "not", "if", "$ref", "$dynamicRef"];

/// Converts a union of one type and null to a nullable type.
fn merge_null(members: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = members.get("anyOf") else { return };
    let [Value::Object(alternative), null] = alternatives.as_slice() else { return };
    let Some(Value::String(kind)) = alternative.get("type") else { return };
    if *null != json!({"type": "null"})
        || LIMITING.iter().any(|keyword| alternative.contains_key(*keyword))
    {
        return;
    }
    let mut nullable = alternative.clone();
    nullable.insert("type".to_owned(), json!([kind, "null"]));
    if let Some(Value::Array(values)) = nullable.get_mut("enum") {
        values.push(Value::Null);
    }
    nullable.extend(
        members.iter().filter(|(key, _)| *key != "anyOf").map(|(k, v)| (k.clone(), v.clone())),
    );
    *members = nullable;
}

/// Decodes the name in a reference.
fn decoded(reference: &str) -> String {
    let text = percent::decoded(reference).unwrap_or_default();
    text.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_definitions_are_inlined_and_recursive_ones_are_not() {
        let schema = json!({
            "type": "object",
            "properties": {
                "owner": {"$ref": "#/$defs/User", "description": "Whose it is."},
                "tree": {"$ref": "#/$defs/Tree"},
                "page": {"anyOf": [{"$ref": "#/$defs/Page%3CUser%3E"}, {"type": "null"}]},
            },
            "$defs": {
                "User": {"type": "object", "description": "A user.", "properties": {"name": {}}},
                "Tree": {"type": "object", "properties": {
                    "owner": {"$ref": "#/$defs/User"},
                    "branches": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                }},
                "Page<User>": {"type": "array", "items": {"$ref": "#/$defs/User"}},
                "Unused": {},
            },
        });
        insta::assert_json_snapshot!(inline(schema));
    }

    #[test]
    fn a_reference_at_the_root_is_replaced_by_its_definition() {
        let schema = json!({
            "$ref": "#/$defs/Tree",
            "$defs": {"Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        });
        let expected = json!({
            "type": "array", "items": {"$ref": "#/$defs/Tree"},
            "$defs": {"Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        });
        assert_eq!(inline(schema), expected);
    }

    #[test]
    fn keywords_beside_a_reference_are_kept() {
        let tagged = json!({
            "$ref": "#/$defs/Card",
            "type": "object", "properties": {"kind": {"const": "card"}}, "required": ["kind"],
            "$defs": {"Card": {
                "type": "object", "description": "A card.",
                "properties": {"number": {}}, "required": ["number"],
            }},
        });
        let expected = json!({
            "type": "object", "description": "A card.",
            "properties": {"kind": {"const": "card"}, "number": {}},
            "required": ["kind", "number"],
        });
        assert_eq!(inline(tagged), expected);
        let conflicting = json!({
            "$ref": "#/$defs/A", "maximum": 5, "description": "Near.",
            "$defs": {"A": {"maximum": 9, "description": "Far."}},
        });
        let combined = json!({
            "allOf": [{"maximum": 9, "description": "Far."}, {"maximum": 5}], "description": "Near.",
        });
        assert_eq!(inline(conflicting), combined);
    }

    #[test]
    fn a_union_with_null_becomes_a_nullable_type_only_if_null_stays_allowed() {
        let inlined_with_null = |definition: Value| {
            inline(
                json!({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "$defs": {"A": definition}}),
            )
        };
        let nullable = json!({"type": ["string", "null"], "enum": ["a", null]});
        assert_eq!(inlined_with_null(json!({"type": "string", "enum": ["a"]})), nullable);
        for keyword in ["oneOf", "anyOf", "allOf"] {
            let definition = json!({"type": "object", keyword: [{"required": ["a"]}]});
            assert_eq!(
                inlined_with_null(definition.clone()),
                json!({"anyOf": [definition, {"type": "null"}]})
            );
        }
    }

    #[test]
    fn data_that_resembles_a_schema_is_unchanged() {
        let schema_like = json!({
            "anyOf": [{"type": "string"}, {"type": "null"}], "$ref": "#/$defs/A",
        });
        let schema = json!({
            "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"default": schema_like}},
            "$defs": {"A": {"type": "string"}},
        });
        let expected = json!({
            "properties": {"a": {"type": "string"}, "b": {"default": schema_like}},
        });
        assert_eq!(inline(schema), expected);
    }

    #[test]
    fn inlining_of_circular_references_terminates() {
        let schema = json!({
            "$ref": "#/$defs/A",
            "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        });
        assert!(inline(schema)["$defs"].is_object());
    }

    /// Without the limit, the schema with the longer text would become 4 GB large, and the other schema 65 MB.
    #[test]
    fn many_references_to_long_texts_add_bounded_bytes() {
        for length in [1 << 20, MAX_INLINE_BYTES / 2] {
            let text = "a".repeat(length);
            let properties: Map<String, Value> =
                (0..4000).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/Text"}))).collect();
            let schema = json!({
                "properties": properties,
                "$defs": {"Text": {"type": "string", "description": text}},
            });
            let max_bytes = json_bytes(&schema, usize::MAX).unwrap() + MAX_ADDED_BYTES;
            let inlined = inline(schema);
            assert!(json_bytes(&inlined, max_bytes).is_some(), "{length}");
            assert_eq!(inlined["$defs"]["Text"]["description"], text);
        }
    }

    #[test]
    fn a_long_chain_of_definitions_does_not_overflow_the_stack() {
        let level = |n: usize| {
            let next = json!({"$ref": format!("#/$defs/L{}", n + 1)});
            (format!("L{n}"), json!({"type": "object", "properties": {"a": next}}))
        };
        let definitions: Map<String, Value> = (0..1000).map(level).collect();
        let schema = inline(json!({"$ref": "#/$defs/L0", "$defs": definitions}));
        assert!(schema["$defs"].as_object().unwrap().len() > 1);
    }

    /// Each level doubles the size: a schema with 40 inlined levels would not fit into memory.
    #[test]
    fn exponential_definitions_are_not_inlined() {
        let level = |n: u32| {
            let next = json!({"$ref": format!("#/$defs/L{}", n + 1)});
            json!({"type": "object", "properties": {"a": next, "b": next}})
        };
        let definitions: Map<String, Value> = (0..40)
            .map(|n| (format!("L{n}"), level(n)))
            .chain([("L40".to_owned(), json!({}))])
            .collect();
        let schema = inline(json!({"$ref": "#/$defs/L0", "$defs": definitions}));
        let length = schema.to_string().len();
        assert!(length < 100_000, "{length} bytes");
        assert!(schema["$defs"].as_object().unwrap().len() < 20);
        assert_eq!(inline(schema.clone()), schema);
    }
}
