//! `callgate import drupal`: the two modules as BEHAVIOURS.md has them, and our own REST face, which has
//! the shape of the first.

use serde_json::{Value, json};

use super::registry;
use crate::fake::{Asked, Fake};

/// What `jsonrpc_discovery` answers.
fn discovery() -> Value {
    let param = |schema: Value, attributes: Value| json!({"type": "JsonRpcParameterDefinition", "attributes": attributes, "schema": schema});
    let method = |id: &str, usage: &str, params: Value| {
        let attributes = json!({"usage": usage, "params": params});
        json!({"type": "JsonRpcMethod", "id": id, "attributes": attributes})
    };
    let limit = json!({"type": "object", "properties": {"limit": {"type": "integer"}}});
    json!({"data": [
        method("plugins.list", "List defined plugins.", json!({
            "service": param(json!({"type": "string"}), json!({"schema": {"type": "string"}, "required": true})),
            "page": param(limit, json!({"factory": "\\Drupal\\Pagination"})),
        })),
        method("cache.rebuild", "Rebuilds the caches.", json!([])),
        method("user.add", "", json!({"0": param(json!({"type": "string"}), json!({"required": true})), "1": {}})),
        method("list.get", "", json!([{"id": "first", "schema": {"type": "integer"}}, {}])),
        {"id": "bare"},
        {"type": "JsonRpcMethod"},
        7,
    ], "links": {"self": "http://127.0.0.1/jsonrpc/methods"}})
}

#[test]
fn d16_methods_of_jsonrpc_discovery_are_read_with_patience() {
    let site = Fake::start(|asked| match asked.line.as_str() {
        "GET /sub/jsonrpc/methods" => (200, discovery().to_string()),
        _ => (404, String::new()),
    });
    let place = registry();
    let arguments = ["import", "drupal", &site.url("/sub/"), "--upstream", "drupal"];
    let ran = place.run(&[&arguments[..], &["--dry-run"]].concat());
    insta::assert_snapshot!(site.hide(&format!("{}\n{}", ran.talk(), ran.data())));
    place.ok(&arguments);
    let methods = place.exported();
    let listed = json!({
        "type": "object",
        "properties": {
            "service": {"type": "string"},
            "page": {"type": "object", "properties": {"limit": {"type": "integer"}}},
        },
        "required": ["service"],
        "additionalProperties": false,
    });
    assert_eq!(methods["plugins.list"]["input_schema"], listed);
    assert_eq!(methods["plugins.list"]["params_by"], "name");
    let names = |id: &str| {
        let properties = methods[id]["input_schema"]["properties"].as_object().unwrap();
        (methods[id]["params_by"].clone(), properties.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(names("user.add"), (json!("position"), vec!["param1".into(), "param2".into()]));
    assert_eq!(names("list.get"), (json!("position"), vec!["first".into(), "param2".into()]));
    // D16: whether they are tools, the configuration says.
    assert!(methods["plugins.list"].get("exposed").is_none());
    assert_eq!(place.serve(&[]).tools("").len(), 5);
    assert!(place.serve(&["--preset", "drupal"]).tools("").is_empty());
}

#[test]
fn tools_of_jsonrpc_mcp_are_read_page_by_page() {
    let page = |asked: &Asked| match asked.line.as_str() {
        "GET /mcp/tools/list" => json!({"tools": [
            {"name": "cache.rebuild", "title": "Rebuild", "description": "Makes them anew.",
             "inputSchema": {"type": "object", "properties": []},
             "annotations": {"readOnlyHint": false, "category": "system"}},
            {"name": "sum", "inputSchema": {"type": "object", "properties": {"0": {"type": "integer"}, "1": {"type": "integer"}}}},
        ], "nextCursor": "NTA=+/"}),
        "GET /mcp/tools/list?cursor=NTA%3D%2B%2F" => json!({"tools": [
            {"name": "user.get", "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}},
             "annotations": {"readOnlyHint": true}},
            {"title": "Without a name"},
        ], "nextCursor": null}),
        other => panic!("{other}"),
    };
    let site = Fake::start(move |asked| (200, page(asked).to_string()));
    let place = registry();
    let said = place.ok(&["import", "drupal", &site.url("")]);
    assert!(said.contains("refused  #4: the tool has no `name`\n3 added"), "{said}");
    let methods = place.exported();
    let rebuild = &methods["cache.rebuild"];
    assert_eq!((&rebuild["title"], &rebuild["safety"]), (&json!("Rebuild"), &json!("destructive")));
    assert_eq!(rebuild["annotations"], json!({"category": "system"}));
    assert_eq!(methods["sum"]["params_by"], "position");
    assert_eq!(methods["user.get"]["safety"], "read_only");
    assert!(methods.values().all(|method| method["exposed"] == true));
    assert!(place.tool("cache.rebuild")["inputSchema"]["properties"].is_object());
}

#[test]
fn our_own_faces_are_a_site_too() {
    let place = registry();
    let demo = place.serve(&["--demo"]);
    let url = format!("http://{}", demo.address());
    place.write("key", &format!("Bearer {}", demo.token("admin")));
    let header = ["--header-file", "Authorization=key"];
    let said = place.ok(&[&["import", "drupal", &url][..], &header].concat());
    assert!(said.starts_with("9 added"), "{said}");
    let table = format!(
        "[upstreams.default]\nurl = \"{url}/jsonrpc\"\nheaders = {{ Authorization = {{ file = \"key\" }} }}\n"
    );
    place.write("callgate.toml", &table);
    // By the table alone, and as the same site.
    for arguments in [&["import", "drupal"][..], &["import", "drupal", &url]] {
        let said = place.ok(arguments);
        assert!(said.starts_with("nothing changed"), "{said}");
    }
    let front = place.serve(&[]);
    let reply = front.invoke("", "user.get", &json!({"id_user": 2}));
    assert_eq!(reply.json()["result"]["name"], "Ravi Menon", "{}", reply.body);
}

#[test]
fn a_site_that_does_not_end_or_says_nothing_is_told() {
    let place = registry();
    let circle = Fake::start(|_| (200, json!({"tools": [], "nextCursor": "again"}).to_string()));
    let closed = Fake::start(|_| (403, String::new()));
    let plain = Fake::start(|asked| match asked.line.as_str() {
        "GET /jsonrpc/methods" => (200, "{\"message\":\"\"}".to_owned()),
        _ => (404, String::new()),
    });
    let breaks = Fake::start(|asked| match asked.line.as_str() {
        "GET /mcp/tools/list" => (200, json!({"tools": [], "nextCursor": "b"}).to_string()),
        _ => (500, String::new()),
    });
    let mut told = String::new();
    for site in [&circle, &closed, &plain, &breaks] {
        let (_, talk) = place.run(&["import", "drupal", &site.url("/")]).failure();
        told.push_str(&site.hide(&talk));
    }
    insta::assert_snapshot!(told);
    assert!(place.exported().is_empty());
}
