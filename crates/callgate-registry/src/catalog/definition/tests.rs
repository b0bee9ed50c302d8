use callgate::catalog::{Catalog, CatalogBuilder};
use callgate::model::{Finding, Prefix, Types};
use serde_json::json;

use super::*;

fn row() -> MethodRow {
    MethodRow { rpc_method: "m".to_owned(), ..MethodRow::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "columns are optional")]
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn catalog(row: &MethodRow) -> Result<Catalog, DefinitionError> {
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    builder.add(method(row, Requirement::default())?, 0, &Types::default(), []);
    let mut catalog = builder.finish();
    match catalog.take_quarantined().pop() {
        Some(quarantined) => Err(quarantined.reason),
        None => Ok(catalog),
    }
}

fn tool(row: &MethodRow) -> Value {
    let catalog = catalog(row).unwrap_or_else(|error| panic!("{error}"));
    serde_json::from_slice(&catalog.tool(catalog.entries().next().unwrap())).unwrap()
}

fn schema(params: &str) -> Value {
    tool(&MethodRow { params: some(params), ..row() })["inputSchema"].clone()
}

#[test]
fn names_come_from_params_and_types_from_params_types() {
    let festi = MethodRow {
        params: some(r#"["CommitValuesObject[] $commits","string $serviceName","int $idProject"]"#),
        params_types: some(
            r#"["plugin\\Commits\\domain\\model\\CommitValuesObject[]","string","int"]"#,
        ),
        ..row()
    };
    assert_eq!(
        tool(&festi)["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "commits": {"type": "array", "items": {"type": "object"}},
                "serviceName": {"type": "string"},
                "idProject": {"type": "integer"},
            },
            "required": ["commits", "serviceName", "idProject"],
        })
    );
    // Reflection reports only `array`; `params_types` is more specific.
    let typed = MethodRow {
        params: some(r#"["array $ids"]"#),
        params_types: some(r#"["int[]"]"#),
        ..row()
    };
    assert_eq!(
        tool(&typed)["inputSchema"]["properties"]["ids"],
        json!({"type": "array", "items": {"type": "integer"}})
    );
}

#[test]
fn parameters_without_a_name_are_named_by_position() {
    let unnamed = MethodRow { params_types: some(r#"["int","string"]"#), ..row() };
    assert_eq!(tool(&unnamed)["inputSchema"]["required"], json!(["param1", "param2"]));
    assert_eq!(schema(r#"["int","string $named"]"#)["required"], json!(["param1", "named"]));
    let name_only =
        MethodRow { params: some(r#"["idUser"]"#), params_types: some(r#"["int"]"#), ..row() };
    assert_eq!(tool(&name_only)["inputSchema"]["required"], json!(["idUser"]));
}

#[test]
fn defaults_make_parameters_optional() {
    assert_eq!(
        schema(
            r#"["int $idUser","bool $includeDetails = false","?string $q = null",
                "string $sort = 'asc'","int $n = -3","array $f = []","int $c = self::MAX",
                "int ...$ids"]"#
        ),
        json!({
            "type": "object",
            "properties": {
                "idUser": {"type": "integer"},
                "includeDetails": {"type": "boolean", "default": false},
                "q": {"type": ["string", "null"], "default": null},
                "sort": {"type": "string", "default": "asc"},
                "n": {"type": "integer", "default": -3},
                "f": {"type": "object"},
                "c": {"type": "integer"},
                "ids": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["idUser"],
        })
    );
    let with_defaults = MethodRow {
        params: some(r#"["bool $details"]"#),
        defaults: some(r#"{"details":true}"#),
        ..row()
    };
    assert_eq!(
        tool(&with_defaults)["inputSchema"]["properties"]["details"],
        json!({"type": "boolean", "default": true})
    );
}

#[test]
fn an_equals_sign_in_a_literal_type_does_not_begin_a_default() {
    assert_eq!(
        schema(r#"["'='|'<' $op = '='"]"#)["properties"]["op"],
        json!({"type": "string", "enum": ["=", "<"], "default": "="})
    );
}

#[test]
fn params_may_be_objects_with_schema_description_and_default() {
    let params = json!([
        {"name": "page", "schema": {"type": "object", "properties": []}, "optional": true},
        {"name": "id", "type": "int", "description": "The number."},
        {"name": "q", "type": "?string", "default": null},
    ]);
    assert_eq!(
        schema(&params.to_string()),
        json!({
            "type": "object",
            "properties": {
                "page": {"type": "object", "properties": {}},
                "id": {"type": "integer", "description": "The number."},
                "q": {"type": ["string", "null"], "default": null},
            },
            "required": ["id"],
        })
    );
}

#[test]
fn a_response_as_the_first_argument_is_not_a_parameter() {
    for params in [
        r#"["Response $response"]"#,
        r#"["Response &$response"]"#,
        r#"["\\core\\Response $response"]"#,
    ] {
        assert_eq!(schema(params)["properties"], json!({}), "{params}");
    }
    let typed = MethodRow {
        params: some(r#"["$response","int $id"]"#),
        params_types: some(r#"["core\\Response","int"]"#),
        ..row()
    };
    assert_eq!(tool(&typed)["inputSchema"]["required"], json!(["id"]));
    // Only as the first argument.
    assert_eq!(schema(r#"["int $id","Response $r"]"#)["required"], json!(["id", "r"]));
}

#[test]
fn texts_safety_and_annotations_come_from_the_row() {
    let full = MethodRow {
        title: some("Title"),
        description: some("What it does."),
        safety: some("read_only"),
        annotations: some(r#"{"category":"system"}"#),
        return_type: some("int[]"),
        ..row()
    };
    insta::assert_json_snapshot!(tool(&full));
    let empty = MethodRow { annotations: some("[]"), title: some(" "), ..row() };
    assert!(tool(&empty).get("title").is_none());
}

#[test]
fn safety_may_be_a_guess_and_annotations_may_disable_the_check_of_arguments() {
    let guess = MethodRow { safety: some("guessed_read_only"), ..row() };
    assert_eq!(tool(&guess)["annotations"]["readOnlyHint"], true);
    let catalog_of_guess = catalog(&guess).unwrap();
    assert_eq!(catalog_of_guess.entries().next().unwrap().findings(), [Finding::GuessedSafety]);
    let annotations = r#"{"checkArguments": false, "tags": ["a"]}"#;
    let unchecked = MethodRow { annotations: some(annotations), ..row() };
    assert_eq!(
        tool(&unchecked)["annotations"],
        json!({"readOnlyHint": false, "destructiveHint": true, "tags": ["a"]})
    );
    for (invalid, problem) in [
        (
            MethodRow { safety: some("guessed"), ..row() },
            "safety: expected `read_only` or `destructive`, found `guessed`",
        ),
        (
            MethodRow { safety: some("guessed_often"), ..row() },
            "safety: expected `read_only` or `destructive`, found `often`",
        ),
        (
            MethodRow { annotations: some(r#"{"checkArguments": "no"}"#), ..row() },
            "annotations: `checkArguments`: expected a boolean, found `\"no\"`",
        ),
    ] {
        assert_eq!(catalog(&invalid).unwrap_err().to_string(), problem);
    }
}

#[test]
fn schemas_in_the_row_are_used() {
    let with_schemas = MethodRow {
        input_schema: some(r#"{"properties":{"a":{"type":"array"}},"required":["a"]}"#),
        output_schema: some(r#"{"type":"object","title":"T"}"#),
        params: some("ignored"),
        ..row()
    };
    let tool = tool(&with_schemas);
    assert_eq!(
        tool["inputSchema"],
        json!({
            "type": "object",
            "properties": {"a": {"type": "array", "items": {}}},
            "required": ["a"],
        })
    );
    assert_eq!(tool["outputSchema"], json!({"type": "object"}));
}

#[test]
fn sections_are_a_json_list_or_separated_names() {
    let names = |text: &str| (MethodRow { sections: some(text), ..row() }).section_names().unwrap();
    assert_eq!(names(r#"["a","b"]"#), ["a", "b"]);
    assert_eq!(names("a, b c"), ["a", "b", "c"]);
    assert!(names("").is_empty() && names("[]").is_empty());
    for invalid in ["{}", "[1]", ",", " ", "\t", ", ,", ",\t", r#"[""]"#, r#"["a", " "]"#] {
        let row = MethodRow { sections: some(invalid), ..row() };
        assert!(row.section_names().is_err(), "{invalid:?}");
    }
}

#[test]
fn errors_of_invalid_rows_name_the_column_and_the_problem() {
    let rows = [
        MethodRow { rpc_method: String::new(), ..row() },
        MethodRow { params: some("int $a"), ..row() },
        MethodRow { params: some(r#"["self $a"]"#), ..row() },
        MethodRow { params: some(r#"["int $"]"#), ..row() },
        MethodRow { params: some(r#"["int $a","int $a"]"#), ..row() },
        MethodRow { params: some(r#"["int ...$ids","string $name"]"#), ..row() },
        MethodRow { params_types: some(r#"["int["]"#), ..row() },
        MethodRow { params: some(r#"[{"nam":"x"}]"#), ..row() },
        MethodRow { return_type: some("callable"), ..row() },
        MethodRow { safety: some("safe"), ..row() },
        MethodRow { annotations: some(r#"["a"]"#), ..row() },
        MethodRow { annotations: some("{"), ..row() },
        MethodRow { defaults: some("[1]"), params: some(r#"["int $a"]"#), ..row() },
        MethodRow { input_schema: some(r#"{"type":"string"}"#), ..row() },
        MethodRow { output_schema: some("7"), ..row() },
        MethodRow { tool_name: some("no dots."), ..row() },
        MethodRow { unreadable: some("description"), ..row() },
    ];
    let errors: Vec<String> =
        rows.iter().map(|row| catalog(row).unwrap_err().to_string()).collect();
    insta::assert_debug_snapshot!(errors);
    assert!((MethodRow { exposed: some("maybe"), ..row() }).is_exposed().is_err());
}
