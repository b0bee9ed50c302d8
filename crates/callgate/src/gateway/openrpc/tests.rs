use serde_json::{Value, json};

use super::*;
use crate::access::Grants;
use crate::catalog::CatalogBuilder;
use crate::model::ClassName;
use crate::model::method::{Method, Param, Safety};
use crate::model::tool_name::Prefix;
use crate::model::types::{TypeDefinition, TypeField, Types};

fn method(id: &str) -> Method {
    Method::new(id.parse().unwrap()).safety(Safety::ReadOnly)
}

/// Returns the document of methods that are open to everybody.
fn document_of(methods: impl IntoIterator<Item = Method>, types: &Types) -> Value {
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    for method in methods {
        builder.add(method, 0, types, []);
    }
    let catalog = builder.finish();
    let listing = catalog.listing(&Grants::default());
    let bytes = document(&Settings::default(), &catalog, &listing).unwrap();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    assert_references_resolve(&document);
    document
}

/// Checks that the target of each reference exists in the document and compiles as a schema.
fn assert_references_resolve(document: &Value) {
    let parts = ["/methods", "/components/schemas"].map(|at| document.pointer(at));
    let mut references = Vec::new();
    parts.into_iter().flatten().for_each(|part| collect_references(part, &mut references));
    for reference in references {
        let pointer = reference.strip_prefix("#").unwrap();
        assert!(
            document.pointer(pointer).is_some_and(|it| !it.is_null()),
            "{reference}: {document}"
        );
        let mut root = document.clone();
        root["$ref"] = json!(reference);
        jsonschema::draft202012::new(&root).unwrap();
    }
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            let schemas = map.iter().filter(|(keyword, _)| *keyword != "const");
            schemas.for_each(|(_, value)| collect_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

fn node_types(fields: &[(&str, &str)]) -> Types {
    let field = |(name, ty): &(&str, &str)| TypeField {
        name: (*name).to_owned(),
        ty: ty.parse().unwrap(),
        description: String::new(),
        required: true,
    };
    let fields = fields.iter().map(field).collect();
    let (types, rejected) =
        Types::new([(ClassName::parse("Node").unwrap(), TypeDefinition::Fields(fields))]);
    assert!(rejected.is_empty());
    types
}

#[test]
fn first_paragraph_is_the_summary() {
    let summary_of = |text: &str| {
        let document = document_of([method("a").description(text)], &Types::default());
        let method = &document["methods"][0];
        (method.get("summary").cloned(), method.get("description").cloned())
    };
    assert_eq!(summary_of(""), (None, None));
    assert_eq!(summary_of("Does it.\n"), (Some(json!("Does it.")), None));
    assert_eq!(summary_of("Does\nit."), (Some(json!("Does it.")), None));
    let long = "Does it.\n \nSlowly.";
    assert_eq!(summary_of(long), (Some(json!("Does it.")), Some(json!(long))));
    let windows = "Does it.\r\n\r\nSlowly.";
    assert_eq!(summary_of(windows), (Some(json!("Does it.")), Some(json!(windows))));
}

#[test]
fn a_recursive_class_is_defined_once_for_all_methods() {
    let types = node_types(&[("children", "Node[]")]);
    let node_param = Param::new("node", "Node".parse().unwrap()).description("The first.");
    let methods = [
        method("a").param(node_param.clone()).returns("Node[]".parse().unwrap()),
        method("b").param(node_param),
    ];
    insta::assert_json_snapshot!(document_of(methods, &types));
}

#[test]
fn definitions_with_the_same_name_are_numbered_if_they_or_their_references_differ() {
    let with = |leaf: &str| {
        json!({
            "properties": {"tree": {"$ref": "#/$defs/Tree"}},
            "$defs": {
                "Tree": {"properties": {"leaf": {"$ref": "#/$defs/Leaf"}}},
                "Leaf": {"type": leaf},
                "Unused": {},
            },
        })
    };
    let methods = [("a", "string"), ("b", "integer"), ("c", "string")]
        .map(|(id, leaf)| method(id).input_schema(with(leaf)).unwrap());
    let document = document_of(methods, &Types::default());
    let tree = |number: usize| &document["methods"][number]["params"][0]["schema"]["$ref"];
    assert_eq!(tree(0), "#/components/schemas/Tree");
    assert_eq!(tree(1), "#/components/schemas/Tree_2");
    assert_eq!(tree(2), tree(0));
    assert_eq!(
        document["components"]["schemas"],
        json!({
            "Leaf": {"type": "string"},
            "Leaf_2": {"type": "integer"},
            "Tree": {"properties": {"leaf": {"$ref": "#/components/schemas/Leaf"}}},
            "Tree_2": {"properties": {"leaf": {"$ref": "#/components/schemas/Leaf_2"}}},
        })
    );
}

#[test]
fn references_of_every_form_are_moved() {
    let schema = json!({
        "properties": {
            "odd": {"$ref": "#/$defs/a~1b%20c"},
            "old": {"$ref": "#/definitions/Old/properties/x"},
            "other": {"$ref": "#/properties/odd"},
            "all": {"type": "array", "items": {"$ref": "#"}},
        },
        "$defs": {"a/b c": {"type": "string"}},
        "definitions": {"Old": {"properties": {"x": {"type": "integer"}}}},
    });
    let document = document_of([method("a").input_schema(schema).unwrap()], &Types::default());
    let schemas: Vec<&Value> = document["methods"][0]["params"]
        .as_array()
        .unwrap()
        .iter()
        .map(|param| &param["schema"])
        .collect();
    assert_eq!(
        schemas,
        [
            &json!({"$ref": "#/components/schemas/a_b_c"}),
            &json!({"$ref": "#/components/schemas/Old/properties/x"}),
            &json!({"$ref": "#/components/schemas/a.params/properties/odd"}),
            &json!({"type": "array", "items": {"$ref": "#/components/schemas/a.params"}}),
        ]
    );
}

#[test]
fn the_keyword_dollar_id_is_removed_from_the_root_of_a_schema() {
    let schema = json!({
        "$id": "urn:example:node",
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "value": {"$ref": "#/$defs/Value"}},
        "$defs": {"Value": {"type": "string"}},
    });
    let method = method("a").output_schema(schema).unwrap();
    let document = document_of([method], &Types::default());
    let moved = json!({
        "type": "object",
        "properties": {
            "next": {"$ref": "#/components/schemas/a.result"},
            "value": {"$ref": "#/components/schemas/Value"},
        },
    });
    assert_eq!(document["methods"][0]["result"]["schema"], moved);
    assert_eq!(
        document["components"]["schemas"],
        json!({"Value": {"type": "string"}, "a.result": moved})
    );
}

#[test]
fn schemas_that_cannot_be_moved_allow_any_value_and_data_is_not_a_reference() {
    let schema = json!({
        "properties": {
            "anchored": {"oneOf": [{"$ref": "#here"}, {"$ref": "#/$defs/Fine"}], "description": "It."},
            "based": {"$id": "urn:x", "$ref": "#/$defs/Own", "$defs": {"Own": {}}},
            "data": {"const": {"$ref": "#/$defs/Nothing"}},
            "default": {"$ref": "#/$defs/Fine"},
        },
        "$defs": {"Here": {"$anchor": "here"}, "Fine": {"type": "integer"}},
    });
    let mut document = document_of([method("a").input_schema(schema).unwrap()], &Types::default());
    let params = document["methods"][0]["params"].take();
    assert_eq!(
        params,
        json!([
            {"name": "anchored", "description": "It.", "required": false, "schema": {}},
            {"name": "based", "required": false, "schema": {}},
            {"name": "data", "required": false, "schema": {"const": {"$ref": "#/$defs/Nothing"}}},
            {"name": "default", "required": false, "schema": {"$ref": "#/components/schemas/Fine"}},
        ])
    );
}

#[test]
fn the_properties_of_an_input_schema_become_parameters() {
    let schema = json!({
        "properties": {"b": {"type": "string"}, "a": {}},
        "required": ["b"],
        "anyOf": [{"required": ["a"]}, {"required": ["c"]}],
        "additionalProperties": {"type": "string"},
    });
    let document = document_of([method("m").input_schema(schema).unwrap()], &Types::default());
    assert_eq!(
        document["methods"][0]["params"],
        json!([
            {"name": "b", "required": true, "schema": {"type": "string"}},
            {"name": "a", "required": false, "schema": {}},
        ])
    );
    assert!(document.get("components").is_none());
}

#[test]
fn param_structure_is_by_name_if_an_optional_parameter_is_first_or_one_is_variadic() {
    let int = || "int".parse().unwrap();
    let methods = [
        method("a").param(Param::new("x", int()).optional()).param(Param::new("y", int())),
        method("b").param(Param::new("x", int())).param(Param::new("y", int()).optional()),
        method("c").param(Param::new("x", "int[]".parse().unwrap()).variadic()),
    ];
    let document = document_of(methods, &Types::default());
    let names = |number: usize| {
        let method = &document["methods"][number];
        let params = method["params"].as_array().unwrap().iter();
        let names: Vec<&str> = params.map(|param| param["name"].as_str().unwrap()).collect();
        (names.join(" "), method["paramStructure"].as_str().unwrap().to_owned())
    };
    assert_eq!(names(0), ("y x".to_owned(), "by-name".to_owned()));
    assert_eq!(names(1), ("x y".to_owned(), "either".to_owned()));
    assert_eq!(names(2), ("x".to_owned(), "by-name".to_owned()), "its items are parameters");
}

#[test]
fn a_long_chain_of_definitions_is_moved_completely() {
    let definitions: serde_json::Map<String, Value> = (0..300)
        .map(|n| (format!("D{n}"), json!({"$ref": format!("#/$defs/D{}", n + 1)})))
        .chain([("D300".to_owned(), json!({"type": "string"}))])
        .collect();
    let schema = json!({"$ref": "#/$defs/D0", "$defs": definitions});
    let mut components = Components::default();
    let moved_schema = components.result(&SourceSchema::new("a.result".to_owned(), schema));
    assert_eq!(moved_schema, json!({"$ref": "#/components/schemas/D0"}));
    let schemas = components.finish().unwrap();
    assert_eq!(schemas.len(), 301);
    assert_eq!(schemas["D299"], json!({"$ref": "#/components/schemas/D300"}));
}

#[test]
fn reserved_rpc_methods_are_not_in_the_document() {
    let document = document_of([method("rpc.discover"), method("rpcs")], &Types::default());
    assert_eq!(document["methods"].as_array().unwrap().len(), 1);
    assert_eq!(document["methods"][0]["name"], "rpcs");
}

#[test]
fn a_document_over_its_limits_is_an_error_that_names_the_list_endpoint() {
    assert_eq!(check_limits(MAX_METHODS, MAX_BYTES), Ok(()));
    let errors = [
        check_limits(MAX_METHODS + 1, 0).unwrap_err().to_string(),
        check_limits(1, MAX_BYTES + 1).unwrap_err().to_string(),
    ];
    insta::assert_debug_snapshot!(errors, @r#"
    [
        "10001 methods exceed the limit of 10000 per document; use GET /mcp/tools/list",
        "16777217 bytes of tools exceed the limit of 16777216 per document; use GET /mcp/tools/list",
    ]
    "#);
}

/// If the document contained a guessed safety, a server that imports the document would repeat failed calls.
#[test]
fn a_guessed_safety_is_not_in_the_document() {
    let guess = Method::new("b".parse().unwrap()).guessed_safety(Safety::ReadOnly);
    let document = document_of([method("a"), guess], &Types::default());
    let annotations = |index: usize| document["methods"][index]["x-annotations"].clone();
    assert_eq!(annotations(0), json!({"readOnlyHint": true, "destructiveHint": false}));
    assert_eq!(annotations(1), json!({}));
}
