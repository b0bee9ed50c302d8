use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::catalog::listing::PageLimit;
use crate::model::method::{Method, Param};
use crate::model::types::Types;

fn method(id: &str) -> Method {
    Method::new(id.parse().unwrap()).description("Does it.").safety(Safety::ReadOnly)
}

fn build(methods: impl IntoIterator<Item = Method>) -> Catalog {
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    for method in methods {
        builder.add(method, 0, &Types::default(), []);
    }
    builder.finish()
}

fn tool(catalog: &Catalog, id: &str) -> Value {
    serde_json::from_slice(&catalog.tool(catalog.by_id(id).unwrap())).unwrap()
}

fn findings(catalog: &Catalog, id: &str) -> Vec<String> {
    catalog.by_id(id).unwrap().findings().iter().map(ToString::to_string).collect()
}

#[test]
fn tool_has_the_members_of_its_method() {
    let catalog = build([method("user.get")
        .title("Get user")
        .param(Param::new("id_user", "int".parse().unwrap()).description("The number."))
        .param(Param::new("include_details", "bool".parse().unwrap()).default(json!(false)))
        .returns("array{id: int}".parse().unwrap())]);
    insta::assert_json_snapshot!(tool(&catalog, "user.get"));
}

#[test]
fn undefined_members_are_omitted() {
    let catalog = build([method("cache.rebuild")]);
    assert_eq!(
        std::str::from_utf8(&catalog.tool(catalog.by_id("cache.rebuild").unwrap())).unwrap(),
        r#"{"name":"cache.rebuild","description":"Does it.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true,"destructiveHint":false}}"#
    );
}

#[test]
fn nested_schemas_are_unchanged() {
    let nested =
        json!({"type": "object", "properties": {"limit": {"type": "integer", "minimum": 0}}});
    let catalog =
        build([method("a").param(Param::with_schema("page", nested.clone()).unwrap().optional())]);
    assert_eq!(tool(&catalog, "a")["inputSchema"]["properties"]["page"], nested);
}

#[test]
fn annotations_are_unchanged() {
    let Value::Object(annotations) = json!({"category": "system", "idempotentHint": true}) else {
        panic!()
    };
    let catalog = build([method("a").annotations(annotations)]);
    assert_eq!(
        tool(&catalog, "a")["annotations"],
        json!({
            "readOnlyHint": true, "destructiveHint": false,
            "category": "system", "idempotentHint": true,
        })
    );
}

#[test]
fn both_hints_are_present_and_missing_safety_means_destructive() {
    let bare = Method::new("bare".parse().unwrap());
    let hinted = |id: &str, annotations: Value| {
        let Value::Object(annotations) = annotations else { panic!() };
        Method::new(id.parse().unwrap()).annotations(annotations)
    };
    let catalog = build([
        bare,
        method("destructive").safety(Safety::Destructive),
        hinted("hinted", json!({"readOnlyHint": true})),
        hinted("both", json!({"readOnlyHint": true, "destructiveHint": true})),
        hinted("both_and_declared", json!({"readOnlyHint": true, "destructiveHint": true}))
            .safety(Safety::ReadOnly),
        hinted("conflict", json!({"readOnlyHint": true})).safety(Safety::Destructive),
        hinted("guess", json!({})).guessed_safety(Safety::ReadOnly),
        hinted("corrected", json!({"destructiveHint": true})).guessed_safety(Safety::ReadOnly),
    ]);
    let hints = |id: &str| {
        let annotations = &tool(&catalog, id)["annotations"];
        (annotations["readOnlyHint"] == true, annotations["destructiveHint"] == true)
    };
    assert_eq!(hints("bare"), (false, true));
    assert_eq!(hints("destructive"), (false, true));
    assert_eq!(hints("hinted"), (true, false));
    assert_eq!(hints("both"), (false, true));
    assert_eq!(hints("both_and_declared"), (true, false));
    assert_eq!(hints("conflict"), (false, true));
    assert_eq!(hints("guess"), (true, false));
    assert_eq!(hints("corrected"), (false, true));
    assert_eq!(catalog.by_id("guess").unwrap().findings(), [Finding::GuessedSafety]);
    assert_eq!(catalog.by_id("corrected").unwrap().findings(), []);
    assert_eq!(catalog.by_id("bare").unwrap().findings(), [Finding::MissingSafety]);
    for id in ["both", "both_and_declared", "conflict"] {
        assert_eq!(catalog.by_id(id).unwrap().findings(), [Finding::SafetyConflict], "{id}");
    }
    assert_eq!(catalog.by_id("hinted").unwrap().findings(), []);
}

#[test]
fn unspecific_result_types_have_no_output_schema() {
    for ty in ["array", "mixed", "Unknown", "array[]", "?array", "void", "array{a: mixed}"] {
        let catalog = build([method("a").returns(ty.parse().unwrap())]);
        assert!(tool(&catalog, "a").get("outputSchema").is_none(), "{ty}");
    }
    for ty in ["int", "string[]", "array{a: int}", "?bool", "object"] {
        let catalog = build([method("a").returns(ty.parse().unwrap())]);
        assert!(tool(&catalog, "a").get("outputSchema").is_some(), "{ty}");
    }
}

#[test]
fn unportable_parameter_is_renamed_with_a_finding() {
    let string = || "string".parse().unwrap();
    let catalog = build([method("a")
        .param(Param::new("Transaction hash", string()))
        .param(Param::new("Transaction_hash", string()))
        .param(Param::new("Transaction/hash", string()))]);
    let names: Vec<String> = tool(&catalog, "a")["inputSchema"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(names, ["Transaction_hash_2", "Transaction_hash", "Transaction_hash_3"]);
    assert_eq!(findings(&catalog, "a").len(), 2);
}

#[test]
fn unportable_properties_of_an_input_schema_are_renamed() {
    let schema = json!({
        "properties": {"Transaction hash": {"type": "string"}, "Transaction_hash": {"type": "integer"}},
        "required": ["Transaction hash"],
    });
    let catalog = build([method("a").input_schema(schema).unwrap()]);
    assert_eq!(
        tool(&catalog, "a")["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "Transaction_hash_2": {"type": "string"},
                "Transaction_hash": {"type": "integer"},
            },
            "required": ["Transaction_hash_2"],
        })
    );
    assert_eq!(findings(&catalog, "a").len(), 1);
    let check = catalog.check_schema(catalog.by_id("a").unwrap());
    let input = CompiledInput::compile(&check).unwrap();
    let arguments = r#"{"Transaction_hash_2":"0x1"}"#;
    let arguments: &serde_json::value::RawValue = serde_json::from_str(arguments).unwrap();
    let params = input.params(Some(arguments), ParamStyle::Named).unwrap();
    assert_eq!(params.get(), r#"{"Transaction hash":"0x1"}"#);
}

#[test]
fn findings_are_sentences_with_a_remedy() {
    let long = "x".repeat(62);
    let catalog = build([
        Method::new("list".parse().unwrap()).param(Param::new("a", "Foo\\Bar[]".parse().unwrap())),
        method(&long),
        method("union").input_schema(json!({"anyOf": [{"required": ["a"]}]})).unwrap(),
        method("odd")
            .param(Param::new("n", "int".parse().unwrap()).default(json!("x")))
            .param(Param::with_schema("s", json!({"properties": {"a b": {}}})).unwrap()),
    ]);
    let all: Vec<String> =
        ["list", &long, "union", "odd"].iter().flat_map(|id| findings(&catalog, id)).collect();
    insta::assert_debug_snapshot!(all);
}

#[test]
fn invalid_definitions_are_quarantined_and_valid_definitions_are_served() {
    let int = || "int".parse().unwrap();
    let catalog = build([
        method("good"),
        method("good"),
        method("twice").param(Param::new("a", int())).param(Param::new("a", int())),
        method("control").param(Param::new("a\n", int())),
        method("named").tool_name("no spaces"),
        method("rpc.discover"),
    ]);
    assert_eq!(catalog.len(), 1);
    let reasons: Vec<String> = catalog
        .quarantined()
        .iter()
        .map(|method| format!("{}: {}", method.id, method.reason))
        .collect();
    insta::assert_debug_snapshot!(reasons);
}

#[test]
fn invalid_ids_and_invalid_input_schemas_are_rejected() {
    for id in ["", " a", "a\u{0}b", &"x".repeat(256)] {
        assert!(id.parse::<MethodId>().is_err(), "{id:?}");
    }
    let errors: Vec<String> = [
        json!({"type": "nothing"}),
        json!({"properties": {"a": {"$ref": "https://example.com/schema.json"}}}),
        json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
        json!({"type": "array"}),
    ]
    .into_iter()
    .map(|schema| method("a").input_schema(schema).unwrap_err().to_string())
    .collect();
    assert_eq!(errors.len(), 4);
    assert!(errors[3].contains("must be of type `object`"), "{errors:?}");
}

#[test]
fn methods_are_sorted_and_found_by_id_and_name() {
    let catalog = build(["b.x", "a", "c"].map(method));
    let ids: Vec<&str> = catalog.entries().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["a", "b.x", "c"]);
    assert_eq!(catalog.by_name("b_x").unwrap().id().as_str(), "b.x");
    // A method id is not a tool name, and a tool name is not a method id.
    assert!(catalog.by_name("b.x").is_none());
    assert!(catalog.by_id("b_x").is_none());
}

#[test]
fn a_tool_name_that_reveals_another_method_is_a_finding() {
    let catalog = build(["user.get", "user_get", "other", &"long.".repeat(20)].map(method));
    let has_collision =
        |id| catalog.by_id(id).unwrap().findings().contains(&Finding::NameCollision);
    assert!(has_collision("user.get"));
    assert!(
        !has_collision("user_get")
            && !has_collision("other")
            && !has_collision(&"long.".repeat(20))
    );
    // Without the other method, the name has no hash, unless the name with the hash is stored.
    let stored = catalog.by_id("user.get").unwrap().name().as_str().to_owned();
    let previous = Some(Arc::new(catalog));
    for (name, is_found) in [(None, false), (Some(stored.as_str()), true)] {
        let mut builder = CatalogBuilder::new(Prefix::default(), previous.clone());
        assert!(builder.reuse("user.get", 0, name));
        let catalog = builder.finish();
        let entry = catalog.entries().next().unwrap();
        assert_eq!(entry.findings().contains(&Finding::NameCollision), is_found);
    }
}

#[test]
fn unchanged_methods_are_reused_and_changed_methods_are_rebuilt() {
    let types = Types::default();
    let mut first = CatalogBuilder::new(Prefix::default(), None);
    first.add(method("a").requires("s", Mask::Read), 1, &types, []);
    first.add(method("b").param(Param::new("x", "array".parse().unwrap())), 2, &types, []);
    let first = Arc::new(first.finish());
    let mut second = CatalogBuilder::new("P".parse().unwrap(), Some(Arc::clone(&first)));
    assert!(second.reuse("a", 1, None));
    assert!(!second.reuse("b", 3, None), "another fingerprint");
    assert!(!second.reuse("c", 1, None), "was not there");
    second.add(method("b").title("New"), 3, &types, []);
    second.add(method("0"), 4, &types, []);
    let second = second.finish();
    assert_eq!(tool(&second, "a"), tool(&first, "a"));
    assert_eq!(tool(&second, "b")["title"], "New");
    let a = second.by_id("a").unwrap();
    assert_eq!(a.name().as_str(), "P__a");
    assert_eq!(second.requirement(a), first.requirement(first.by_id("a").unwrap()));
    assert_eq!(second.check_schema(a), first.check_schema(first.by_id("a").unwrap()));
}

#[test]
fn a_page_contains_tools_separated_by_commas() {
    let catalog = build(
        ["a", "b", "c", "d"]
            .map(|id| if id == "b" { method(id).requires("s", Mask::Read) } else { method(id) }),
    );
    let page_of = |grants: &Grants, offset, size| {
        let page = catalog.listing(grants).page(
            &catalog,
            ToolFormat::Rest,
            offset,
            PageLimit { tools: size, bytes: usize::MAX },
        );
        let bytes: Vec<u8> = page.tools.concat();
        let tools: Vec<Value> =
            serde_json::from_str(&format!("[{}]", String::from_utf8(bytes).unwrap())).unwrap();
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect::<String>();
        (names, page.next, page.tools.len())
    };
    let all = Grants::from_iter([("s", Mask::Read)]);
    // Adjacent tools are one slice.
    assert_eq!(page_of(&all, 0, 4), ("abcd".to_owned(), None, 1));
    assert_eq!(page_of(&Grants::default(), 0, 4), ("acd".to_owned(), None, 2));
    assert_eq!(page_of(&Grants::default(), 0, 2), ("ac".to_owned(), Some(2), 2));
    assert_eq!(page_of(&Grants::default(), 2, 2), ("d".to_owned(), None, 1));
    assert_eq!(page_of(&Grants::default(), 9, 2), (String::new(), None, 0));
    assert_eq!(page_of(&Grants::default(), usize::MAX, usize::MAX), (String::new(), None, 0));
}

proptest! {
    #[test]
    fn a_listing_contains_exactly_the_allowed_tools(
        needs in prop::collection::vec((0..3_u8, 1..7_i64), 1..30),
        granted in prop::collection::vec((0..3_u8, 0..7_i64), 0..4),
    ) {
        let methods = needs.iter().enumerate().map(|(index, (section, mask))| {
            method(&format!("m{index:03}"))
                .requires(format!("s{section}"), Mask::required(*mask).unwrap())
        });
        let catalog = build(methods);
        let grants: Grants = granted
            .iter()
            .map(|(section, value)| (format!("s{section}"), Mask::granted(*value)))
            .collect();
        let page = catalog.listing(&grants).page(&catalog, ToolFormat::Rest, 0, PageLimit { tools: 100, bytes: usize::MAX });
        let text = String::from_utf8(page.tools.concat()).unwrap();
        let tools: Vec<Value> = serde_json::from_str(&format!("[{text}]")).unwrap();
        let listed: BTreeSet<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let allowed: BTreeSet<&str> = catalog
            .entries()
            .filter(|entry| catalog.requirement(entry).allows(&grants))
            .map(|entry| entry.id.as_str())
            .collect();
        prop_assert_eq!(listed, allowed);
    }
}

#[test]
fn an_invalid_x_mcp_header_quarantines_only_its_method() {
    let with_header = |id: &str, ty: Value| {
        let schema = json!({"type": ty, "x-mcp-header": "Region"});
        method(id).param(Param::with_schema("region", schema).unwrap())
    };
    let catalog = build([
        with_header("right", json!("string")),
        with_header("wrong", json!(["string", "null"])),
    ]);
    assert_eq!(catalog.len(), 1);
    let headers = &catalog.by_id("right").unwrap().headers;
    assert_eq!(&*headers[0].header, "mcp-param-region");
    let reason = catalog.quarantined()[0].reason.to_string();
    assert!(reason.contains("`x-mcp-header` of `region` needs exactly one type"), "{reason}");
}

#[test]
fn formats_with_equal_bytes_share_memory() {
    let plain = build([method("a"), method("b")]);
    let tools = plain.tool(plain.by_id("a").unwrap()).len() + 1;
    assert_eq!(plain.serialised_bytes(), tools * 2);
    let titled = build([method("a.b").title("A")]);
    let start = |format| titled.arena(format).tool(0).as_ptr();
    assert_ne!(start(ToolFormat::Rest), start(ToolFormat::Plain));
    assert_ne!(start(ToolFormat::Plain), start(ToolFormat::ObjectOutput));
    assert_eq!(start(ToolFormat::ObjectOutput), start(ToolFormat::AnyOutput));
}

#[test]
fn an_output_schema_other_than_an_object_is_wrapped_with_its_definitions() {
    let wrapped = |schema: Value| {
        let catalog = build([method("a").output_schema(schema).unwrap()]);
        let tool = catalog.arena(ToolFormat::ObjectOutput).tool(0);
        let tool: Value = serde_json::from_slice(&tool).unwrap();
        tool.get("outputSchema").cloned()
    };
    assert_eq!(
        wrapped(json!({"type": "array", "items": {"$ref": "#/$defs/Item"},
            "$defs": {"Item": {"type": "string"}}})),
        Some(json!({
            "type": "object",
            "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/Item"}}},
            "required": ["result"],
            "$defs": {"Item": {"type": "string"}},
        }))
    );
    let object = json!({"properties": {}, "type": "object"});
    assert_eq!(wrapped(object.clone()), Some(object));
    // A schema with a reference to its root cannot be wrapped, so the tool has no output schema.
    assert_eq!(wrapped(json!({"type": "array", "items": {"$ref": "#"}})), None);
}
