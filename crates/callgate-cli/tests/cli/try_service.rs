//! `callgate try`: serves a service as tools, without configuration and without writing files.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::{Value, json};

use super::drupal_site::{self, Site};
use super::fake::{FakeResponse, FakeService};
use super::support::{Server, TestDirectory};

fn document() -> Value {
    let id = json!({"name": "id", "required": true, "schema": {"type": "integer"}});
    let result = json!({"name": "pet", "schema": {}});
    json!({"openrpc": "1.3.2", "info": {"title": "Pets", "version": "1"}, "methods": [
        {"name": "pet.get", "summary": "One pet.\nMore of it.", "params": [id], "result": result},
        {"name": "pet.feed", "params": [id], "result": result},
        {"name": "pet.odd", "params": [{"name": "a"}, {"name": "a"}], "result": result},
        {"name": "pet.old", "params": [], "result": result, "deprecated": true},
    ]})
}

fn pets() -> FakeService {
    FakeService::json_rpc(|method, params| match method {
        "rpc.discover" => Some(document()),
        "pet.get" => Some(json!({"number": params[0]})),
        _ => None,
    })
}

/// Starts the command, and reads its first line, which is JSON.
fn start(dir: &TestDirectory, url: &str, options: &[&str]) -> Server {
    Server::start(dir.command(&[&["try", url, "--json"], options].concat()))
}

#[test]
fn tools_are_printed_with_the_address_and_a_client_configuration() {
    let (service, dir) = (pets(), TestDirectory::new());
    let mut command = dir.command(&["try", &service.url("/rpc")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut stdout: Vec<String> = lines.by_ref().take_while(|line| line != "}").collect();
    stdout.push("}".to_owned());
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(child.wait().unwrap().success(), "Ctrl-C is how it ends");
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let stdout = service.mask_port(&stdout.join("\n"));
    let address = stdout.split("MCP is at http://").nth(1).unwrap().split('/').next().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let stdout =
        stdout.replace(address, "[address]").replace(env!("CARGO_BIN_EXE_callgate"), "callgate");
    insta::assert_snapshot!(stdout);
    let stderr = service.mask_port(&stderr);
    let lines = stderr.lines().skip_while(|line| !line.starts_with("To keep these tools"));
    let lines: Vec<&str> = lines.take(6).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    To keep these tools, with users and access control, run in an empty directory:
      callgate migrate
      printf '%s\n' '[registry_upstreams]' 'targets = "127.0.0.1:[port]"' > callgate.toml
      callgate upstream set default url=http://127.0.0.1:[port]/rpc
      callgate import openrpc http://127.0.0.1:[port]/rpc
      callgate serve
    "#);
    assert_eq!(std::fs::read_dir(dir.path("")).unwrap().count(), 0, "nothing is written");
}

#[test]
fn calls_are_checked_and_sent_to_the_service() {
    let (service, dir) = (pets(), TestDirectory::new());
    // An invalid configuration file in the directory is ignored.
    dir.write("callgate.toml", "nonsense = 1\n");
    let server = start(&dir, &service.url("/rpc"), &[]);
    assert_eq!(server.start["found_by"], "rpc.discover");
    assert_eq!(server.tools(""), ["pet.feed", "pet.get"]);
    let reply = server.invoke("", "pet.get", &json!({"id": 7}));
    assert_eq!(reply.json(), json!({"result": {"number": 7}}));
    assert_eq!(server.invoke("", "pet.get", &json!({"id": "x"})).status, 400);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pet_feed", "arguments": {"id": 1}}});
    let reply = server.request("POST /mcp", "", &call.to_string()).json();
    let text = &reply["result"]["content"][0]["text"];
    assert_eq!(text, "Method not found (code -32601)");
}

#[test]
fn each_kind_of_description_is_found() {
    let dir = TestDirectory::new();
    let listing_service = FakeService::json_rpc(|method, params| match method {
        "system.listMethods" => Some(json!(["item.get", "system.listMethods"])),
        "item.get" => Some(params.clone()),
        _ => None,
    });
    let server = start(&dir, &listing_service.url("/rpc"), &[]);
    assert_eq!(server.start["found_by"], "system.listMethods");
    let reply = server.invoke("", "item.get", &json!({"params": [1, 2]}));
    assert_eq!(reply.json(), json!({"result": [1, 2]}));
    let document_service = FakeService::start(|request| match request.target() {
        "GET /rpc" => (200, document().to_string()),
        _ => (405, String::new()),
    });
    let server = start(&dir, &document_service.url("/rpc"), &[]);
    assert_eq!(server.start["found_by"], "a document at its URL");
    let demo = dir.serve(&["--demo"]);
    dir.write("key", &format!("Bearer {}", demo.token("admin")));
    let url = format!("http://{}/", demo.address());
    let server = start(&dir, &url, &["--header-file", "Authorization=key"]);
    assert_eq!(server.start["found_by"], "Drupal's module jsonrpc_mcp");
    let reply = server.invoke("", "user.get", &json!({"id_user": 2}));
    assert_eq!(reply.json()["result"]["name"], "Ravi Menon", "{}", reply.body);
}

#[test]
fn attempts_are_listed_if_no_description_is_found() {
    let dir = TestDirectory::new();
    let service = FakeService::json_rpc(|_, _| None);
    let mut errors = service.mask_port(&dir.run(&["try", &service.url("/rpc")]).failure().1);
    let url = "http://127.0.0.1:9/";
    for arguments in [
        &["try", url, "--listen", "0.0.0.0:0"][..],
        &["try", "localhost"],
        &["try", "localhost:6800"],
        &["try", "a.yaml"],
        &["import", "introspect", "localhost:6800/jsonrpc"],
        &["try", url, "--database", "sqlite:x.db"],
    ] {
        errors.push_str(&dir.run(arguments).failure().1);
    }
    insta::assert_snapshot!(errors);
}

#[test]
fn a_service_with_unmet_requirements_is_requested_once_and_reported_with_a_hint() {
    let dir = TestDirectory::new();
    let mut errors = String::new();
    let session = || FakeResponse::empty(409).with("X-Transmission-Session-Id", "a1");
    let services = [
        FakeService::start(|_| FakeResponse::text(426, "text/plain", "Upgrade Required")),
        FakeService::start(move |_| session()),
        FakeService::start(|request| {
            request.error(200, json!({"code": 1, "message": "Not authenticated"}))
        }),
    ];
    for service in &services {
        errors.push_str(&service.mask_port(&dir.run(&["try", &service.url("/rpc")]).failure().1));
        assert_eq!(service.log.requests().len(), 1);
    }
    let page = FakeService::start(|_| FakeResponse::text(200, "text/html", "<h1>Welcome</h1>"));
    errors.push_str(&page.mask_port(&dir.run(&["try", &page.url("/")]).failure().1));
    insta::assert_snapshot!(errors, @r#"
    callgate: http://127.0.0.1:[port]/rpc: POST rpc.discover: HTTP 426: the service expects another protocol: "Upgrade Required"; set `url` to `ws://…` or `wss://…`
    hint: give the URL with the scheme that the service expects
    callgate: http://127.0.0.1:[port]/rpc: POST rpc.discover: HTTP 409: the service expects a session; set `login.header` to `x-transmission-session-id`
    hint: the service expects a login: configure it as `login` of an upstream in callgate.toml, and import the methods with `--upstream NAME`
    callgate: http://127.0.0.1:[port]/rpc: POST rpc.discover: Not authenticated (code 1)
    hint: the service expects a login: configure it as `login` of an upstream in callgate.toml, and import the methods with `--upstream NAME`
    callgate: http://127.0.0.1:[port]/ does not respond with JSON-RPC
      POST rpc.discover: the response is `text/html`, not JSON: "Welcome"
      GET: the reply is not JSON
      GET /mcp/tools/list: the reply has no list of tools
    hint: check the path of the URL, such as `/rpc` or `/jsonrpc`; for Drupal without `jsonrpc_mcp`, `--from discovery` reads all methods
    "#);
}

#[test]
fn other_descriptions_are_not_tried_after_a_refusal() {
    let (site, dir) = (Site::start(), TestDirectory::new());
    // Drupal's front page gives this reply to every POST.
    site.rule(|request| request.target().ends_with(" /").then(|| drupal_site::page(200)));
    let mut errors = String::new();
    for credential in ["Basic ada", "Bearer wrong"] {
        dir.write("who", credential);
        let url = site.url();
        let output = dir.run(&["try", &url, "--header-file", "Authorization=who"]);
        errors.push_str(&site.fake.mask_port(&output.failure().1));
    }
    insta::assert_snapshot!(errors, @"
    callgate: http://127.0.0.1:[port]/: GET /mcp/tools/list: HTTP 403: the configured credentials lack a permission or are wrong
    hint: the user needs the permission `access mcp tool discovery`, and a credential that the route accepts: an OAuth bearer token, not HTTP Basic
    callgate: http://127.0.0.1:[port]/: GET /mcp/tools/list: HTTP 401: the service does not accept the configured credentials
    hint: the user needs the permission `access mcp tool discovery`, and a credential that the route accepts: an OAuth bearer token, not HTTP Basic
    ");
    assert!(
        site.fake
            .log
            .requests()
            .iter()
            .all(|request| !request.target().contains("/jsonrpc/methods"))
    );
    dir.write("who", "Bearer ada");
    let header = ["--header-file", "Authorization=who"];
    let server = start(&dir, &site.url(), &header);
    assert_eq!(
        (&server.start["found_by"], &server.start["tools"]),
        (&json!("Drupal's module jsonrpc_mcp"), &json!(86))
    );
    drop(server);
    let server = start(&dir, &site.url(), &[&header[..], &["--from", "discovery"]].concat());
    assert_eq!(server.start["found_by"], "Drupal's module jsonrpc_discovery");
}

/// Runs the commands that `try` prints, in an empty directory and without `serve`.
fn run_printed_commands(dir: &TestDirectory, arguments: &[&str]) -> TestDirectory {
    let mut command = dir.command(&[&["try"], arguments].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let lines = lines.skip_while(|line| !line.starts_with("To keep these tools")).skip(1);
    let script: Vec<String> = lines.take_while(|line| line != "  callgate serve").collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let empty = TestDirectory::new();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_callgate"));
    let script = script.join(" &&").replace("callgate ", &format!("'{}' ", program.display()));
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(empty.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    empty
}

#[test]
fn the_printed_commands_reproduce_the_tools() {
    let (service, dir) = (pets(), TestDirectory::new());
    let new_dir = run_printed_commands(&dir, &[&service.url("/rpc")]);
    assert_eq!(new_dir.ok(&["call", "pet.get", r#"{"id": 7}"#]), "{\"number\":7}\n");
    let server = new_dir.serve(&[]);
    assert_eq!(server.tools(""), ["pet.feed", "pet.get"]);
}

#[test]
fn the_printed_commands_include_the_credentials() {
    let (site, dir) = (Site::start(), TestDirectory::new());
    site.rule(|request| request.target().ends_with(" /").then(|| drupal_site::page(200)));
    dir.write("my key", "Bearer ada");
    let new_dir =
        run_printed_commands(&dir, &[&site.url(), "--header-file", "Authorization=my key"]);
    assert_eq!(new_dir.ok(&["method", "list", "--json"]).lines().count(), 86);
    let keys: Value =
        serde_json::from_str(&new_dir.ok(&["upstream", "show", "default", "--json"])).unwrap();
    assert_eq!(keys["headers"]["Authorization"], json!({"file": dir.path("my key")}));
}

/// A service behind HTTP Basic that has one method, and fails to run it.
fn basic_auth_service() -> FakeService {
    FakeService::start(|request| {
        // The user and the password in Base64.
        if request.header("authorization") != Some("Basic YWRhOnMzY3JldA==") {
            return FakeResponse::empty(401).with("WWW-Authenticate", "Basic realm=\"jsonrpc\"");
        }
        match request.method() {
            "system.listMethods" => request.result(json!(["item.get"])),
            "item.get" => FakeResponse::text(500, "text/plain", "disk full, s3cret"),
            _ => request.error(200, json!({"code": -32601, "message": "Method not found"})),
        }
    })
}

#[test]
fn http_basic_takes_a_user_and_a_password_from_a_file_or_a_variable() {
    let (service, dir) = (basic_auth_service(), TestDirectory::new());
    dir.write("password", "s3cret\n");
    let url = service.url("/");
    let server = start(&dir, &url, &["--basic", "ada", "--password-file", "password"]);
    assert_eq!(server.start["found_by"], "system.listMethods");
    // The person who tries the service sees its message, without the password.
    let reply = server.invoke("", "item.get", &json!({"params": []})).json();
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("The service responded: \"disk full, …\""), "{message}");

    let with_user = url.replace("http://", "http://ada:s3cret@");
    let mut errors = String::new();
    for arguments in [
        &["try", &url][..],
        &["try", &url, "--basic", "ada"],
        &["try", &url, "--basic", "ada", "--password-env", "NO_SUCH_VARIABLE"],
        &["try", &with_user],
    ] {
        let (_, error) = dir.run(arguments).failure();
        errors.push_str(&service.mask_port(&error));
    }
    assert!(!errors.contains("s3cret"), "{errors}");
    insta::assert_snapshot!(errors);
}

#[test]
fn http_basic_is_included_in_suggested_configurations_and_in_upstreams() {
    let (service, dir) = (basic_auth_service(), TestDirectory::new());
    dir.write("password", "s3cret");
    dir.write(
        "callgate.toml",
        "[registry_upstreams]\ntargets = \"127.0.0.1\"\ndirectory = \".\"\n",
    );
    dir.ok(&["migrate"]);
    let basic = ["--basic", "ada", "--password-file", "password"];
    let url = service.url("/");
    let output = dir.run(&[&["import", "introspect", &url][..], &basic].concat());
    let text = format!("{}{}", output.stdout(), output.stderr());
    let file = json!(dir.path("password"));
    let keys = format!("basic_user = \"ada\"\nbasic_password = {{ file = {file} }}");
    assert!(text.contains(&keys), "{text}");
    dir.ok(&[&["upstream", "set", "default", &format!("url={url}")][..], &basic].concat());
    let upstream = dir.ok(&["upstream", "show", "default", "--json"]);
    let upstream: Value = serde_json::from_str(&upstream).unwrap();
    assert_eq!(upstream["basic_user"], "ada");
    assert_eq!(upstream["basic_password"], json!({"file": "password"}));
    let server = dir.serve(&[]);
    let reply = server.invoke("", "item.get", &json!({"params": []})).json();
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("The service's response is in Callgate's log."), "{message}");
    let denied = ["upstream", "set", "other", &format!("url={url}"), "--basic", "ada"];
    let denied = dir.run(&[&denied[..], &["--password-env", "HOME"]].concat());
    assert!(denied.stderr().contains("does not allow the variable `HOME`"), "{}", denied.stderr());
}
