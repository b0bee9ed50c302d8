//! Compiles schemas to validators whose run time is linear in the size of the value.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value, json};

use super::UNCHECKED;
use super::walk::{for_each_schema, for_each_schema_mut, references};
use crate::model::method::DefinitionError;

/// Maximum size of a compiled pattern, in bytes. The larger the compiled pattern is, the longer a match takes.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// Compiles a schema. Patterns returned by [`unchecked_patterns`] are left out.
///
/// Keywords such as `not` are left out too if they contain such a pattern, because without the pattern they would
/// reject more values. If the schema has [`UNCHECKED`], the validator accepts all objects.
pub(crate) fn compile(schema: &Value) -> Result<Validator, DefinitionError> {
    if schema.get(UNCHECKED).is_some() {
        return build(&json!({"type": "object"})).map_err(|error| invalid(&error));
    }
    let built = match build(schema) {
        Err(_) if !unchecked_patterns(schema).is_empty() => {
            // Compiling fails if a reference points into a keyword that was left out. In this case, only the type is
            // checked.
            build(&without_unchecked_patterns(schema.clone())).or_else(|_| {
                build(&json!({"type": schema.get("type").unwrap_or(&json!("object"))}))
            })
        }
        built => built,
    };
    built.map_err(|error| invalid(&error))
}

/// Compiles only the properties of a schema. The validator also accepts objects that lack required properties.
pub(crate) fn compile_properties(schema: &Value) -> Result<Validator, DefinitionError> {
    let parts = ["properties", "$defs"].map(|keyword| (keyword, schema.get(keyword)));
    compile(
        &parts.into_iter().filter_map(|(keyword, part)| Some((keyword, part?.clone()))).collect(),
    )
}

/// Returns the patterns that need a backtracking engine (look-around, back-references) or are too large when compiled.
/// These patterns are not checked, because a client could make a match run for seconds.
pub(crate) fn unchecked_patterns(schema: &Value) -> Vec<&str> {
    let mut patterns = Vec::new();
    for_each_schema(schema, &mut |map| patterns.extend(patterns_of(map)));
    patterns.retain(|pattern| is_unchecked(pattern));
    patterns
}

fn build(schema: &Value) -> Result<Validator, jsonschema::ValidationError<'static>> {
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
    jsonschema::draft202012::options().with_pattern_options(patterns).build(schema)
}

fn invalid(error: &jsonschema::ValidationError<'_>) -> DefinitionError {
    let path = error.instance_path().as_str();
    let path = if path.is_empty() { String::new() } else { format!(", at `{path}`") };
    DefinitionError::InvalidSchema(format!("{error}{path}"))
}

fn patterns_of(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let properties = schema.get("patternProperties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str));
    schema.get("pattern").and_then(Value::as_str).into_iter().chain(names)
}

/// Returns `true` for a valid pattern that needs a backtracking engine or is too large when compiled.
fn is_unchecked(pattern: &str) -> bool {
    let schema = json!({"pattern": pattern});
    build(&schema).is_err() && jsonschema::draft202012::new(&schema).is_ok()
}

/// Returns `true` if a schema has an unchecked pattern, or refers to a schema that may have one.
fn may_match_more(schema: &Value) -> bool {
    !unchecked_patterns(schema).is_empty() || !references(schema).is_empty()
}

fn without_unchecked_patterns(mut schema: Value) -> Value {
    for_each_schema_mut(&mut schema, &mut |map| {
        // Without its patterns, a subschema matches more values, so these keywords would reject more values.
        if map.get("not").is_some_and(may_match_more) {
            map.remove("not");
        }
        if ["if", "contains"].iter().any(|it| map.get(*it).is_some_and(may_match_more)) {
            for keyword in ["if", "then", "else", "maxContains"] {
                map.remove(keyword);
            }
        }
        if let Some(choices) = map.get("oneOf").filter(|choices| may_match_more(choices)).cloned() {
            map.remove("oneOf");
            let all = map.entry("allOf").or_insert_with(|| json!([]));
            if let Value::Array(all) = all {
                all.push(json!({"anyOf": choices}));
            }
        }
        map.remove("unevaluatedProperties");
        map.remove("unevaluatedItems");
        if map.get("pattern").and_then(Value::as_str).is_some_and(is_unchecked) {
            map.remove("pattern");
        }
        if let Some(Value::Object(properties)) = map.get_mut("patternProperties") {
            let count = properties.len();
            properties.retain(|pattern, _| !is_unchecked(pattern));
            if properties.len() < count {
                map.remove("additionalProperties");
            }
        }
    });
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_AHEAD: &str = "^(?:(?=.*z).)*$";

    #[test]
    fn a_pattern_with_look_ahead_is_not_checked_and_rejects_nothing() {
        let schema = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "pattern": LOOK_AHEAD, "minLength": 2},
                "not": {"not": {"pattern": LOOK_AHEAD}},
                "one": {"oneOf": [{"type": "string", "pattern": LOOK_AHEAD}, {"type": "string"}]},
                "few": {"contains": {"pattern": LOOK_AHEAD}, "maxContains": 1},
                "kept": {"not": {"const": 7}},
                "names": {"patternProperties": {LOOK_AHEAD: {"type": "integer"}}, "additionalProperties": false},
            },
            "required": ["text"],
        });
        let validator = compile(&schema).unwrap();
        assert_eq!(unchecked_patterns(&schema).len(), 5);
        for valid in [
            json!({"text": "ab"}),
            json!({"text": "ab", "not": "a", "one": "a", "few": ["a", "b"], "names": {"a": "b"}}),
        ] {
            assert!(validator.is_valid(&valid), "{valid}");
        }
        for invalid in [
            json!({}),
            json!({"text": "a"}),
            json!({"text": "ab", "one": 1}),
            json!({"text": "ab", "kept": 7}),
        ] {
            assert!(!validator.is_valid(&invalid), "{invalid}");
        }
    }

    #[test]
    fn a_reference_into_an_unchecked_keyword_does_not_invalidate_the_schema() {
        let schema = json!({
            "type": "object",
            "oneOf": [{"properties": {"a": {"pattern": LOOK_AHEAD}}}],
            "properties": {"b": {"$ref": "#/oneOf/0/properties/a"}},
        });
        let validator = compile(&schema).unwrap();
        assert!(validator.is_valid(&json!({"b": "x"})));
        assert!(!validator.is_valid(&json!([])));
    }

    #[test]
    fn a_pattern_is_checked_by_the_linear_engine() {
        let schema = json!({"pattern": "^(a+)+$"});
        assert!(unchecked_patterns(&schema).is_empty());
        let validator = compile(&schema).unwrap();
        assert!(validator.is_valid(&json!("aaa")));
        assert!(!validator.is_valid(&json!("a".repeat(50_000) + "b")));
    }

    #[test]
    fn a_pattern_that_is_too_large_or_invalid_is_reported() {
        assert_eq!(unchecked_patterns(&json!({"pattern": "(?:[a-z]{1,100}){1,100}"})).len(), 1);
        let error = compile(&json!({"pattern": "("})).unwrap_err();
        assert!(
            error.to_string().contains("pattern") || error.to_string().contains("regex"),
            "{error}"
        );
    }
}
