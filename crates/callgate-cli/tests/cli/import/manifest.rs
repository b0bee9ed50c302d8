//! Manifests and exports.

use serde_json::{Value, json};

use super::super::fake::FakeService;
use super::super::support::TestDirectory;

const MANIFEST: &str = r#"
name = "shop"
upstream = "php"

[[methods]]
id = "order.get"
title = "Get an order"
description = "Looks up an order."
params = ["int $id", { name = "details", type = "bool", default = false, description = "All of it." }]
returns = "Order"
sections = { orders = "read" }

[[methods]]
id = "order.cancel"
safety = "destructive"
params_by = "position"
sections = { orders = "write", audit = "execute" }
annotations = { category = "orders" }
tool_name = "cancel"
remote_name = "cancelOrder"

[methods.input_schema]
type = "object"
required = ["z"]
[methods.input_schema.properties.z]
type = "integer"
[methods.input_schema.properties.a]
type = "string"

[[methods]]
id = "order.old"
deprecated = true
upstream = "legacy"
sections = {}

[types.Order]
fields = [{ name = "id", type = "int" }, { name = "lines", type = "string[]", optional = true }]
"#;

fn import(dir: &TestDirectory, text: &str) -> String {
    dir.write("manifest", text);
    dir.ok(&["import", "manifest", "manifest"])
}

#[test]
fn a_manifest_covers_every_column_of_the_registry() {
    let dir = TestDirectory::migrated();
    let stdout = import(&dir, MANIFEST);
    assert!(
        stdout
            .ends_with("3 added, 0 changed, 0 removed, 1 hidden, 0 kept, 0 refused, 0 unchanged\n"),
        "{stdout}"
    );
    insta::assert_json_snapshot!(dir.tool("order.get"));
    let order: Vec<String> = dir.tool("order.cancel")["inputSchema"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(order, ["z", "a"], "the order counts by position");
    insta::assert_snapshot!(dir.ok(&["export"]));
}

#[test]
fn the_manifest_schema_accepts_valid_manifests_and_rejects_invalid_ones() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/manifest.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let manifest: Value = toml::from_str(MANIFEST).unwrap();
    assert!(schema.is_valid(&manifest), "{:?}", schema.iter_errors(&manifest).next());
    let dir = TestDirectory::migrated();
    import(&dir, MANIFEST);
    let exported: Value = serde_json::from_str(&dir.ok(&["export"])).unwrap();
    assert!(schema.is_valid(&exported), "{:?}", schema.iter_errors(&exported).next());
    for invalid in [
        json!({"methods": [{}]}),
        json!({"methods": [{"id": "a", "saftey": "read_only"}]}),
        json!({"methods": [{"id": "a", "params": [{"name": "x", "typ": "int"}]}]}),
        json!({"methods": [{"id": "a", "sections": {"x": "all"}}]}),
        json!({"types": {"A": {"fields": [{}]}}}),
    ] {
        assert!(!schema.is_valid(&invalid), "{invalid}");
    }
}

#[test]
fn a_round_trip_changes_nothing() {
    let dir = TestDirectory::migrated();
    import(&dir, MANIFEST);
    assert!(import(&dir, MANIFEST).contains("nothing changed"));
    let manifest = dir.ok(&["export"]);
    let stdout = import(&dir, &manifest);
    assert!(stdout.contains("nothing changed"), "{stdout}");
    assert_eq!(dir.ok(&["export"]), manifest);
    let other_dir = TestDirectory::migrated();
    assert!(import(&other_dir, &manifest).contains("3 added"));
    assert_eq!(other_dir.ok(&["export"]), manifest);
    assert_eq!(other_dir.ok(&["method", "list"]), dir.ok(&["method", "list"]));
}

#[test]
fn rows_of_other_writers_survive_a_round_trip() {
    let dir = TestDirectory::migrated();
    dir.sql(
        "callgate.db",
        r#"INSERT INTO sections (id, caption, ident) VALUES (1, 'Users', 'users'), (2, 'Log', 'log');
           INSERT INTO section_actions (id_section, plugin, method, mask) VALUES (1, 'Users', 'get', 4);
           INSERT INTO rpc_methods (plugin, method, rpc_method, params, params_types, defaults, sections)
           VALUES ('Users', 'get', 'user.get', '["$id", "$all"]', '["int", null]', '{"all": null}', 'users,log');
           INSERT INTO rpc_methods (rpc_method, annotations, title) VALUES ('plain', '[]', ' ');
           INSERT INTO rpc_methods (rpc_method, params) VALUES ('broken', '{');
           INSERT INTO rpc_methods (rpc_method) VALUES ('plain');
           INSERT INTO rpc_methods (rpc_method, upstream, title) VALUES ('code', 'local', 'Overlay');"#,
    );
    let output = dir.run(&["export"]);
    insta::assert_snapshot!(output.stderr());
    let manifest = output.stdout();
    let stdout = import(&dir, &manifest);
    assert!(stdout.contains("nothing changed"), "{stdout}");
    let other_dir = TestDirectory::migrated();
    let stdout = import(&other_dir, &manifest);
    assert!(stdout.contains("3 added"), "{stdout}");
    let sections = |dir: &TestDirectory| dir.exported()["user.get"]["sections"].clone();
    assert_eq!(sections(&other_dir), json!({"log": "closed", "users": "write"}));
    assert_eq!(sections(&other_dir), sections(&dir));
}

#[test]
fn a_method_with_empty_section_names_is_closed_before_and_after_an_export() {
    let dir = TestDirectory::migrated();
    dir.sql(
        "callgate.db",
        "INSERT INTO rpc_methods (rpc_method, sections) VALUES ('comma', ','), ('open', NULL)",
    );
    assert_eq!(dir.serve(&[]).tools(""), ["open"]);
    let manifest = dir.ok(&["export"]);
    let other_dir = TestDirectory::migrated();
    import(&other_dir, &manifest);
    assert_eq!(other_dir.serve(&[]).tools(""), ["open"]);
}

#[test]
fn an_invalid_manifest_is_reported_with_its_position() {
    let dir = TestDirectory::migrated();
    let mut errors = String::new();
    for invalid in [
        "methods = 1",
        "[[methods]]\nid = \"a\"\nsaftey = \"read_only\"",
        "[[methods]]\nid = \"a\"\nsections = { x = \"all\" }",
        "{\"methods\": [{}]}",
        "[[methods]]\nid = ",
    ] {
        dir.write("manifest", invalid);
        let (code, stderr) = dir.run(&["import", "manifest", "manifest"]).failure();
        assert_eq!(code, 1);
        errors.push_str(&stderr);
    }
    insta::assert_snapshot!(errors);
    let stdout = import(
        &dir,
        r#"{"methods": [{"id": "a", "params": ["int|"]}, {"id": "b", "params": [{"nom": 1}]}, {"id": "c"}]}"#,
    );
    insta::assert_snapshot!(stdout);
}

#[test]
fn an_openrpc_document_is_exported_and_imported_again() {
    let dir = TestDirectory::migrated();
    import(&dir, MANIFEST);
    let document = dir.ok(&["export", "--format", "openrpc", "--upstream", "php"]);
    insta::assert_snapshot!(document);
    let parsed: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(parsed["methods"].as_array().unwrap().len(), 2);
    let full_document = dir.ok(&["export", "--format", "openrpc"]);
    let other_dir = TestDirectory::migrated();
    assert!(other_dir.import(&full_document, &[]).contains("3 added"));
    assert_eq!(other_dir.ok(&["export", "--format", "openrpc"]), full_document);
}

/// The items of the last parameter are separate parameters, which OpenRPC cannot express.
#[test]
fn variadic_parameters_survive_an_export_as_openrpc() {
    let service = FakeService::json_rpc(|_, params| Some(params.clone()));
    let table = format!("[upstreams.default]\nurl = \"{}\"\n", service.url("/"));
    let dir = TestDirectory::migrated();
    let param = ["--param", "string $sort", "--param", "int ...$ids"];
    let style = ["--read-only", "--params-by", "position"];
    dir.ok(&[&["method", "add", "pet.find"][..], &param, &style].concat());
    let document = dir.ok(&["export", "--format", "openrpc"]);
    let other_dir = TestDirectory::migrated();
    other_dir.import(&document, &[]);
    assert_eq!(other_dir.ok(&["export", "--format", "openrpc"]), document);
    for dir in [dir, other_dir] {
        dir.write("callgate.toml", &table);
        assert!(!dir.tool("pet.find").to_string().contains("x-callgate"));
        let stdout = dir.ok(&["call", "pet.find", r#"{"sort": "a", "ids": [1, 2]}"#]);
        assert_eq!(stdout, "[\"a\",1,2]\n");
    }
}

#[test]
fn a_replaced_class_is_reported() {
    let dir = TestDirectory::migrated();
    let manifest = |name: &str, field: &str| {
        format!(
            "name = \"{name}\"\n[[methods]]\nid = \"{name}.get\"\nparams = [\"Pet $pet\"]\n\
             [types.Pet]\nfields = [{{ name = \"{field}\", type = \"int\" }}]\n"
        )
    };
    for (name, field, is_noted) in [("a", "id", false), ("a", "id", false), ("b", "age", true)] {
        dir.write("manifest.toml", &manifest(name, field));
        let stderr = dir.run(&["import", "manifest", "manifest.toml"]).stderr();
        let note = "this source replaces the fields of these classes: `default:Pet`";
        assert_eq!(stderr.contains(note), is_noted, "{stderr}");
    }
}

#[test]
fn empty_properties_are_exported_as_an_object() {
    let dir = TestDirectory::migrated();
    let schema = r#"{"type":"object","properties":{"page":{"type":"object","properties":[]}}}"#;
    dir.ok(&["method", "add", "site.list", "--input-schema", schema]);
    dir.sql(
        "callgate.db",
        r#"UPDATE rpc_methods SET output_schema = '{"type":"object","properties":[]}'"#,
    );
    for format in ["manifest", "openrpc"] {
        let text = dir.ok(&["export", "--format", format]);
        assert_eq!(text.matches("\"properties\": {}").count(), 2, "{text}");
        assert!(!text.contains("\"properties\": []"), "{text}");
    }
}

#[test]
fn a_ref_in_data_is_exported_unchanged() {
    let dir = TestDirectory::migrated();
    let data = json!({"$ref": "#/$defs/Age"});
    let link = json!({"default": data, "enum": [data], "const": data, "examples": [data]});
    let schema = json!({
        "type": "object",
        "properties": {"age": {"$ref": "#/$defs/Age"}, "link": link},
        "$defs": {"Age": {"type": "integer"}},
    });
    dir.ok(&["method", "add", "site.list", "--input-schema", &schema.to_string()]);
    let document = dir.ok(&["export", "--format", "openrpc"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let params = &document["methods"][0]["params"];
    assert_eq!(params[0]["schema"], json!({"$ref": "#/components/schemas/Age"}));
    assert_eq!(params[1]["schema"], link);
}
