use serde_json::{Value, json};

use super::*;

/// Returns the problems of a tool with this input schema, as `level clients code: message`.
fn said(schema: &Value) -> Vec<String> {
    said_of(&json!({"name": "pet_get", "description": "A pet.", "inputSchema": schema}))
}

fn said_of(tool: &Value) -> Vec<String> {
    let bytes = serde_json::to_vec(tool).unwrap();
    let problems = check_tool("pet.get", &bytes, &LintOptions::default());
    let line = |one: &Problem| {
        format!("{} {} {}: {}", one.level, one.clients.join("+"), one.code, one.message)
    };
    problems.iter().map(line).collect()
}

#[test]
fn a_plain_tool_is_fine_with_every_client() {
    let id = json!({"type": "integer", "description": "Which."});
    assert_eq!(said(&json!({"type": "object", "properties": {"id": id}})), Vec::<String>::new());
}

#[test]
fn tool_names_that_clients_reject() {
    let named = |name: &str| {
        let schema = json!({"type": "object", "properties": {}});
        said_of(&json!({"name": name, "description": "A pet.", "inputSchema": schema}))
    };
    insta::assert_debug_snapshot!(named("pet.get"));
    insta::assert_debug_snapshot!(named("2fa_check"));
    insta::assert_debug_snapshot!(named(&"n".repeat(65)));
    // With the server name `callgate`, Claude allows tool names of up to 49 characters, and Cursor of up to 51.
    assert_eq!(named(&"n".repeat(49)), Vec::<String>::new());
    assert_eq!(named(&"n".repeat(50)).len(), 1);
    assert_eq!(named(&"n".repeat(52)).len(), 2);
}

#[test]
fn parameter_and_property_names_that_clients_reject() {
    let unportable = json!({"type": "string", "description": "A hash."});
    let inner = json!({"type": "object", "description": "A block.", "properties": {"block no": unportable}});
    insta::assert_debug_snapshot!(said(&json!({
        "type": "object",
        "properties": {"Transaction hash": unportable, "filter[id]": unportable, "in": inner},
    })));
}

#[test]
fn schemas_that_clients_reject() {
    insta::assert_debug_snapshot!(said(&json!({"type": "object", "oneOf": [{"required": ["a"]}]})));
    let list = |list: Value| {
        let filter =
            json!({"type": "object", "properties": {"tags": list}, "description": "What."});
        said(&json!({"type": "object", "properties": {"filter": filter}}))
    };
    insta::assert_debug_snapshot!(list(json!({"type": "array"})));
    assert_eq!(
        list(json!({"type": ["string", "array"]})).len(),
        2,
        "no `items`, and a list of types"
    );
    assert_eq!(list(json!({"type": "array", "items": {}})), Vec::<String>::new());
    insta::assert_debug_snapshot!(list(json!({"type": "text"})));
}

#[test]
fn references_and_where_they_lead() {
    let tree = |target: &str| {
        let nodes = json!({"type": "array", "items": {"$ref": target}, "description": "All."});
        said(&json!({
            "type": "object", "properties": {"nodes": nodes}, "$defs": {"Node<A>": {"type": "object"}},
        }))
    };
    insta::assert_debug_snapshot!(tree("#/$defs/Node%3CA%3E"));
    for lost in ["#/$defs/Other", "https://example.com/node.json", "node.json"] {
        assert!(tree(lost).iter().any(|line| line.starts_with("error  lost-reference")), "{lost}");
    }
}

#[test]
fn what_a_model_can_do_little_with() {
    let code = json!({"type": "integer", "enum": [1, 2]});
    let schema = json!({"type": "object", "properties": {"code": code, "b": {}}});
    let long = "x".repeat(1025);
    insta::assert_debug_snapshot!(said_of(&json!({"name": "a", "inputSchema": schema})));
    insta::assert_debug_snapshot!(said_of(&json!({
        "name": "a", "description": long, "inputSchema": {"type": "object", "properties": {}},
    })));
    let deep = (0..11).fold(json!({}), |inner, _| json!({"type": "array", "items": inner}));
    let deep = json!({"type": "object", "properties": {"deep": deep}});
    assert!(
        said(&deep).iter().any(|line| line.contains("deep-schema: 13 nested levels")),
        "{deep}"
    );
    let wide: Value = (0..1000)
        .map(|n| (format!("parameter_{n}"), json!({"description": "Of many."})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let wide = said(&json!({"type": "object", "properties": wide}));
    assert!(wide.iter().any(|line| line.contains("warning  large-tool: about 1")), "{wide:?}");
}

#[test]
fn lists_that_are_too_long() {
    let of = |tools: usize, tokens: usize| {
        let totals = Totals { tools, bytes: tokens * 4, tokens };
        check_profiles(None, &LintOptions::default(), |check| check.check_list(&totals))
    };
    assert_eq!(of(40, 25_000), []);
    insta::assert_debug_snapshot!(of(129, 25_001));
}

#[test]
fn tools_beyond_the_first_page_are_an_error_that_names_the_clients() {
    let of = |tools, bytes| general::pages(&Totals { tools, bytes, tokens: 0 }, 1_000);
    assert_eq!(of(1_000, 4 << 20), None);
    let messages = [of(1_001, 5), of(5, (4 << 20) + 1)].map(|problem| problem.unwrap().message);
    insta::assert_debug_snapshot!(messages);
}

#[test]
fn types_that_frameworks_do_not_support_are_errors() {
    let property = |schema: Value| said(&json!({"type": "object", "properties": {"a": schema}}));
    let told = |lines: Vec<String>| lines.iter().any(|line| line.contains("single-types"));
    for schema in [
        json!({"type": ["string", "null"]}),
        json!({"properties": {}}),
        json!({}),
        json!({"type": "object", "properties": {"b": {"not": {"type": "null"}}}}),
    ] {
        assert!(told(property(schema.clone())), "{schema}");
    }
    for schema in [
        json!({"type": "string"}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"type": "array", "items": {}}),
        json!({"$ref": "#/$defs/A"}),
        json!({"type": "object", "if": {"properties": {"b": {"not": {"type": "string"}}}}}),
    ] {
        assert!(!told(property(schema.clone())), "{schema}");
    }
}

#[test]
fn every_profile_has_a_name_of_its_own_and_says_where_its_rules_are_from() {
    for profile in ClientProfile::ALL {
        let found = ClientProfile::named(profile.name).unwrap();
        assert_eq!(found.title, profile.title);
        for rule in profile.rules {
            assert!(rule.seen.contains('/') && rule.seen.contains('#'), "{}", rule.seen);
        }
    }
}

#[test]
fn invisible_characters_are_errors_wherever_they_are() {
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
    insta::assert_debug_snapshot!(said_of(&tool));
}
