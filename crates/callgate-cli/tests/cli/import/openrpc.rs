//! Methods from OpenRPC documents.

use serde_json::{Value, json};

use super::{document, simple_method, with_components};
use crate::fake::FakeService;
use crate::support::TestDirectory;

fn with_params(params: &Value) -> Value {
    json!({"name": "m", "params": params, "result": {"name": "r", "schema": {"type": "string"}}})
}

#[test]
fn parameters_become_an_input_schema_in_order_with_names_that_clients_accept() {
    let dir = TestDirectory::migrated();
    let method = with_params(&json!([
        {"name": "Transaction hash", "required": true, "description": "Which.",
         "schema": {"type": "string", "description": "A hash."}},
        {"name": "at", "summary": "When.", "schema": {"$schema": "x", "type": "integer", "format": "int64"}},
        {"name": "any", "schema": true},
    ]));
    dir.import(&document(&json!([method])), &[]);
    let tool = dir.tool("m");
    insta::assert_json_snapshot!(tool["inputSchema"]);
    assert_eq!(tool["outputSchema"], json!({"type": "string"}));
}

#[test]
fn the_parameter_style_is_either_without_param_structure() {
    let dir = TestDirectory::migrated();
    let method_with = |name: &str, structure: Option<&str>| {
        let mut method = simple_method(name, "");
        if let Some(structure) = structure {
            method["paramStructure"] = json!(structure);
        }
        method
    };
    let definitions = json!([
        method_with("none", None),
        method_with("position", Some("by-position")),
        method_with("name", Some("by-name")),
        method_with("either", Some("either")),
        method_with("wrong", Some("sideways")),
    ]);
    let stdout = dir.import(&document(&definitions), &[]);
    assert!(stdout.contains("refused  wrong: `paramStructure`: expected `by-name`"), "{stdout}");
    let methods = dir.exported();
    let style = |id: &str| methods[id].get("params_by").cloned().unwrap_or_default();
    assert_eq!((style("none"), style("either")), (json!("either"), json!("either")));
    assert_eq!((style("name"), style("position")), (json!("name"), json!("position")));
}

#[test]
fn the_parameter_style_of_a_source_is_kept_for_later_imports() {
    let dir = TestDirectory::migrated();
    let styles = |dir: &TestDirectory| {
        let methods = dir.exported();
        methods.values().map(|method| method["params_by"].clone()).collect::<Vec<_>>()
    };
    let first = document(&json!([simple_method("pet.get", "A pet.")]));
    dir.import(&first, &["--params-by", "position-null"]);
    let second =
        document(&json!([simple_method("pet.get", "A pet."), simple_method("pet.list", "Pets.")]));
    let stderr = dir.run_import(&second, &[]).stderr();
    assert!(stderr.contains("an earlier import set `--params-by position-null`"), "{stderr}");
    assert_eq!(styles(&dir), [json!("position-null"), json!("position-null")]);
    assert!(dir.import(&second, &[]).contains("nothing changed"));
    dir.import(&second, &["--params-by", "described"]);
    assert_eq!(styles(&dir), [json!("either"), json!("either")]);
    dir.import(&second, &[]);
    assert_eq!(styles(&dir), [json!("either"), json!("either")]);
    // The names `positional` and `named` are also accepted, as in the configuration.
    dir.import(&second, &["--params-by", "positional"]);
    dir.ok(&["method", "set", "pet.list", "--params-by", "named"]);
    assert_eq!(styles(&dir), [json!("position"), json!("name")]);
    let refused = dir.run(&["import", "openrpc", "openrpc.json", "--params-by", "order"]);
    let (code, stderr) = refused.failure();
    assert!(code == 2 && stderr.contains("expected `name`, `position`, `either`"), "{stderr}");
}

#[test]
fn references_are_resolved_everywhere_and_inlined() {
    let dir = TestDirectory::migrated();
    let components = json!({
        "schemas": {
            "Id": {"type": "integer", "minimum": 1},
            "Pet~1s <x>": {"type": "object", "properties": {"id": {"$ref": "#/components/schemas/Id"}}},
        },
        "contentDescriptors": {
            "Pet": {"name": "pet", "required": true, "schema": {"$ref": "#/components/schemas/Pet~01s%20%3Cx%3E"}},
        },
        "methods": {"Save": {
            "name": "pet.save",
            "params": [{"$ref": "#/components/contentDescriptors/Pet"}],
            "result": {"$ref": "#/components/contentDescriptors/Pet"},
            "errors": [{"$ref": "#/components/errors/Gone"}, {"code": 2, "message": "Closed"}],
            "tags": [{"$ref": "#/components/tags/Care"}, {"name": "daily"}],
            "examples": [{"$ref": "#/components/examplePairingObjects/One"}],
        }},
        "errors": {"Gone": {"code": 1, "message": "No such pet"}},
        "tags": {"Care": {"name": "care"}},
        "examplePairingObjects": {"One": {"params": [{"name": "pet", "value": {"id": 7}}]}},
    });
    let methods = json!([{"$ref": "#/components/methods/Save"}]);
    dir.import(&with_components(&methods, &components), &[]);
    insta::assert_json_snapshot!(dir.tool("pet.save"));
}

#[test]
fn imports_of_recursive_and_exponential_definitions_terminate() {
    let dir = TestDirectory::migrated();
    let mut schemas = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
        let nested = json!({"type": "object", "properties": {"a": next, "b": next}});
        schemas.insert(format!("L{level}"), nested);
    }
    schemas.insert("L60".to_owned(), json!({"type": "string"}));
    schemas.insert(
        "Tree".to_owned(),
        json!({"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}),
    );
    schemas.insert("A".to_owned(), json!({"$ref": "#/components/schemas/B"}));
    schemas.insert("B".to_owned(), json!({"$ref": "#/components/schemas/A"}));
    for number in 0..1100 {
        let next = json!({"$ref": format!("#/components/schemas/Chain{}", number + 1)});
        schemas.insert(format!("Chain{number}"), json!({"properties": {"next": next}}));
    }
    schemas.insert("Chain1100".to_owned(), json!({}));
    let method_with = |name: &str| {
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let mut method = with_params(&json!([{"name": "p", "schema": schema}]));
        method["name"] = json!(name);
        method
    };
    let circular = json!({"$ref": "#/components/methods/X"});
    let methods = json!([
        method_with("L0"),
        method_with("Tree"),
        method_with("A"),
        method_with("Chain0"),
        method_with("Chain1070"),
        circular
    ]);
    let components = json!({"schemas": schemas, "methods": {"X": circular}});
    let stdout = dir.import(&with_components(&methods, &components), &[]);
    assert!(
        stdout.contains("refused  Chain0: params: the schema needs more than 1000"),
        "{stdout}"
    );
    assert!(
        stdout.contains("refused  methods[5]: `$ref` to `#/components/methods/X` is circular"),
        "{stdout}"
    );
    for id in ["L0", "Tree", "A", "Chain1070"] {
        let schema = dir.tool(id)["inputSchema"].clone();
        assert!(jsonschema::draft202012::new(&schema).is_ok(), "{id}: {schema}");
        assert!(schema.to_string().len() < 100_000, "{id}");
    }
    let tree = dir.tool("Tree")["inputSchema"].clone();
    assert_eq!(tree["$defs"]["Tree"]["items"], json!({"$ref": "#/$defs/Tree"}));
}

#[test]
fn nothing_outside_of_the_document_is_read() {
    let dir = TestDirectory::migrated();
    dir.write("other.json", r#"{"secret": {"type": "string"}}"#);
    let method_with = |name: &str, reference: &str| {
        let mut method =
            with_params(&json!([{"name": "p", "schema": {"items": {"$ref": reference}}}]));
        method["name"] = json!(name);
        method
    };
    let mut foreign_result = simple_method("result", "");
    foreign_result["result"] = json!({"name": "r", "schema": {"$ref": "other.json#/secret"}});
    foreign_result["errors"] = json!([{"$ref": "other.json#/secret"}]);
    let definitions = json!([
        method_with("file", "other.json#/secret"),
        method_with("host", "http://127.0.0.1:1/x.json"),
        method_with("nowhere", "#/components/schemas/None"),
        method_with("anchor", "#name"),
        {"$ref": "other.json#/method"},
        foreign_result,
    ]);
    let output = dir.run_import(&document(&definitions), &[]);
    insta::assert_snapshot!(output.stdout());
    let ids: Vec<String> = dir.exported().keys().cloned().collect();
    assert_eq!(ids, ["result"], "what is not needed need not be there");
    let note = "note: `result` has no output schema: result: ";
    assert!(output.stderr().contains(note), "{}", output.stderr());
}

#[test]
fn an_embedded_schema_is_read_in_any_draft() {
    let dir = TestDirectory::migrated();
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://127.0.0.1/pet.json",
        "type": "object",
        "required": true,
        "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"$ref": "#/definitions/Age"}], "additionalItems": false},
            "age": {"$ref": "#/definitions/Age"},
            "$ref": {"type": "string", "const": {"$ref": "data"}},
        },
        "dependencies": {"age": ["pair"], "pair": {"required": ["age"]}},
        "definitions": {"Age": {"type": "number", "minimum": 0, "exclusiveMinimum": true}},
    });
    dir.import(&document(&json!([with_params(&json!([{"name": "pet", "schema": schema}]))])), &[]);
    let schema = dir.tool("m")["inputSchema"].clone();
    insta::assert_json_snapshot!(schema["properties"]["pet"]);
    jsonschema::draft202012::new(&schema).unwrap();
}

#[test]
fn deprecated_methods_and_those_without_a_result_are_hidden() {
    let dir = TestDirectory::migrated();
    let mut deprecated = simple_method("old", "");
    deprecated["deprecated"] = json!(true);
    let definitions = json!([
        deprecated,
        {"name": "fire", "params": []},
        {"name": "forget", "params": [], "result": null},
        simple_method("rpc.discover", ""),
        simple_method("twice", "One."),
        simple_method("twice", "Two."),
    ]);
    insta::assert_snapshot!(dir.import(&document(&definitions), &[]));
    let methods = dir.exported();
    for id in ["old", "fire", "forget"] {
        assert_eq!(methods[id]["exposed"], false, "{id}");
    }
    assert_eq!(methods["twice"]["description"], "One.");
    assert!(!methods.contains_key("rpc.discover"));
}

#[test]
fn output_schemas_are_imported_unless_disabled() {
    let dir = TestDirectory::migrated();
    let source = document(&json!([with_params(&json!([])), simple_method("anything", "")]));
    dir.import(&source, &["--no-output-schemas"]);
    assert!(dir.tool("m").get("outputSchema").is_none());
    assert!(dir.import(&source, &[]).contains("1 changed"));
    assert_eq!(dir.tool("m")["outputSchema"], json!({"type": "string"}));
    assert!(dir.tool("anything").get("outputSchema").is_none(), "`{{}}` promises nothing");
}

#[test]
fn summary_and_description_are_joined_and_servers_are_listed() {
    let dir = TestDirectory::migrated();
    let result = json!({"name": "r"});
    let method = |name: &str, summary: &str, description: &str| json!({"name": name, "summary": summary, "description": description, "result": result});
    let mut parsed: Value = serde_json::from_str(&document(&json!([
        method("both", "Short.", "And long."),
        method("same", "Long", "Long and more."),
        method("one", "", "Only this."),
    ])))
    .unwrap();
    parsed["servers"] = json!([
        {"name": "main", "url": "http://127.0.0.1:9/rpc"}, {"url": "{x}"}, {"name": "none"},
    ]);
    let stderr = dir.run_import(&parsed.to_string(), &[]).stderr();
    assert!(stderr.contains("server: http://127.0.0.1:9/rpc (main)\nserver: {x}\n"), "{stderr}");
    let methods = dir.exported();
    let text = |id: &str| methods[id]["description"].as_str().unwrap().to_owned();
    assert_eq!(
        ["both", "same", "one"].map(text),
        ["Short.\n\nAnd long.", "Long and more.", "Only this."]
    );
}

#[test]
fn every_version_of_openrpc_is_imported() {
    for version in ["1.0.0-rc1", "1.0.0", "1.2.4", "1.2.6", "1.3.2", "1.4.1", "2.0"] {
        let dir = TestDirectory::migrated();
        let document = document(&json!([simple_method("a", "")])).replace("1.3.2", version);
        assert!(dir.import(&document, &[]).contains("1 added"), "{version}");
    }
}

#[test]
fn invalid_methods_are_reported_with_their_position_and_nothing_is_written() {
    let dir = TestDirectory::migrated();
    let mut errors = String::new();
    for invalid in [
        "",
        "{\"openrpc\": \"1.0.0\",\n \"methods\": [}",
        "[]",
        "{\"swagger\": \"2.0\"}",
        "openapi: 3.1.0\npaths: {}\n",
        "<!DOCTYPE html><p>Not Found</p>",
        "{\"openrpc\": \"1.0.0\"}",
        "{\"openrpc\": \"1.0.0\", \"methods\": {}}",
        &format!(
            "{{\"openrpc\": \"1.0.0\", \"methods\": {}1{}}}",
            "[".repeat(500),
            "]".repeat(500)
        ),
    ] {
        dir.write("openrpc.json", invalid);
        let (code, stderr) = dir.run(&["import", "openrpc", "openrpc.json"]).failure();
        assert_eq!(code, 1);
        errors.push_str(&stderr);
    }
    let (_, stderr) = dir.run(&["import", "openrpc", "none.json"]).failure();
    errors.push_str(&stderr);
    insta::assert_snapshot!(errors);
    let definitions = json!([
        7,
        {},
        {"name": "", "params": []},
        {"name": "params", "params": {}},
        {"name": "param", "params": [1]},
        {"name": "unnamed", "params": [{"schema": {}}]},
        {"name": "schema", "params": [{"name": "a", "schema": 1}]},
        {"name": "type", "params": [{"name": "a", "schema": {"type": "any"}}]},
        {"name": "dynamic", "params": [{"name": "a", "schema": {"$dynamicRef": "#a"}}]},
        {"name": "bad\u{7}name", "params": []},
    ]);
    insta::assert_snapshot!(dir.import(&document(&definitions), &[]));
    assert!(dir.exported().is_empty());
}

#[test]
fn an_external_reference_is_read_from_a_given_file() {
    let dir = TestDirectory::migrated();
    let params_with_reference =
        |reference: &str| json!([{"name": "a", "schema": {"$ref": reference}}]);
    let method = |name: &str, params: Value| json!({"name": name, "params": params, "result": {"name": "r"}});
    let source = document(&json!([
        method("file", params_with_reference("types.json#/components/schemas/Pair")),
        method("dotted", params_with_reference("./types.json#/Plain")),
        method("host", params_with_reference("http://127.0.0.1:1/own.json")),
        method("own", params_with_reference("types.json#/Own")),
        method("named", params_with_reference("types.json#/Named")),
        method("nowhere", params_with_reference("types.json#/None")),
        method("other", params_with_reference("others.json#/Plain")),
    ]));
    let types = json!({
        "Plain": {"type": "string"},
        "components": {"schemas": {"Pair": {"items": [{"$ref": "#/Plain"}, {"$ref": "./own.json#/x"}]}}},
        "Named": {"properties": {"default": {"$ref": "#/Plain"}}, "examples": [{"$ref": "#/Plain"}]},
        "Own": {"definitions": {"y": {"type": "null"}}, "properties": {"y": {"$ref": "#/definitions/y"}}},
    });
    dir.write("types.json", &types.to_string());
    dir.write("own.json", r#"{"type": "integer", "x": {"const": {"$ref": "types.json#/Plain"}}}"#);
    let mut arguments = vec!["--reference", "types.json=types.json"];
    for name in ["own.json=own.json", "http://127.0.0.1:1/own.json=own.json", "idle.json=own.json"]
    {
        arguments.extend(["--reference", name]);
    }
    let output = dir.run_import(&source, &arguments);
    insta::assert_snapshot!(output.stdout(), @"
    refused  nowhere: params[0].schema: `$ref` to `#/x-callgate-references/types.json/None` does not resolve
    refused  other: params[0].schema: `$ref` to `others.json#/Plain` is outside of the document; give the file with `--reference`
    5 added, 0 changed, 0 removed, 0 hidden, 0 kept, 2 refused, 0 unchanged
    ");
    assert!(
        output.stderr().contains("note: no `$ref` refers to `idle.json`"),
        "{}",
        output.stderr()
    );
    let property = |id: &str| dir.exported()[id]["input_schema"]["properties"]["a"].clone();
    let data = json!({"const": {"$ref": "types.json#/Plain"}});
    assert_eq!(property("file")["prefixItems"], json!([{"type": "string"}, data]));
    assert_eq!(property("dotted"), json!({"type": "string"}));
    assert_eq!(property("host")["type"], "integer");
    assert_eq!(property("own")["properties"]["y"], json!({"type": "null"}));
    assert_eq!(property("named")["properties"]["default"], json!({"type": "string"}));
    assert_eq!(property("named")["examples"], json!([{"$ref": "#/Plain"}]), "data is no reference");
    dir.write("types.json", "{");
    let invalid = dir.run(&["import", "openrpc", "openrpc.json", "--reference", "a=types.json"]);
    let stderr = invalid.failure().1;
    let problem = "callgate: `--reference`: `types.json`: the document is not JSON: ";
    assert!(stderr.starts_with(problem), "{stderr}");
}

#[test]
fn a_document_in_yaml_is_read_from_files_and_services() {
    let yaml = "\
# Pets
openrpc: 1.3
info: {title: Pets, version: 1.5}
x-id: &id
  <<: {name: a, required: true}
  name: id
  schema: {$ref: 'types.yaml#/Id'}
methods:
- name: pet.get
  summary: >
    Returns
    a pet.
  paramStructure: by-name
  params: [*id]
  result: {name: pet, schema: {type: object}}
- name: pet.feed
  params: [*id, {name: no, schema: {type: string, enum: [on, off]}}]
  result: {name: ok, schema: {type: boolean}}
";
    let service = FakeService::start(move |request| {
        let is_document = request.http_method() == "GET";
        if is_document { (200, yaml.to_owned()) } else { (404, String::new()) }
    });
    let mut imported = Vec::new();
    for source in ["pets.yaml", &service.url("/pets.yaml"), &service.url("/pets")] {
        let dir = TestDirectory::migrated();
        dir.write("pets.yaml", yaml);
        dir.write("types.yaml", "Id: {type: integer, minimum: 1}\n");
        let output =
            dir.run(&["import", "openrpc", source, "--reference", "types.yaml=types.yaml"]);
        let stderr = output.stderr();
        assert!(stderr.contains("version 1.5, 2 methods, OpenRPC 1.3\n"), "{stderr}");
        imported.push(dir.exported());
    }
    let [file, url, other_url] = imported.as_slice() else { panic!() };
    assert_eq!((file, file), (url, other_url));
    assert_eq!(file["pet.get"]["description"], "Returns a pet.");
    let properties = &file["pet.feed"]["input_schema"]["properties"];
    assert_eq!(properties["id"], json!({"type": "integer", "minimum": 1}));
    assert_eq!(properties["no"]["enum"], json!(["on", "off"]), "not booleans");
    let dir = TestDirectory::migrated();
    dir.write("wrong.yaml", "openrpc: 1.3.2\nmethods:\n- name: a\n  name: b\n");
    let stderr = dir.run(&["import", "openrpc", "wrong.yaml"]).failure().1;
    assert_eq!(
        stderr,
        "callgate: `wrong.yaml`: the document is not valid YAML: line 4: the key `name` occurs twice\n"
    );
}

#[test]
fn a_document_without_methods_changes_nothing() {
    let dir = TestDirectory::migrated();
    dir.import(&document(&json!([with_params(&json!([]))])), &[]);
    dir.write("empty.json", &document(&json!([])));
    let (_, stderr) = dir.run(&["import", "openrpc", "empty.json"]).failure();
    assert!(stderr.contains("has no methods, and nothing was changed"), "{stderr}");
    assert_eq!(dir.exported().len(), 1);
}

#[test]
fn a_method_with_a_nul_character_is_refused_and_others_are_imported() {
    let dir = TestDirectory::migrated();
    let stdout = dir.import(
        &document(&json!([
            simple_method("pet.get", "A\0pet."),
            simple_method("pet.list", "Pets.")
        ])),
        &[],
    );
    let refused = "refused  pet.get: its description has a NUL character, which databases refuse\n";
    assert!(stdout.contains(refused) && stdout.contains("1 added"), "{stdout}");
}
