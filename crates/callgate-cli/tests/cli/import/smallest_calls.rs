//! The smallest calls that the schemas of documents allow, sent to services that take parameters in
//! one form only.
//!
//! The documents are similar to those of Sui, Lotus, Stellar, Hedera and Massa. Two more documents
//! are from npm packages.

use serde_json::{Map, Value, json};

use super::{document, with_components};
use crate::fake::FakeService;
use crate::real::servers::npm_file;
use crate::support::TestDirectory;

const EXAMPLES: &str = "@open-rpc/examples/build/service-descriptions";

struct Project {
    document: String,
    /// Arguments of the import.
    import: &'static [&'static str],
    /// Keys of the upstream.
    keys: &'static str,
    /// Whether the service accepts these parameters.
    accepts: fn(&Value) -> bool,
}

fn method(name: &str, structure: Option<&str>, params: &Value) -> Value {
    let mut method = json!({"name": name, "params": params, "result": {"name": "r", "schema": {}}});
    if let Some(structure) = structure {
        method["paramStructure"] = json!(structure);
    }
    method
}

fn has_no_null(params: &Value) -> bool {
    match params {
        Value::Array(items) => !items.contains(&Value::Null),
        Value::Object(members) => members.values().all(|value| !value.is_null()),
        _ => false,
    }
}

fn required(name: &str, schema: &Value) -> Value {
    json!({"name": name, "required": true, "schema": schema})
}

fn optional(name: &str, schema: &Value) -> Value {
    json!({"name": name, "schema": schema})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 1})
}

/// Before other parameters, there are optional parameters that are not nullable. There is no
/// `paramStructure`.
fn sui() -> String {
    let object_id = json!({"$ref": "#/components/schemas/ObjectID"});
    let query = json!({"$ref": "#/components/schemas/Query"});
    let objects = json!([
        required("address", &object_id),
        optional("query", &query),
        optional("cursor", &object_id),
        optional("limit", &number()),
    ]);
    let coins = json!([
        required("owner", &object_id),
        optional("coin_type", &text()),
        optional("cursor", &text()),
        optional("limit", &number()),
    ]);
    let methods = json!([
        method("suix_getOwnedObjects", None, &objects),
        method("suix_getCoins", None, &coins),
        method("sui_getChainIdentifier", None, &json!([])),
    ]);
    let filter = json!({"oneOf": [object_id, {"type": "null"}]});
    let query = json!({"type": "object", "required": ["filter"], "properties": {"filter": filter}});
    with_components(&methods, &json!({"schemas": {"ObjectID": text(), "Query": query}}))
}

/// Required parameters by position.
fn lotus() -> String {
    let link = json!({"type": "object", "properties": {"/": text()}});
    let tuple = json!({"type": "array", "items": [text(), number()]});
    let wait = json!([
        required("p1", &tuple),
        required("p2", &number()),
        required("p3", &json!({"type": "boolean"}))
    ]);
    document(&json!([
        method("Filecoin.ChainGetMessage", Some("by-position"), &json!([required("p1", &link)])),
        method("Filecoin.StateWait", Some("by-position"), &wait),
    ]))
}

/// Parameters by name, the required one in the middle.
fn stellar() -> String {
    let page = json!({"type": "object", "properties": {"cursor": text(), "limit": number()}});
    let events = json!([
        optional("startLedger", &number()),
        required("filters", &json!({"type": "array", "items": {}})),
        optional("pagination", &page),
        optional("xdrFormat", &json!({"enum": ["base64", "json"]})),
    ]);
    document(&json!([method("getEvents", Some("by-name"), &events)]))
}

/// Defaults and nullable parameters, and no `paramStructure`.
fn hedera() -> String {
    let tag = json!({"type": "string", "default": "latest"});
    let call = json!([
        optional("gas", &number()),
        required("transaction", &json!({"type": "object"})),
        optional("block", &json!({"anyOf": [text(), {"type": "null"}]})),
        optional("trace", &text()),
    ]);
    let balance = json!([required("address", &text()), optional("block", &tag)]);
    document(&json!([method("eth_getBalance", None, &balance), method("eth_call", None, &call)]))
}

/// `paramStructure` is `either`, but the service accepts only lists.
fn massa() -> String {
    let addresses = json!([
        required("addresses", &json!({"type": "array", "items": text()})),
        optional("is_final", &json!({"type": ["boolean", "null"]})),
        optional("page", &number()),
        optional("size", &number()),
    ]);
    document(&json!([method("get_addresses", Some("either"), &addresses)]))
}

/// Returns a document of an npm package.
fn npm(path: &str) -> String {
    std::fs::read_to_string(npm_file(path)).unwrap()
}

fn projects() -> [Project; 7] {
    let is_named = |params: &Value| params.is_object() && has_no_null(params);
    let project = |document, import: &'static [&'static str], keys, accepts: fn(&Value) -> bool| {
        Project { document, import, keys, accepts }
    };
    [
        project(sui(), &[], "", has_no_null),
        project(lotus(), &[], "", Value::is_array),
        project(stellar(), &[], "params = \"position\"", is_named),
        project(hedera(), &[], "params = \"position-null\"", Value::is_array),
        // The style of a source has priority over that of its upstream.
        project(massa(), &["--params-by", "position-null"], "params = \"name\"", Value::is_array),
        // All parameters are optional, and there is no `paramStructure`.
        project(npm(&format!("{EXAMPLES}/petstore-expanded-openrpc.json")), &[], "", has_no_null),
        // Parameters by name, with `patternProperties`.
        project(
            npm("@metamask/api-specs/dist/build/multichain-openrpc.json"),
            &[],
            "",
            has_no_null,
        ),
    ]
}

/// Returns a value that a schema of these documents accepts.
fn sample(schema: &Value, root: &Value) -> Value {
    if let Some(target) = schema["$ref"].as_str() {
        return sample(root.pointer(target.trim_start_matches('#')).unwrap(), root);
    }
    if let Some(first) = ["anyOf", "oneOf"].iter().find_map(|keyword| schema[*keyword].get(0)) {
        return sample(first, root);
    }
    match schema["type"].as_str().or(schema["type"][0].as_str()) {
        _ if schema["enum"].is_array() => schema["enum"][0].clone(),
        Some("string") => json!("0x1"),
        Some("integer") => json!(7),
        Some("boolean") => json!(true),
        Some("array") => {
            let items = schema["prefixItems"].as_array().into_iter().flatten();
            items.map(|item| sample(item, root)).collect()
        }
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let required = required.map(|name| name.as_str().unwrap());
            required
                .map(|name| (name.to_owned(), sample(&schema["properties"][name], root)))
                .collect()
        }
        _ => Value::Null,
    }
}

/// Returns the calls with all required arguments and at most one optional argument.
fn smallest_calls(schema: &Value) -> Vec<Map<String, Value>> {
    let properties = schema["properties"].as_object().unwrap();
    let names: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
    let is_required = |name: &&String| names.iter().any(|required| *required == name.as_str());
    let entry = |name: &String| (name.clone(), sample(&properties[name], schema));
    let required: Map<String, Value> = properties.keys().filter(is_required).map(entry).collect();
    let optional = properties.keys().filter(|name| !is_required(name));
    let with_optional =
        optional.map(|name| required.clone().into_iter().chain([entry(name)]).collect());
    std::iter::once(required.clone()).chain(with_optional).collect()
}

/// Checks that the sent parameters contain exactly the arguments, and defaults or null for all
/// other parameters.
fn assert_sent(sent: &Value, arguments: &Map<String, Value>, properties: &Map<String, Value>) {
    let sent_value = |(number, name): (usize, &String)| match sent {
        Value::Array(items) => items.get(number).cloned(),
        _ => sent.get(name).cloned(),
    };
    for (number, (name, property)) in properties.iter().enumerate() {
        let actual = sent_value((number, name));
        match arguments.get(name) {
            Some(expected) => assert_eq!(actual.as_ref(), Some(expected), "{name} in {sent}"),
            None => assert!(
                actual.as_ref().is_none_or(|it| it.is_null() || *it == property["default"]),
                "{name} in {sent}"
            ),
        }
    }
}

#[test]
fn every_smallest_call_of_a_document_reaches_its_service() {
    for Project { document, import, keys, accepts } in projects() {
        let service = FakeService::start(move |request| {
            let (id, params) = (&request.body["id"], &request.body["params"]);
            let error = json!({"code": -32602, "message": "Invalid params"});
            let member = if accepts(params) { ("result", params) } else { ("error", &error) };
            (200, json!({"jsonrpc": "2.0", "id": id, member.0: member.1}).to_string())
        });
        let dir = TestDirectory::migrated();
        let url = format!("url = \"http://{}/\"", service.address);
        dir.write("callgate.toml", &format!("[upstreams.default]\n{url}\n{keys}\n"));
        dir.import(&document, import);
        let lint = dir.run(&["lint", "--json", "--all"]).stdout();
        assert!(!lint.contains("unsendable-call"), "{lint}");
        let server = dir.serve(&[]);
        let tools = server.get("", "/mcp/tools/list").json();
        for tool in tools["tools"].as_array().unwrap() {
            let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
            for arguments in smallest_calls(schema) {
                let reply = server.invoke("", name, &Value::Object(arguments.clone())).json();
                let sent =
                    reply.get("result").unwrap_or_else(|| panic!("{name} {arguments:?}: {reply}"));
                assert_sent(sent, &arguments, schema["properties"].as_object().unwrap());
            }
        }
    }
}

#[test]
fn a_call_that_cannot_be_sent_is_a_lint_error_until_the_parameter_style_is_changed() {
    let dir = TestDirectory::migrated();
    let param = |name: &str| json!({"name": name, "schema": {"type": "integer"}});
    let paged = method("list", Some("by-position"), &json!([param("cursor"), param("limit")]));
    dir.import(&document(&json!([paged])), &[]);
    let lint = dir.run(&["lint"]);
    let message = "if `cursor` is omitted and the later parameter `limit` is given, the call cannot be sent by position";
    assert!(!lint.0.status.success() && lint.stdout().contains(message), "{}", lint.stdout());
    for style in ["position-null", "either", "name"] {
        dir.ok(&["method", "set", "list", "--params-by", style]);
        assert!(!dir.run(&["lint"]).stdout().contains(message), "{style}");
    }
    dir.ok(&["method", "set", "list", "--params-by", "position"]);
    assert!(dir.run(&["lint"]).stdout().contains(message));
}
