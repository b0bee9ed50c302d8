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
    FakeService::service(|method, params| match method {
        "rpc.discover" => Some(document()),
        "pet.get" => Some(json!({"number": params[0]})),
        _ => None,
    })
}

/// Starts the command, and reads its first line, which is JSON.
fn start(dir: &TestDirectory, url: &str, more: &[&str]) -> Server {
    Server::start(dir.command(&[&["try", url, "--json"], more].concat()))
}

#[test]
fn tools_are_printed_with_the_address_and_a_client_configuration() {
    let (service, dir) = (pets(), TestDirectory::new());
    let mut command = dir.command(&["try", &service.url("/rpc")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said: Vec<String> = lines.by_ref().take_while(|line| line != "}").collect();
    said.push("}".to_owned());
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(child.wait().unwrap().success(), "Ctrl-C is how it ends");
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    let said = service.hide(&said.join("\n"));
    let address = said.split("MCP is at http://").nth(1).unwrap().split('/').next().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let said =
        said.replace(address, "[address]").replace(env!("CARGO_BIN_EXE_callgate"), "callgate");
    insta::assert_snapshot!(said);
    let talk = service.hide(&talk);
    let lines = talk.lines().skip_while(|line| !line.starts_with("To keep these tools"));
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
fn calls_reach_the_service_and_are_checked() {
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
    let lists = FakeService::service(|method, params| match method {
        "system.listMethods" => Some(json!(["item.get", "system.listMethods"])),
        "item.get" => Some(params.clone()),
        _ => None,
    });
    let server = start(&dir, &lists.url("/rpc"), &[]);
    assert_eq!(server.start["found_by"], "system.listMethods");
    let reply = server.invoke("", "item.get", &json!({"params": [1, 2]}));
    assert_eq!(reply.json(), json!({"result": [1, 2]}));
    let has_it = FakeService::start(|asked| match asked.target() {
        "GET /rpc" => (200, document().to_string()),
        _ => (405, String::new()),
    });
    let server = start(&dir, &has_it.url("/rpc"), &[]);
    assert_eq!(server.start["found_by"], "a document at its URL");
    let demo = dir.serve(&["--demo"]);
    dir.write("key", &format!("Bearer {}", demo.token("admin")));
    let site = format!("http://{}/", demo.address());
    let server = start(&dir, &site, &["--header-file", "Authorization=key"]);
    assert_eq!(server.start["found_by"], "Drupal's module jsonrpc_mcp");
    let reply = server.invoke("", "user.get", &json!({"id_user": 2}));
    assert_eq!(reply.json()["result"]["name"], "Ravi Menon", "{}", reply.body);
}

#[test]
fn attempts_are_listed_if_no_description_is_found() {
    let dir = TestDirectory::new();
    let service = FakeService::service(|_, _| None);
    let mut told = service.hide(&dir.run(&["try", &service.url("/rpc")]).failure().1);
    let url = "http://127.0.0.1:9/";
    for arguments in [
        &["try", url, "--listen", "0.0.0.0:0"][..],
        &["try", "localhost"],
        &["try", "localhost:6800"],
        &["try", "a.yaml"],
        &["import", "introspect", "localhost:6800/jsonrpc"],
        &["try", url, "--database", "sqlite:x.db"],
    ] {
        told.push_str(&dir.run(arguments).failure().1);
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_service_that_needs_more_than_try_sends_is_asked_once_and_the_way_is_named() {
    let dir = TestDirectory::new();
    let mut told = String::new();
    let session = || FakeResponse::empty(409).with("X-Transmission-Session-Id", "a1");
    let services = [
        FakeService::start(|_| FakeResponse::text(426, "text/plain", "Upgrade Required")),
        FakeService::start(move |_| session()),
        FakeService::start(|asked| {
            asked.error(200, json!({"code": 1, "message": "Not authenticated"}))
        }),
    ];
    for service in &services {
        told.push_str(&service.hide(&dir.run(&["try", &service.url("/rpc")]).failure().1));
        assert_eq!(service.log.requests().len(), 1);
    }
    let page = FakeService::start(|_| FakeResponse::text(200, "text/html", "<h1>Welcome</h1>"));
    told.push_str(&page.hide(&dir.run(&["try", &page.url("/")]).failure().1));
    insta::assert_snapshot!(told, @r#"
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
    site.rule(|asked| asked.target().ends_with(" /").then(|| drupal_site::page(200)));
    let mut told = String::new();
    for who in ["Basic ada", "Bearer wrong"] {
        dir.write("who", who);
        let url = site.url();
        let ran = dir.run(&["try", &url, "--header-file", "Authorization=who"]);
        told.push_str(&site.fake.hide(&ran.failure().1));
    }
    insta::assert_snapshot!(told, @"
    callgate: http://127.0.0.1:[port]/: GET /mcp/tools/list: HTTP 403: the configured credentials lack a permission or are wrong
    hint: the user needs the permission `access mcp tool discovery`, and a credential that the route accepts: an OAuth bearer token, not HTTP Basic
    callgate: http://127.0.0.1:[port]/: GET /mcp/tools/list: HTTP 401: the service does not accept the configured credentials
    hint: the user needs the permission `access mcp tool discovery`, and a credential that the route accepts: an OAuth bearer token, not HTTP Basic
    ");
    assert!(
        site.fake.log.requests().iter().all(|asked| !asked.target().contains("/jsonrpc/methods"))
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
fn run_printed(dir: &TestDirectory, arguments: &[&str]) -> TestDirectory {
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
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(empty.path(""))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
    empty
}

#[test]
fn the_printed_commands_keep_the_tools() {
    let (service, dir) = (pets(), TestDirectory::new());
    let kept = run_printed(&dir, &[&service.url("/rpc")]);
    assert_eq!(kept.ok(&["call", "pet.get", r#"{"id": 7}"#]), "{\"number\":7}\n");
    let server = kept.serve(&[]);
    assert_eq!(server.tools(""), ["pet.feed", "pet.get"]);
}

#[test]
fn the_printed_commands_have_the_credentials() {
    let (site, dir) = (Site::start(), TestDirectory::new());
    site.rule(|asked| asked.target().ends_with(" /").then(|| drupal_site::page(200)));
    dir.write("my key", "Bearer ada");
    let kept = run_printed(&dir, &[&site.url(), "--header-file", "Authorization=my key"]);
    assert_eq!(kept.ok(&["method", "list", "--json"]).lines().count(), 86);
    let keys: Value =
        serde_json::from_str(&kept.ok(&["upstream", "show", "default", "--json"])).unwrap();
    assert_eq!(keys["headers"]["Authorization"], json!({"file": dir.path("my key")}));
}

/// A service behind HTTP Basic that has one method, and fails to run it.
fn behind_basic() -> FakeService {
    FakeService::start(|seen| {
        // The user and the password in Base64.
        if seen.header("authorization") != Some("Basic YWRhOnMzY3JldA==") {
            return FakeResponse::empty(401).with("WWW-Authenticate", "Basic realm=\"jsonrpc\"");
        }
        match seen.method() {
            "system.listMethods" => seen.result(json!(["item.get"])),
            "item.get" => FakeResponse::text(500, "text/plain", "disk full, s3cret"),
            _ => seen.error(200, json!({"code": -32601, "message": "Method not found"})),
        }
    })
}

#[test]
fn basic_is_given_by_user_and_a_place_of_the_password() {
    let (service, dir) = (behind_basic(), TestDirectory::new());
    dir.write("password", "s3cret\n");
    let url = service.url("/");
    let server = start(&dir, &url, &["--basic", "ada", "--password-file", "password"]);
    assert_eq!(server.start["found_by"], "system.listMethods");
    // The person who tries the service sees its message, without the password.
    let reply = server.invoke("", "item.get", &json!({"params": []})).json();
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("The service responded: \"disk full, …\""), "{message}");

    let with_user = url.replace("http://", "http://ada:s3cret@");
    let mut told = String::new();
    for arguments in [
        &["try", &url][..],
        &["try", &url, "--basic", "ada"],
        &["try", &url, "--basic", "ada", "--password-env", "NO_SUCH_VARIABLE"],
        &["try", &with_user],
    ] {
        let (_, error) = dir.run(arguments).failure();
        told.push_str(&service.hide(&error));
    }
    assert!(!told.contains("s3cret"), "{told}");
    insta::assert_snapshot!(told);
}

#[test]
fn basic_is_kept_in_what_an_import_suggests_and_in_upstreams() {
    let (service, dir) = (behind_basic(), TestDirectory::new());
    dir.write("password", "s3cret");
    dir.write(
        "callgate.toml",
        "[registry_upstreams]\ntargets = \"127.0.0.1\"\ndirectory = \".\"\n",
    );
    dir.ok(&["migrate"]);
    let basic = ["--basic", "ada", "--password-file", "password"];
    let url = service.url("/");
    let ran = dir.run(&[&["import", "introspect", &url][..], &basic].concat());
    let told = format!("{}{}", ran.stdout(), ran.stderr());
    let file = json!(dir.path("password"));
    let keys = format!("basic_user = \"ada\"\nbasic_password = {{ file = {file} }}");
    assert!(told.contains(&keys), "{told}");
    dir.ok(&[&["upstream", "set", "default", &format!("url={url}")][..], &basic].concat());
    let shown = dir.ok(&["upstream", "show", "default", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["basic_user"], "ada");
    assert_eq!(shown["basic_password"], json!({"file": "password"}));
    let server = dir.serve(&[]);
    let reply = server.invoke("", "item.get", &json!({"params": []})).json();
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("The service's response is in Callgate's log."), "{message}");
    let denied = ["upstream", "set", "other", &format!("url={url}"), "--basic", "ada"];
    let denied = dir.run(&[&denied[..], &["--password-env", "HOME"]].concat());
    assert!(denied.stderr().contains("does not allow the variable `HOME`"), "{}", denied.stderr());
}
