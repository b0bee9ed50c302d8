use serde_json::{Value, json};

use super::*;

/// Returns the problems of a tool with this input schema, as `level clients code: message`.
fn lint_schema(schema: &Value) -> Vec<String> {
    lint_tool(&json!({"name": "pet_get", "description": "A pet.", "inputSchema": schema}))
}

fn lint_tool(tool: &Value) -> Vec<String> {
    let bytes = serde_json::to_vec(tool).unwrap();
    let problems = check_tool("pet.get", &bytes, &LintOptions::default());
    let line = |problem: &Problem| {
        format!(
            "{} {} {}: {}",
            problem.level,
            problem.clients.join("+"),
            problem.code,
            problem.message
        )
    };
    problems.iter().map(line).collect()
}

#[test]
fn a_simple_tool_has_no_problems() {
    let id = json!({"type": "integer", "description": "Which."});
    assert_eq!(
        lint_schema(&json!({"type": "object", "properties": {"id": id}})),
        Vec::<String>::new()
    );
}

#[test]
fn tool_names_that_clients_reject_are_errors() {
    let lint_name = |name: &str| {
        let schema = json!({"type": "object", "properties": {}});
        lint_tool(&json!({"name": name, "description": "A pet.", "inputSchema": schema}))
    };
    insta::assert_debug_snapshot!(lint_name("pet.get"));
    insta::assert_debug_snapshot!(lint_name("2fa_check"));
    insta::assert_debug_snapshot!(lint_name(&"n".repeat(65)));
    // With the server name `callgate`, Claude allows tool names of up to 49 characters, and Cursor of up to 51.
    assert_eq!(lint_name(&"n".repeat(49)), Vec::<String>::new());
    assert_eq!(lint_name(&"n".repeat(50)).len(), 1);
    assert_eq!(lint_name(&"n".repeat(52)).len(), 2);
}

#[test]
fn parameter_and_property_names_that_clients_reject_are_reported() {
    let unportable = json!({"type": "string", "description": "A hash."});
    let inner = json!({"type": "object", "description": "A block.", "properties": {"block no": unportable}});
    insta::assert_debug_snapshot!(lint_schema(&json!({
        "type": "object",
        "properties": {"Transaction hash": unportable, "filter[id]": unportable, "in": inner},
    })));
}

#[test]
fn schemas_that_clients_reject_are_errors() {
    insta::assert_debug_snapshot!(lint_schema(
        &json!({"type": "object", "oneOf": [{"required": ["a"]}]})
    ));
    let lint_items = |items: Value| {
        let filter =
            json!({"type": "object", "properties": {"tags": items}, "description": "What."});
        lint_schema(&json!({"type": "object", "properties": {"filter": filter}}))
    };
    insta::assert_debug_snapshot!(lint_items(json!({"type": "array"})));
    assert_eq!(
        lint_items(json!({"type": ["string", "array"]})).len(),
        2,
        "no `items`, and a list of types"
    );
    assert_eq!(lint_items(json!({"type": "array", "items": {}})), Vec::<String>::new());
    insta::assert_debug_snapshot!(lint_items(json!({"type": "text"})));
}

#[test]
fn references_are_warnings_and_unresolved_references_are_errors() {
    let lint_reference = |target: &str| {
        let nodes = json!({"type": "array", "items": {"$ref": target}, "description": "All."});
        lint_schema(&json!({
            "type": "object", "properties": {"nodes": nodes}, "$defs": {"Node<A>": {"type": "object"}},
        }))
    };
    insta::assert_debug_snapshot!(lint_reference("#/$defs/Node%3CA%3E"));
    for unresolved in ["#/$defs/Other", "https://example.com/node.json", "node.json"] {
        assert!(
            lint_reference(unresolved).iter().any(|line| line.starts_with("error  lost-reference")),
            "{unresolved}"
        );
    }
}

#[test]
fn missing_descriptions_and_large_or_deep_schemas_are_reported() {
    let code = json!({"type": "integer", "enum": [1, 2]});
    let schema = json!({"type": "object", "properties": {"code": code, "b": {}}});
    let long = "x".repeat(1025);
    insta::assert_debug_snapshot!(lint_tool(&json!({"name": "a", "inputSchema": schema})));
    insta::assert_debug_snapshot!(lint_tool(&json!({
        "name": "a", "description": long, "inputSchema": {"type": "object", "properties": {}},
    })));
    let deep = (0..11).fold(json!({}), |inner, _| json!({"type": "array", "items": inner}));
    let deep = json!({"type": "object", "properties": {"deep": deep}});
    assert!(
        lint_schema(&deep).iter().any(|line| line.contains("deep-schema: 13 nested levels")),
        "{deep}"
    );
    let wide: Value = (0..1000)
        .map(|n| (format!("parameter_{n}"), json!({"description": "Of many."})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let wide = lint_schema(&json!({"type": "object", "properties": wide}));
    assert!(wide.iter().any(|line| line.contains("warning  large-tool: about 1")), "{wide:?}");
}

#[test]
fn lists_with_too_many_tools_or_tokens_are_reported() {
    let problems_of = |tools: usize, tokens: usize| {
        let totals = Totals { tools, bytes: tokens * 4, tokens };
        check_profiles(None, &LintOptions::default(), |check| check.check_list(&totals))
    };
    assert_eq!(problems_of(40, 25_000), []);
    insta::assert_debug_snapshot!(problems_of(129, 25_001));
}

#[test]
fn tools_beyond_the_first_page_are_an_error_that_names_the_clients() {
    let problem_of = |tools, bytes| general::pages(&Totals { tools, bytes, tokens: 0 }, 1_000);
    assert_eq!(problem_of(1_000, 4 << 20), None);
    let messages = [problem_of(1_001, 5), problem_of(5, (4 << 20) + 1)]
        .map(|problem| problem.unwrap().message);
    insta::assert_debug_snapshot!(messages);
}

#[test]
fn types_that_frameworks_do_not_support_are_errors() {
    let property =
        |schema: Value| lint_schema(&json!({"type": "object", "properties": {"a": schema}}));
    let is_reported = |lines: Vec<String>| lines.iter().any(|line| line.contains("single-types"));
    for schema in [
        json!({"type": ["string", "null"]}),
        json!({"properties": {}}),
        json!({}),
        json!({"type": "object", "properties": {"b": {"not": {"type": "null"}}}}),
    ] {
        assert!(is_reported(property(schema.clone())), "{schema}");
    }
    for schema in [
        json!({"type": "string"}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"type": "array", "items": {}}),
        json!({"$ref": "#/$defs/A"}),
        json!({"type": "object", "if": {"properties": {"b": {"not": {"type": "string"}}}}}),
    ] {
        assert!(!is_reported(property(schema.clone())), "{schema}");
    }
}

#[test]
fn profile_names_are_unique_and_each_rule_cites_an_issue() {
    for profile in ClientProfile::ALL {
        let found = ClientProfile::named(profile.name).unwrap();
        assert_eq!(found.title, profile.title);
        for rule in profile.rules {
            assert!(rule.seen.contains('/') && rule.seen.contains('#'), "{}", rule.seen);
        }
    }
}

#[test]
fn invisible_characters_in_any_text_of_a_tool_are_errors() {
    let schema = json!({
        "type": "object",
        "properties": {"id": {
            "type": "string",
            "description": "Which.",
            "enum": ["a\u{200b}"],
            "default": "\u{202e}b",
            "examples": ["c\u{ad}"],
        }},
    });
    let tool = json!({
        "name": "pet_get",
        "title": "A\u{e0041}",
        "description": "A pet.\u{2066}",
        "inputSchema": schema,
        "outputSchema": {"type": "object", "properties": {"a\u{feff}": {}}},
        "annotations": {"note": "\u{7}"},
    });
    insta::assert_debug_snapshot!(lint_tool(&tool));
}
