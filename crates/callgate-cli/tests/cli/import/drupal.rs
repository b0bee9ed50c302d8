//! `callgate import drupal`: a recorded site, the two modules in other forms, and Callgate's own REST
//! endpoints, which are compatible with `jsonrpc_mcp`.

mod invalid_replies;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::drupal_site::{self, Site, recorded_tools};
use crate::fake::{FakeService, ReceivedRequest};
use crate::support::{CommandOutput, TestDirectory};

/// Returns a reply of `jsonrpc_discovery`.
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
fn methods_of_jsonrpc_discovery_are_read_in_several_forms() {
    let site = FakeService::start(|request| match request.target() {
        "GET /sub/jsonrpc/methods" => (200, discovery().to_string()),
        _ => (404, String::new()),
    });
    let dir = TestDirectory::migrated();
    let url = site.url("/sub/");
    let arguments = ["import", "drupal", &url, "--from", "discovery", "--upstream", "drupal"];
    let output = dir.run(&[&arguments[..], &["--dry-run"]].concat());
    insta::assert_snapshot!(site.mask_port(&format!("{}\n{}", output.stderr(), output.stdout())));
    dir.ok(&arguments);
    let methods = dir.exported();
    let schema = json!({
        "type": "object",
        "properties": {
            "service": {"type": "string"},
            "page": {"type": "object", "properties": {"limit": {"type": "integer"}}},
        },
        "required": ["service"],
        "additionalProperties": false,
    });
    assert_eq!(methods["plugins.list"]["input_schema"], schema);
    assert_eq!(methods["plugins.list"]["params_by"], "name");
    let names = |id: &str| {
        let properties = methods[id]["input_schema"]["properties"].as_object().unwrap();
        (methods[id]["params_by"].clone(), properties.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(names("user.add"), (json!("position"), vec!["param1".into(), "param2".into()]));
    assert_eq!(names("list.get"), (json!("position"), vec!["first".into(), "param2".into()]));
    // The configuration decides whether these methods are tools.
    assert!(methods["plugins.list"].get("exposed").is_none());
    assert_eq!(dir.serve(&[]).tools("").len(), 5);
    assert!(dir.serve(&["--preset", "drupal"]).tools("").is_empty());
}

#[test]
fn tools_of_jsonrpc_mcp_are_read_page_by_page() {
    let page = |request: &ReceivedRequest| match request.target() {
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
    let site = FakeService::start(move |request| (200, page(request).to_string()));
    let dir = TestDirectory::migrated();
    let stdout = dir.ok(&["import", "drupal", &site.url("")]);
    assert!(stdout.contains("refused  #4: the tool has no `name`\n3 added"), "{stdout}");
    let methods = dir.exported();
    let rebuild = &methods["cache.rebuild"];
    assert_eq!((&rebuild["title"], &rebuild["safety"]), (&json!("Rebuild"), &json!("destructive")));
    assert_eq!(rebuild["annotations"], json!({"category": "system"}));
    assert_eq!(methods["sum"]["params_by"], "position");
    assert_eq!(methods["user.get"]["safety"], "read_only");
    assert!(methods.values().all(|method| method["exposed"] == true));
    assert!(dir.tool("cache.rebuild")["inputSchema"]["properties"].is_object());
}

#[test]
fn callgate_can_be_imported_like_a_drupal_site() {
    let dir = TestDirectory::migrated();
    let demo = dir.serve(&["--demo"]);
    let url = format!("http://{}", demo.address());
    dir.write("key", &format!("Bearer {}", demo.token("admin")));
    let header = ["--header-file", "Authorization=key"];
    let stdout = dir.ok(&[&["import", "drupal", &url][..], &header].concat());
    assert!(stdout.starts_with("9 added"), "{stdout}");
    let table = format!(
        "[upstreams.default]\nurl = \"{url}/jsonrpc\"\nheaders = {{ Authorization = {{ file = \"key\" }} }}\n"
    );
    dir.write("callgate.toml", &table);
    // The import uses the URL of the upstream if no URL is given.
    for arguments in [&["import", "drupal"][..], &["import", "drupal", &url]] {
        let stdout = dir.ok(arguments);
        assert!(stdout.starts_with("nothing changed"), "{stdout}");
    }
    let server = dir.serve(&[]);
    let reply = server.invoke("", "user.get", &json!({"id_user": 2}));
    assert_eq!(reply.json()["result"]["name"], "Ravi Menon", "{}", reply.body);
}

#[test]
fn a_site_with_endless_or_empty_replies_is_an_error() {
    let dir = TestDirectory::migrated();
    let endless =
        FakeService::start(|_| (200, json!({"tools": [], "nextCursor": "again"}).to_string()));
    let closed = FakeService::start(|_| (403, String::new()));
    let without_modules = FakeService::start(|request| match request.target() {
        "GET /jsonrpc/methods" => (200, "{\"message\":\"\"}".to_owned()),
        _ => (404, String::new()),
    });
    let failing = FakeService::start(|request| match request.target() {
        "GET /mcp/tools/list" => (200, json!({"tools": [], "nextCursor": "b"}).to_string()),
        _ => (500, String::new()),
    });
    let mut errors = String::new();
    for site in [&endless, &closed, &without_modules, &failing] {
        let (_, stderr) = dir.run(&["import", "drupal", &site.url("/")]).failure();
        errors.push_str(&site.mask_port(&stderr));
    }
    insta::assert_snapshot!(errors);
    assert!(dir.exported().is_empty());
}

/// Runs the import of the documentation as a user.
fn import(site: &Site, dir: &TestDirectory, credential: &str, options: &[&str]) -> CommandOutput {
    dir.write("who", credential);
    let url = site.url();
    let arguments = ["import", "drupal", &url, "--upstream", "drupal"];
    let header: &[&str] =
        if credential.is_empty() { &[] } else { &["--header-file", "Authorization=who"] };
    dir.run(&[&arguments[..], header, options].concat())
}

#[test]
fn a_real_site_is_imported_with_the_access_rules_of_its_tools() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let output = import(&site, &dir, "Bearer ada", &["--dry-run"]);
    let stdout = output.stdout();
    let stdout: Vec<&str> = stdout
        .lines()
        .filter(|line| !line.contains("bulk.") && !line.contains("Bulk tool"))
        .collect();
    let text = site.fake.mask_port(&format!("{}\n{}", output.stderr(), stdout.join("\n")));
    let text = text.replace(dir.path("").to_str().unwrap(), "[directory]/");
    insta::assert_snapshot!(text);
    assert!(import(&site, &dir, "Bearer ada", &[]).0.status.success());
    let methods = dir.exported();
    assert_eq!(methods.keys().cloned().collect::<Vec<_>>(), recorded_tools("ada-bearer"));
    let without_output: Vec<&String> = methods
        .iter()
        .filter(|(_, it)| it.get("output_schema").is_none())
        .map(|(id, _)| id)
        .collect();
    assert_eq!(without_output, ["probe.nothing"], "all other tools have an output schema");
    assert_eq!(methods["probe.zero"]["input_schema"]["properties"], json!({}));
}

#[test]
fn numbered_parameters_are_positional() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    for from in ["tools", "discovery"] {
        assert!(import(&site, &dir, "Bearer ada", &["--from", from]).0.status.success());
        let method = &dir.exported()["probe.positional"];
        assert_eq!(method["params_by"], "position", "{from}");
        let schema = &method["input_schema"];
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["param1", "param2"], "{from}");
        assert_eq!(schema["required"], json!(["param1", "param2"]), "{from}");
    }
}

#[test]
fn a_refused_request_is_not_reported_as_a_missing_module() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let mut errors = String::new();
    for credential in ["", "Basic ada", "Bearer wrong"] {
        let (_, stderr) = import(&site, &dir, credential, &[]).failure();
        errors.push_str(&[credential, "\n", &site.fake.mask_port(&stderr)].concat());
    }
    site.rule(|_| Some(drupal_site::page(503)));
    errors.push_str(&site.fake.mask_port(&import(&site, &dir, "Bearer ada", &[]).failure().1));
    site.rule(|_| Some(drupal_site::page(200)));
    errors.push_str(&site.fake.mask_port(&import(&site, &dir, "Bearer ada", &[]).failure().1));
    site.rule(|request| request.target().contains("/mcp/").then(drupal_site::not_found));
    errors.push_str(&site.fake.mask_port(&import(&site, &dir, "Bearer ada", &[]).failure().1));
    insta::assert_snapshot!(errors);
    assert!(dir.exported().is_empty());
    let requests = site.fake.log.requests();
    assert!(
        requests.iter().all(|request| request.target() == "GET /mcp/tools/list"),
        "{requests:?}"
    );
    // With `--from discovery`, the list of `jsonrpc_discovery` is read.
    assert!(import(&site, &dir, "Basic ada", &["--from", "discovery"]).0.status.success());
    assert!(dir.exported().contains_key("probe.unmarked"));
}

#[test]
fn discovery_does_not_replace_tools_and_tools_replace_discovery() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    assert!(import(&site, &dir, "Bearer ada", &["--from", "discovery"]).0.status.success());
    assert!(dir.exported()["probe.unmarked"].get("exposed").is_none());
    assert!(import(&site, &dir, "Bearer ada", &[]).0.status.success());
    let methods = dir.exported();
    assert_eq!(methods["probe.unmarked"]["exposed"], false, "it is no tool");
    assert_eq!(methods["probe.echo"]["title"], "Echo");
    let stdout = import(&site, &dir, "Bearer ada", &["--from", "discovery"]).stdout();
    assert!(
        stdout.contains("kept     probe.echo: all columns, since Drupal site describes the method in more detail"),
        "{stdout}"
    );
    assert_eq!(dir.exported()["probe.echo"], methods["probe.echo"]);
}

#[test]
fn tools_with_a_login_or_scopes_are_restricted() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    assert!(import(&site, &dir, "Bearer ada", &[]).0.status.success());
    dir.ok(&["user", "add", "eve"]);
    dir.ok(&["user", "add", "kim"]);
    dir.ok(&["grant", "set", "--user", "kim", "content", "read"]);
    let (eve, kim) = (dir.ok(&["token", "add", "eve"]), dir.ok(&["token", "add", "kim"]));
    let server = dir.serve(&[]);
    let is_visible = |token: &str| {
        let ids = ["probe.open", "probe.authRequired", "probe.scoped", "test.methodWithAuth"];
        let path = |id: &str| format!("/mcp/tools/describe?name={id}");
        ids.map(|id| server.get(token.trim(), &path(id)).status == 200)
    };
    assert_eq!(is_visible(""), [true, false, false, false], "nobody");
    assert_eq!(is_visible(&eve), [true, true, false, false], "a user");
    assert_eq!(is_visible(&kim), [true, true, true, false], "a user with read on `content`");
    dir.ok(&["grant", "set", "--user", "kim", "content", "write"]);
    server.wait_until("write counts", |_| is_visible(&kim) == [true, true, true, true]);
    let stdout = dir.ok(&["method", "show", "probe.authRequired", "--user", "eve"]);
    assert!(
        stdout.contains("section `@authenticated` needs read (2), the grant of every user is read"),
        "{stdout}"
    );
}

#[test]
fn sections_of_the_command_line_are_required_in_addition_to_a_login() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    assert!(import(&site, &dir, "Bearer ada", &["--section", "site"]).0.status.success());
    let methods = dir.exported();
    let sections =
        |id: &str| methods[id]["sections"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(sections("probe.authRequired"), ["@authenticated", "site"]);
    assert_eq!(sections("probe.scoped"), ["@authenticated", "content", "site"]);
    assert_eq!(sections("probe.open"), ["site"]);
}

#[test]
fn an_import_can_use_another_credential_than_calls() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let url = site.url();
    dir.write("ada", "Bearer ada");
    let table = format!(
        "[upstreams.drupal]\nurl = \"{url}/jsonrpc\"\nheaders = {{ Authorization = \"Bearer bob\" }}\n"
    );
    dir.write("callgate.toml", &table);
    let arguments = ["import", "drupal", "--upstream", "drupal"];
    dir.ok(&arguments);
    assert_eq!(dir.exported().len(), 25, "what bob may see, who calls");
    dir.ok(&[&arguments[..], &["--header-file", "Authorization=ada"]].concat());
    assert_eq!(dir.exported().len(), 86, "what ada may see, who imports");
    let reply = dir.serve(&[]).invoke("", "probe.whoami", &json!({}));
    assert_eq!(reply.json()["result"]["name"], "bob", "{}", reply.body);
}

/// Reads a log up to the first line with all of the words.
fn wait_for_line(log: &mut impl BufRead, parts: &[&str]) {
    let mut line = String::new();
    while !parts.iter().all(|part| line.contains(part)) {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log ends without {parts:?}");
    }
}

#[test]
fn a_repeated_import_whose_list_fails_changes_nothing_and_logs_the_reason() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    dir.write("who", "Bearer ada");
    let url = site.url();
    let arguments =
        json!(["drupal", url, "--upstream", "drupal", "--header-file", "Authorization=who"]);
    let table = format!("[imports.site]\narguments = {arguments}\nevery_seconds = 1\n");
    dir.write("callgate.toml", &table);
    let mut command = dir.command(&["serve", "--listen", "127.0.0.1:0"]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap());
    wait_for_line(&mut log, &["import `site` wrote these changes"]);
    // The server assigns the tool names a little later.
    let exported = || {
        let mut methods = dir.exported();
        methods.values_mut().for_each(|it| drop(it.as_object_mut().unwrap().remove("tool_name")));
        methods
    };
    let before = exported();
    assert_eq!(before.len(), 86);
    let page = json!({"tools": [{"name": "probe.echo"}], "nextCursor": "NTA="}).to_string();
    for (reply, reason) in [
        (drupal_site::page(403), "HTTP 403"),
        (drupal_site::page(401), "HTTP 401"),
        (drupal_site::page(500), "HTTP 500"),
        (drupal_site::page(200), "no list of tools"),
        ((200, json!({"tools": []}).to_string()).into(), "no methods any more"),
        ((200, page[..page.len() / 2].to_owned()).into(), "the reply has no list of tools"),
        (drupal_site::not_found(), "does not have the module"),
    ] {
        site.rule(move |request| {
            request.target().contains("/mcp/tools/list").then(|| reply.clone())
        });
        wait_for_line(&mut log, &["import `site` failed, methods are unchanged", reason]);
        assert!(exported() == before, "{reason}");
        site.rule(|_| None);
        wait_for_line(&mut log, &["import `site` can be read again"]);
    }
    assert!(
        site.fake.log.requests().iter().all(|request| request.target() != "GET /jsonrpc/methods")
    );
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_result_that_violates_its_output_schema_is_returned_as_text() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    assert!(import(&site, &dir, "Bearer ada", &[]).0.status.success());
    site.rule(|request| {
        let reply = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {"text": 7}});
        (request.body["method"] == "probe.echo").then(|| (200, reply.to_string()).into())
    });
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "probe_echo", "arguments": {"text": "a"}},
    });
    let mut results = Vec::new();
    for trust in ["false", "true"] {
        let table = format!(
            "[upstreams.drupal]\nurl = \"{}/jsonrpc\"\ntrust_results = {trust}\n",
            site.url()
        );
        dir.write("callgate.toml", &table);
        let server = dir.serve(&[]);
        let version = "MCP-Protocol-Version: 2025-06-18\r\n";
        let reply = server.request_with("POST /mcp", version, "", &call.to_string());
        results.push(reply.json()["result"].clone());
        let reply = server.invoke("", "probe.echo", &json!({"text": "a"}));
        assert_eq!(reply.json(), json!({"result": {"text": 7}}), "REST has the result as it is");
    }
    insta::assert_json_snapshot!(results);
}

#[test]
fn a_tool_that_requires_a_login_is_401_for_anonymous_callers() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    assert!(import(&site, &dir, "Bearer ada", &[]).0.status.success());
    dir.write("callgate.toml", &format!("[upstreams.drupal]\nurl = \"{}/jsonrpc\"\n", site.url()));
    let server = dir.serve(&[]);
    let mut text = String::new();
    for id in ["probe.authRequired", "probe.scoped", "probe.nosuch"] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": id, "params": {}}).to_string();
        for reply in [
            server.invoke("", id, &json!({})),
            server.request(&format!("POST /mcp/tools/{id}"), "", &call),
            server.request("POST /jsonrpc", "", &call),
            server.get("", &format!("/mcp/tools/describe?name={id}")),
        ] {
            let challenge = reply.header("www-authenticate").unwrap_or("no challenge");
            let body = reply.body.split("\"error_id\"").next().unwrap();
            text.push_str(
                &[id, " ", &reply.status.to_string(), " ", challenge, " ", body, "\n"].concat(),
            );
        }
    }
    insta::assert_snapshot!(text);
    assert!(site.fake.log.requests().iter().all(|request| !request.target().starts_with("POST")));
}

#[test]
fn calls_are_sent_to_the_url_of_their_tool_if_the_site_has_such_urls() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let url = site.url();
    // An upstream in the registry is changed. For an upstream in the file, the keys are suggested.
    dir.allow_targets("127.0.0.1");
    dir.ok(&["upstream", "set", "drupal", &format!("url={url}/jsonrpc")]);
    let stderr = import(&site, &dir, "Bearer ada", &["--dry-run"]).stderr();
    let keys = "calls = \"per_tool\", null_is_absent = true";
    assert!(stderr.contains(&format!("upstream `drupal` would be set: {keys}")), "{stderr}");
    let stderr = import(&site, &dir, "Bearer ada", &[]).stderr();
    assert!(stderr.contains(&format!("set upstream `drupal`: {keys}")), "{stderr}");
    let stderr = import(&site, &dir, "Bearer ada", &[]).stderr();
    assert!(!stderr.contains("upstream `drupal`:"), "{stderr}");
    let server = dir.serve(&[]);
    let reply = server.invoke("", "probe.whoami", &json!({}));
    assert_eq!(reply.json()["result"]["roles"], json!(["anonymous"]), "{}", reply.body);
    let reply = server.invoke("", "probe.echo", &json!({"text": "a", "deep": null}));
    assert_eq!(reply.status, 404, "the recording has no such call: {}", reply.body);
    let requests = site.fake.log.requests();
    let sent: Vec<&str> = requests.iter().rev().take(2).map(ReceivedRequest::target).collect();
    assert_eq!(sent, ["POST /mcp/tools/probe.echo", "POST /mcp/tools/probe.whoami"]);
    let params = &requests.last().unwrap().body["params"];
    assert_eq!(params, &json!({"text": "a", "times": 1}), "null is absent");
    drop(server);
    dir.ok(&["upstream", "remove", "drupal"]);
    dir.write("callgate.toml", &format!("[upstreams.drupal]\nurl = \"{url}/jsonrpc\"\n"));
    let stderr = import(&site, &dir, "Bearer ada", &[]).stderr();
    let note = "note: [upstreams.drupal] in the configuration should also have\n\
                calls = \"per_tool\"\nnull_is_absent = true\n";
    assert!(stderr.contains(note), "{stderr}");
    // Before version 1.4 of `jsonrpc_mcp`, there is one URL for all tools.
    site.rule(|request| {
        (request.target() == "GET /mcp/tools/invoke").then(|| drupal_site::page(405))
    });
    let stderr = import(&site, &dir, "Bearer ada", &[]).stderr();
    assert!(!stderr.contains("per_tool"), "{stderr}");
}
