use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::of_type_expr::Writer;
use super::*;
use crate::model::method::{DefinitionError, Method, Param};
use crate::model::tool;
use crate::model::type_expr::{ClassName, TypeExpr};
use crate::model::types::{MAX_INLINE_BYTES, TypeDefinition, TypeField, Types};

fn schema_of(text: &str, types: &Types) -> Value {
    let ty: TypeExpr = text.parse().unwrap();
    types.schema_of(&ty)
}

fn schema(text: &str) -> Value {
    schema_of(text, &Types::default())
}

fn class(name: &str) -> ClassName {
    ClassName::parse(name).unwrap()
}

fn field(name: &str, ty: &str) -> TypeField {
    TypeField {
        name: name.to_owned(),
        ty: ty.parse().unwrap(),
        description: String::new(),
        required: true,
    }
}

fn types(definitions: Vec<(&str, TypeDefinition)>) -> Types {
    let (types, rejected) =
        Types::new(definitions.into_iter().map(|(name, definition)| (class(name), definition)));
    assert!(rejected.is_empty(), "{rejected:?}");
    types
}

#[test]
fn scalar_types_have_schemas() {
    assert_eq!(schema("int"), json!({"type": "integer"}));
    assert_eq!(schema("float"), json!({"type": "number"}));
    assert_eq!(schema("string"), json!({"type": "string"}));
    assert_eq!(schema("bool"), json!({"type": "boolean"}));
    assert_eq!(schema("int<0, 10>"), json!({"type": "integer", "minimum": 0, "maximum": 10}));
}

#[test]
fn array_is_advertised_as_an_object_and_accepts_a_list() {
    assert_eq!(schema("array"), json!({"type": "object"}));
    let types = Types::default();
    let check = Writer { types: &types, purpose: Purpose::Check }.schema(&TypeExpr::Array);
    assert_eq!(check.to_string(), r#"{"type":["object","array"]}"#);
}

#[test]
fn lists_of_scalars_have_items() {
    for (text, item) in
        [("int[]", "integer"), ("string[]", "string"), ("float[]", "number"), ("bool[]", "boolean")]
    {
        assert_eq!(schema(text), json!({"type": "array", "items": {"type": item}}), "{text}");
    }
    assert_eq!(
        schema("int[][]"),
        json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}})
    );
    assert_eq!(
        schema("array<string, int>"),
        json!({"type": "object", "additionalProperties": {"type": "integer"}})
    );
}

#[test]
fn class_has_exactly_its_defined_properties() {
    let types = types(vec![(
        "UserRequest",
        TypeDefinition::Fields(vec![
            field("userId", "int"),
            TypeField {
                required: false,
                description: "Also e-mail.".to_owned(),
                ..field("includeDetails", "bool")
            },
        ]),
    )]);
    let expected = json!({
        "type": "object",
        "properties": {
            "userId": {"type": "integer"},
            "includeDetails": {"type": "boolean", "description": "Also e-mail."},
        },
        "required": ["userId"],
    });
    assert_eq!(schema_of("UserRequest", &types), expected);
    // A definition without a namespace applies to the class with a namespace.
    assert_eq!(schema_of("plugin\\Users\\UserRequest", &types), expected);
}

#[test]
fn lists_of_classes_have_the_class_as_items() {
    let types = types(vec![(
        "plugin\\Commits\\Commit",
        TypeDefinition::Fields(vec![field("hash", "string")]),
    )]);
    assert_eq!(
        schema_of("\\plugin\\Commits\\Commit[]", &types),
        json!({"type": "array", "items": {
            "type": "object",
            "properties": {"hash": {"type": "string"}},
            "required": ["hash"],
        }})
    );
}

#[test]
fn an_undefined_class_is_an_open_object() {
    assert_eq!(schema("Nowhere\\Defined"), json!({"type": "object"}));
    assert_eq!(schema("?Nowhere"), json!({"type": ["object", "null"]}));
}

#[test]
fn unions_advertise_all_members_and_overlapping_ones_as_any_of() {
    assert_eq!(schema("int|string"), json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}));
    assert_eq!(schema("int|float"), json!({"anyOf": [{"type": "integer"}, {"type": "number"}]}));
    assert_eq!(
        schema("int|string|null"),
        json!({"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]})
    );
    assert_eq!(schema("'asc'|'desc'"), json!({"type": "string", "enum": ["asc", "desc"]}));
    assert_eq!(
        schema("?('asc'|'desc')"),
        json!({"type": ["string", "null"], "enum": ["asc", "desc", null]})
    );
    assert_eq!(
        schema("int|'auto'"),
        json!({"oneOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer"}]})
    );
    assert_eq!(
        schema("string|'auto'"),
        json!({"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "string"}]})
    );
    assert_eq!(
        schema("(int|string)[]"),
        json!({"type": "array", "items": {"oneOf": [{"type": "integer"}, {"type": "string"}]}})
    );
}

#[test]
fn nullable_types_include_null() {
    assert_eq!(schema("?string"), json!({"type": ["string", "null"]}));
    assert_eq!(schema("string|null"), json!({"type": ["string", "null"]}));
    assert_eq!(schema("bool|null"), json!({"type": ["boolean", "null"]}));
    assert_eq!(schema("?T[]"), json!({"type": ["array", "null"], "items": {"type": "object"}}));
}

#[test]
fn mixed_includes_all_six_types() {
    assert_eq!(
        schema("mixed"),
        json!({"type": ["string", "number", "boolean", "object", "array", "null"], "items": {}})
    );
}

#[test]
fn shapes_become_objects_and_tuples_become_arrays() {
    assert_eq!(
        schema("array{id: int, name?: string}"),
        json!({
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["id"],
        })
    );
    assert_eq!(
        schema("array{int, string}"),
        json!({
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": {},
            "minItems": 2,
            "maxItems": 2,
        })
    );
    assert_eq!(schema("array{}"), json!({"type": "object", "properties": {}}));
}

#[test]
fn a_recursive_class_is_kept_under_defs_and_a_nested_one_is_inlined() {
    let types = types(vec![
        ("Tree", TypeDefinition::Fields(vec![field("label", "Label"), field("nodes", "Tree[]")])),
        ("Label", TypeDefinition::Fields(vec![field("text", "string")])),
    ]);
    let label = json!({
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
    });
    let expected = json!({
        "anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}],
        "$defs": {"Tree": {
            "type": "object",
            "properties": {
                "label": label,
                "nodes": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["label", "nodes"],
        }},
    });
    assert_eq!(schema_of("?Tree", &types), expected);
    let validator = jsonschema::draft202012::new(&expected).unwrap();
    let tree = json!({"label": {"text": "a"}, "nodes": [{"label": {"text": "b"}, "nodes": []}]});
    assert!(validator.is_valid(&tree));
    assert!(!validator.is_valid(&json!({"label": {"text": "a"}, "nodes": [{}]})));
}

#[test]
fn classes_that_would_grow_exponentially_are_not_inlined() {
    // Each class refers to the next one twice. Inlined, this would be 2^30 nodes.
    let definitions = (0..30).map(|n| {
        let next = format!("C{}", n + 1);
        (
            class(&format!("C{n}")),
            TypeDefinition::Fields(vec![field("a", &next), field("b", &next)]),
        )
    });
    let (types, _) = Types::new(definitions);
    let schema = types.schema_of(&TypeExpr::Class(class("C0")));
    let length = schema.to_string().len();
    assert!(length < 100_000, "{length}");
    jsonschema::draft202012::new(&schema).unwrap();
}

#[test]
fn a_long_chain_of_classes_does_not_overflow_the_stack() {
    let chain = (0..2_000).map(|n| {
        let next = format!("C{}", n + 1);
        (class(&format!("C{n}")), TypeDefinition::Fields(vec![field("next", &next)]))
    });
    let (types, _) = Types::new(chain);
    let ty = TypeExpr::Class(class("C1990"));
    assert!(types.schema_of(&ty).to_string().len() < 10_000);
    let first = TypeExpr::Class(class("C0"));
    assert_eq!(types.undefined_in(&first), [class("C2000")].into());
}

#[test]
fn a_class_schema_can_refer_to_its_definitions_and_to_other_classes() {
    let types = types(vec![
        (
            "Order",
            TypeDefinition::Schema(json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
                    "buyer": {"$ref": "#/$defs/Person"},
                    "replaces": {"$ref": "#"},
                },
                "$defs": {"line": {"type": "object", "properties": []}},
            })),
        ),
        ("Person", TypeDefinition::Fields(vec![field("name", "string")])),
    ]);
    let schema = schema_of("Order[]", &types);
    insta::assert_json_snapshot!(schema);
    jsonschema::draft202012::new(&schema).unwrap();
}

#[test]
fn a_ref_in_data_is_not_a_reference() {
    let data = json!({"$ref": "https://example.com/x.json"});
    let types = types(vec![(
        "Link",
        TypeDefinition::Schema(json!({
            "type": "object",
            "properties": {
                "default": {"type": "object", "default": data},
                "choice": {"enum": [data], "examples": [data]},
                "fixed": {"const": data},
            },
        })),
    )]);
    let schema = schema_of("Link", &types);
    assert_eq!(schema["properties"]["default"]["default"], data);
    assert_eq!(schema["properties"]["choice"], json!({"enum": [data], "examples": [data]}));
    assert_eq!(schema["properties"]["fixed"], json!({"const": data}));
    let param = Param::with_schema("link", json!({"type": "object", "examples": [data]}));
    assert!(param.is_ok());
}

#[test]
fn a_class_with_an_invalid_schema_is_rejected_and_valid_classes_are_kept() {
    let (types, rejected) = Types::new([
        (class("Bad"), TypeDefinition::Schema(json!({"$ref": "https://example.com/x.json"}))),
        (class("Worse"), TypeDefinition::Schema(json!(3))),
        (class("Good"), TypeDefinition::Fields(vec![field("a", "int")])),
    ]);
    let reasons: Vec<String> =
        rejected.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    insta::assert_debug_snapshot!(reasons);
    assert_eq!(schema_of("Bad", &types), json!({"type": "object"}));
    assert!(schema_of("Good", &types).get("properties").is_some());
}

#[test]
fn classes_that_refer_to_a_rejected_class_are_rejected() {
    let (types, rejected) = Types::new([
        (class("A"), TypeDefinition::Schema(json!({"$ref": "#/$defs/B"}))),
        (class("B"), TypeDefinition::Schema(json!({"type": "nonsense"}))),
        (class("C"), TypeDefinition::Fields(vec![field("a", "int"), field("a", "int")])),
        (class("D"), TypeDefinition::Fields(vec![field("", "int")])),
    ]);
    let names: Vec<&str> = rejected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["C", "D", "B", "A"]);
    assert_eq!(schema_of("A", &types), json!({"type": "object"}));
}

#[test]
fn keys_in_defs_are_unique_and_valid_in_a_uri() {
    let types = types(vec![
        ("Größe", TypeDefinition::Fields(vec![field("of", "?Größe"), field("n", "int")])),
        (
            "Order",
            TypeDefinition::Schema(json!({
                "type": "object",
                "properties": {"i": {"$ref": "#/$defs/Item"}},
                "$defs": {"Item": {"type": "string"}},
            })),
        ),
        ("Order\\Item", TypeDefinition::Fields(vec![field("of", "?Order\\Item")])),
    ]);
    let recursive = schema_of("Größe", &types);
    let validator = jsonschema::draft202012::new(&recursive).unwrap();
    assert!(validator.is_valid(&json!({"n": 1, "of": {"n": 2, "of": null}})));
    assert!(!validator.is_valid(&json!({"n": 1, "of": {"n": "x", "of": null}})));
    let order = schema_of("array{o: Order, i: Order\\Item}", &types);
    let validator = jsonschema::draft202012::new(&order).unwrap();
    assert!(validator.is_valid(&json!({"o": {"i": "text"}, "i": {"of": null}})));
}

#[test]
fn many_classes_that_refer_to_each_other_are_loaded() {
    let definitions = (0..400).map(|n| {
        let properties: Map<String, Value> = (1..6)
            .map(|k| (format!("p{k}"), json!({"$ref": format!("#/$defs/C{}", (n * k + 1) % 400)})))
            .collect();
        let schema = json!({"type": "object", "properties": properties});
        (class(&format!("C{n}")), TypeDefinition::Schema(schema))
    });
    let (types, rejected) = Types::new(definitions);
    assert!(rejected.is_empty());
    assert!(schema_of("C7", &types)["$defs"].as_object().unwrap().len() > 1);
}

/// If the classes were inlined, the largest schema would take over 60 MB.
#[test]
fn the_size_of_classes_with_long_descriptions_is_bounded() {
    let long = |length| vec![TypeField { description: "a".repeat(length), ..field("a", "string") }];
    let wide = (0..150).map(|n| field(&format!("f{n}"), "Half")).collect();
    let (types, _) = Types::new([
        (class("Half"), TypeDefinition::Fields(long(MAX_INLINE_BYTES / 2))),
        (class("Wide"), TypeDefinition::Fields(wide)),
        (class("Long"), TypeDefinition::Fields(long(1 << 20))),
    ]);
    let write = |class: &str, count: usize| {
        let mut method = Method::new("a".parse().unwrap());
        for n in 0..count {
            method = method.param(Param::new(format!("p{n}"), class.parse().unwrap()));
        }
        tool::write(&method, &types).map(|tool| tool.bytes.len())
    };
    assert!(write("Half", 10).unwrap() < 10 * MAX_INLINE_BYTES);
    for (class, count) in [("Half", 4000), ("Wide", 1), ("Long", 1), ("array{a: Half, b: Long}", 1)]
    {
        let error = write(class, count).unwrap_err();
        assert!(matches!(error, DefinitionError::ClassesTooLarge(_)), "{class}: {error}");
        let returning = Method::new("a".parse().unwrap()).returns("Long".parse().unwrap());
        assert!(tool::write(&returning, &types).is_err());
    }
}

#[test]
fn defaults_match_the_advertised_types() {
    let types = Types::default();
    let advertised = |param: &Param| {
        let schema = types.input_schema(std::slice::from_ref(param), Purpose::Advertise);
        schema["properties"]["x"].clone()
    };
    let param = |ty: &str, default| Param::new("x", ty.parse().unwrap()).default(default);
    // PHP's implicit null, and PHP's notation of an empty map.
    let null = advertised(&param("string", json!(null)));
    assert_eq!(null, json!({"type": ["string", "null"], "default": null}));
    assert_eq!(advertised(&param("array", json!([]))), json!({"type": "object"}));
    let param_with_default =
        Param::with_schema("x", json!({"type": "integer", "default": 5})).unwrap();
    assert!(!param_with_default.is_required());
    assert_eq!(advertised(&param_with_default), json!({"type": "integer", "default": 5}));
}

#[test]
fn foreign_schemas_are_normalised() {
    let (check, advertised) = normalise::input(json!({
        "$schema": "x",
        "title": "T",
        "type": "object",
        "properties": {
            "z": {"type": "integer", "format": "int64"},
            "a": true,
            "list": {"type": "array"},
            "empty": {"type": "object", "properties": []},
            "when": {"type": "string", "format": "date-time"},
        },
        "required": {},
    }))
    .unwrap();
    assert!(advertised.is_none());
    assert_eq!(
        check.to_string(),
        r#"{"type":"object","properties":{"z":{"type":"integer"},"a":{},"list":{"type":"array","items":{}},"empty":{"type":"object","properties":{}},"when":{"type":"string","format":"date-time"}}}"#
    );
}

#[test]
fn root_unions_are_checked_but_not_advertised() {
    let (check, advertised) = normalise::input(json!({
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
    }))
    .unwrap();
    assert_eq!(check["type"], "object");
    assert!(check.get("oneOf").is_some());
    let advertised = advertised.unwrap();
    assert!(advertised.get("oneOf").is_none());
    assert_eq!(advertised["properties"], check["properties"]);
}

#[test]
fn invalid_input_schemas_are_rejected() {
    for schema in
        [json!(3), json!([1]), json!({"type": "array"}), json!({"type": ["object", "null"]})]
    {
        assert!(normalise::input(schema.clone()).is_err(), "{schema}");
    }
    let deep = (0..200).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    assert!(normalise::input(deep).is_err());
}

fn any_type() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "int", "float", "string", "bool", "mixed", "array", "object", "Foo", "'a'", "3", "true",
        "?int",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|ty| format!("({ty})[]")),
            inner.clone().prop_map(|ty| format!("array<string, {ty}>")),
            inner.clone().prop_map(|ty| format!("array{{a: {ty}, b?: {ty}}}")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a})|({b})")),
        ]
    })
}

proptest! {
    #[test]
    fn every_type_has_a_valid_deterministic_schema_without_ref(text in any_type()) {
        let schema = schema(&text);
        prop_assert!(jsonschema::meta::is_valid(&schema), "{schema}");
        let written = schema.to_string();
        prop_assert!(!written.contains("$ref"));
        prop_assert_eq!(
            schema_of(&text, &Types::default()).to_string(),
            written,
            "not the same twice"
        );
    }
}
