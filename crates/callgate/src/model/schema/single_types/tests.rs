use proptest::prelude::*;

use super::*;
use crate::model::schema::validator::compile;

fn rewritten(schema: &Value) -> Value {
    single_types(schema).unwrap_or_else(|| schema.clone())
}

#[test]
fn lists_of_types_become_unions_with_the_keywords_of_each_type() {
    let cases = [
        (json!({"type": ["string"]}), json!({"type": "string"})),
        (
            json!({"type": ["integer", "null"], "minimum": 1, "description": "Page.", "default": null}),
            json!({
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                "description": "Page.", "default": null,
            }),
        ),
        (
            json!({"type": ["string", "null"], "enum": ["a", "b", null]}),
            json!({"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}),
        ),
        (
            json!({"type": ["array", "null"], "items": {"type": ["object"]}, "title": "A"}),
            json!({"anyOf": [
                {"type": "array", "items": {"type": "object"}}, {"type": "null"},
            ], "title": "A"}),
        ),
        (json!({"type": ["number", "integer"]}), json!({"type": "number"})),
        (
            json!({"type": ["string", "null"], "const": "a"}),
            json!({"type": "string", "const": "a"}),
        ),
        (json!({"enum": ["a", "b"]}), json!({"type": "string", "enum": ["a", "b"]})),
        (
            json!({"type": ["string", "null"], "oneOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
        ),
        (
            json!({"type": ["object", "null"], "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "allOf": [{"anyOf": [{"type": "object"}, {"type": "null"}]}],
            }),
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(rewritten(&schema).to_string(), expected.to_string(), "{schema}");
    }
}

#[test]
fn a_parameter_without_a_type_begins_with_the_types_that_it_restricts() {
    let schema = json!({"type": "object", "properties": {
        "payload": {"properties": {"a": {"type": "string"}}, "title": "Payload", "unknown": 1},
    }});
    let payload = json!({"anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "string"}, {"type": "number"}, {"type": "boolean"},
        {"type": "array", "items": {}}, {"type": "null"},
    ], "title": "Payload", "unknown": 1});
    assert_eq!(rewritten(&schema)["properties"]["payload"].to_string(), payload.to_string());
    let items = json!({"type": "object", "properties": {"a": {"items": {"type": "string"}}}});
    let first = json!({"type": "array", "items": {"type": "string"}});
    assert_eq!(rewritten(&items)["properties"]["a"]["anyOf"][0], first);
    let condition = json!({"type": "object", "if": {"properties": {"b": {"minimum": 1}}}});
    assert_eq!(single_types(&condition), None);
}

#[test]
fn a_parameter_of_any_type_becomes_a_union_of_all_types() {
    let all = json!([
        {"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "object"},
        {"type": "array", "items": {}}, {"type": "null"},
    ]);
    let schema = json!({"type": "object", "properties": {
        "any": {"description": "Anything."}, "empty": {}, "list": {"type": "array", "items": {}},
        "mixed": {"type": ALL_TYPES, "items": {}},
    }});
    let expected = json!({"type": "object", "properties": {
        "any": {"anyOf": all, "description": "Anything."}, "empty": {"anyOf": all},
        "list": {"type": "array", "items": {}}, "mixed": {"anyOf": all},
    }});
    assert_eq!(rewritten(&schema), expected);
}

#[test]
fn nested_unions_are_flattened_if_the_meaning_does_not_change() {
    let nested = json!({"anyOf": [
        {"type": ["string", "null"], "description": "A name."}, {"type": "null"}, {"type": "integer"},
    ]});
    let flat = json!({
        "anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}],
        "description": "A name.",
    });
    assert_eq!(rewritten(&nested), flat);
    let disjoint = json!({"oneOf": [{"type": ["string", "null"]}, {"type": "integer"}]});
    let flat = json!({"oneOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]});
    assert_eq!(rewritten(&disjoint), flat);
    let overlapping = json!({"oneOf": [{"type": ["string", "null"]}, {"type": "string"}]});
    let kept = json!({"oneOf": [
        {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"},
    ]});
    assert_eq!(rewritten(&overlapping), kept);
}

#[test]
fn schemas_whose_parts_must_not_move_are_not_rewritten() {
    for schema in [
        json!({"type": "object", "properties": {
            "a": {"type": ["array", "null"], "items": {"type": "string"}},
            "b": {"$ref": "#/properties/a/items"},
        }}),
        json!({"type": "object", "properties": {"a": {"type": ["object", "null"], "properties": {
            "shard": {"type": "string", "x-mcp-header": "Shard"},
        }}}}),
        json!({"type": "object", "properties": {"a": {"properties": {
            "shard": {"type": "string", "x-mcp-header": "Shard"},
        }}}}),
        json!({"type": "object", "properties": {"a": {
            "type": "string", "default": {"type": ["a"]}, "x-meta": {"type": ["a"]},
        }}, "dependentRequired": {"type": ["a"]}}),
    ] {
        assert_eq!(single_types(&schema), None, "{schema}");
    }
}

#[test]
fn values_beside_a_union_with_types_are_not_split_by_type() {
    let typed = json!({
        "type": ["number", "array"], "enum": [0, []], "anyOf": [{"type": "number"}],
    });
    let served = json!({"enum": [0, []], "anyOf": [{"type": "number"}]});
    assert_eq!(rewritten(&typed), served);
    assert_eq!(single_types(&served), None);
}

#[test]
fn members_that_became_unions_are_not_rewritten_again() {
    let member = json!({"type": ["string", "object"], "unevaluatedProperties": false});
    let served = rewritten(&json!({"enum": [{}, ""], "anyOf": [member]}));
    assert_eq!(single_types(&served), None, "{served}");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        Just(json!(1.0)),
        Just(json!(1.5)),
        (-2_i64..4).prop_map(Value::from),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::hash_map("[ab]", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_types() -> impl Strategy<Value = Value> {
    let all: &[&str] = &["string", "number", "integer", "boolean", "object", "array", "null"];
    prop_oneof![
        prop::sample::subsequence(all, 1..5).prop_map(|types| json!(types)),
        prop::sample::select(all).prop_map(|kind| json!(kind)),
    ]
}

/// Keywords with values that any schema may have.
fn any_keyword(
    schema: impl Strategy<Value = Value> + Clone + 'static,
) -> impl Strategy<Value = (String, Value)> {
    let list = prop::collection::vec(schema.clone(), 1..4).prop_map(Value::Array);
    let named = prop::collection::hash_map("[ab]", schema.clone(), 0..3)
        .prop_map(|named| Value::Object(named.into_iter().collect()));
    let values = prop::collection::vec(any_value(), 1..4).prop_map(Value::Array);
    let one = |keywords: &'static [&'static str]| prop::sample::select(keywords);
    prop_oneof![
        2 => (one(&["anyOf", "oneOf", "allOf", "prefixItems"]), list),
        3 => (one(&["properties"]), named),
        2 => (one(&["items", "not", "additionalProperties", "contains", "if", "then"]), schema),
        2 => (one(&["enum"]), values),
        1 => (one(&["const", "default"]), any_value()),
        1 => (
            one(&["minLength", "maxLength", "minItems", "maxItems", "maxProperties"]),
            (0..3).prop_map(Value::from),
        ),
        1 => (one(&["minimum", "maximum", "multipleOf"]), (1..3).prop_map(Value::from)),
        1 => (one(&["required"]), Just(json!(["a"]))),
        1 => (one(&["unevaluatedProperties", "unevaluatedItems"]), Just(json!(false))),
        1 => (one(&["description"]), Just(json!("Text."))),
    ]
    .prop_map(|(keyword, value)| (keyword.to_owned(), value))
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => any_types().prop_map(|types| json!({"type": types})),
        1 => Just(json!({})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let keywords = prop::collection::vec(any_keyword(inner), 0..4);
        (prop::option::weighted(0.8, any_types()), keywords).prop_map(|(types, keywords)| {
            let types = types.map(|types| ("type".to_owned(), types));
            Value::Object(types.into_iter().chain(keywords).collect())
        })
    })
}

#[test]
fn a_union_of_unions_is_flattened_completely() {
    let served = rewritten(&json!({"oneOf": [{"anyOf": [{}, {"type": ["number"]}]}]}));
    assert_eq!(single_types(&served), None, "{served}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The rewritten schema allows the same values, and rewriting it again changes nothing.
    #[test]
    fn the_rewritten_schema_accepts_the_same_values(
        schema in any_schema(), values in prop::collection::vec(any_value(), 12),
    ) {
        let served = rewritten(&schema);
        prop_assert_eq!(single_types(&served), None, "{}", served);
        let (original, rewritten) = (compile(&schema).unwrap(), compile(&served).unwrap());
        for value in values {
            prop_assert_eq!(
                original.is_valid(&value), rewritten.is_valid(&value),
                "{} for {} and {}", value, schema, served
            );
        }
    }

    /// No list of types remains, except in schemas with `enum` or `const`.
    #[test]
    fn no_list_of_types_remains(types in any_types(), rest in any_schema()) {
        prop_assume!(!rest.to_string().contains("unevaluatedItems"));
        let schema = json!({"type": types, "properties": {"a": rest}});
        let served = rewritten(&schema);
        let mut lists = Vec::new();
        for_each_schema(&served, &mut |map| {
            if has_type_list(map) && types_of_values(map).is_none() {
                lists.push(map.clone());
            }
        });
        prop_assert!(lists.is_empty(), "{:?} in {} of {}", lists, served, schema);
    }
}
