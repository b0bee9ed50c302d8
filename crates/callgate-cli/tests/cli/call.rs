//! `callgate call`: calls a tool from the command line.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use super::fake::FakeService;
use super::support::{CommandOutput, TestDirectory};

/// Returns a registry, and a service that returns its parameters.
fn dir() -> (TestDirectory, FakeService) {
    let service = FakeService::json_rpc(|method, params| match method {
        "pet.name" => Some(json!("Rex")),
        "pet.get" => Some(json!({"id": params["id"], "name": "Rex"})),
        _ => None,
    });
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", &format!("[upstreams.default]\nurl = \"{}\"\n", service.url("/")));
    dir.ok(&["section", "add", "pets"]);
    dir.ok(&["user", "add", "ada"]);
    dir.ok(&["grant", "set", "--user", "ada", "pets", "read"]);
    let get = ["method", "add", "pet.get", "--read-only", "--section", "pets:read"];
    dir.ok(&[&get[..], &["--param", "int $id", "--param", "bool $all = false"]].concat());
    dir.ok(&["method", "add", "pet.name", "--read-only"]);
    dir.ok(&["method", "add", "pet.lost", "--destructive"]);
    (dir, service)
}

impl TestDirectory {
    fn call(&self, arguments: &[&str]) -> CommandOutput {
        self.run(&[&["call"], arguments].concat())
    }
}

#[test]
fn a_tool_is_called_by_id_or_name_and_its_result_is_printed() {
    let (dir, service) = dir();
    assert_eq!(dir.ok(&["call", "pet.name"]), "Rex\n", "a text as it is");
    assert_eq!(dir.ok(&["call", "pet_name", "{}"]), "Rex\n");
    let result = dir.ok(&["call", "pet.get", r#"{"id": 7}"#, "--user", "ada"]);
    assert_eq!(result, "{\"id\":7,\"name\":\"Rex\"}\n");
    let requests = service.log.requests();
    assert_eq!(requests.last().unwrap().body["params"], json!({"id": 7, "all": false}));
    let call_result = dir.ok(&["call", "pet.name", "--json"]);
    let call_result: Value = serde_json::from_str(&call_result).unwrap();
    assert_eq!(call_result["content"], json!([{"type": "text", "text": "Rex"}]));
}

#[test]
fn arguments_may_come_from_standard_input() {
    let (dir, _service) = dir();
    let mut command = dir.command(&["call", "pet.get", "-", "--user", "ada"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\n  \"id\": 8\n}\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"id\":8,\"name\":\"Rex\"}\n");
}

#[test]
fn the_caller_is_a_user_a_token_or_anonymous() {
    let (dir, _service) = dir();
    insta::assert_debug_snapshot!(dir.call(&["pet.get", r#"{"id": 1}"#]).failure());
    let token = dir.ok(&["token", "add", "ada"]);
    let call_with = |token: &str| {
        let mut command = dir.command(&["call", "pet.get", r#"{"id": 1}"#]);
        CommandOutput(command.env("CALLGATE_TOKEN", token).output().unwrap())
    };
    assert!(call_with(token.trim()).stdout().contains("Rex"));
    let (code, stderr) = call_with("cg_wrong").failure();
    assert_eq!(code, 1);
    assert!(stderr.contains("CALLGATE_TOKEN") && !stderr.contains("cg_wrong"), "{stderr}");
    let configuration = std::fs::read_to_string(dir.path("callgate.toml")).unwrap();
    dir.write(
        "callgate.toml",
        &format!("require_auth = true\nopen_methods = \"allow\"\n{configuration}"),
    );
    assert!(dir.call(&["pet.name"]).failure().1.contains("callers must have a token"));
    assert_eq!(dir.ok(&["call", "pet.name", "--user", "ada"]), "Rex\n");
}

#[test]
fn errors_of_calls_have_hints() {
    let (dir, service) = dir();
    dir.ok(&["method", "add", "pet.secret", "--hidden"]);
    let before = service.log.requests().len();
    let failures: Vec<(i32, String)> = [
        &["pet.nam"][..],
        &["something.else"],
        &["pet.secret"],
        &["pet.get", r#"{"id": "x"}"#, "--user", "ada"],
        &["pet.get", r#"{"id": 1, "id": 2}"#, "--user", "ada"],
        &["pet.name", r#"{"id": 1}"#],
        &["pet.name", "[1]"],
        &["pet.name", "{"],
        &["pet.name", "--user", "bob"],
    ]
    .iter()
    .map(|arguments| dir.call(arguments).failure())
    .collect();
    insta::assert_debug_snapshot!(failures);
    assert_eq!(service.log.requests().len(), before, "nothing ran");
    insta::assert_debug_snapshot!(dir.call(&["pet.lost"]).failure());
    let output = dir.call(&["pet.lost", "--json"]);
    let call_result: Value = serde_json::from_str(&output.stdout()).unwrap();
    assert_eq!((output.0.status.code(), &call_result["isError"]), (Some(1), &json!(true)));
}

#[test]
fn an_unavailable_service_is_reported_with_its_cause() {
    let (dir, _service) = dir();
    dir.write("callgate.toml", "[upstreams.default]\nurl = \"http://127.0.0.1:9/\"\n");
    let (code, stderr) = dir.call(&["pet.name"]).failure();
    assert_eq!(code, 1);
    assert!(
        stderr.contains("cannot be reached") && stderr.contains("connection refused"),
        "{stderr}"
    );
}

#[test]
fn calls_work_with_an_older_revision_in_the_settings() {
    let (dir, _service) = dir();
    dir.ok(&["setting", "set", "mcp_protocol_version", "2024-11-05"]);
    assert_eq!(dir.ok(&["call", "pet.name"]), "Rex\n");
}

#[test]
fn a_running_server_can_be_called() {
    let (dir, _service) = dir();
    let token = dir.ok(&["token", "add", "ada"]);
    let server = dir.serve(&[]);
    let url = format!("http://{}/mcp", server.address());
    // This command needs no registry.
    let other_dir = TestDirectory::new();
    let call = |token: &str, arguments: &[&str]| {
        let mut command = other_dir.command(&[&["call", "--url", &url], arguments].concat());
        CommandOutput(command.env("CALLGATE_TOKEN", token).output().unwrap())
    };
    assert_eq!(call("", &["pet_name"]).stdout(), "Rex\n");
    let output = call(token.trim(), &["pet_get", r#"{"id": 9}"#]);
    assert_eq!(output.stdout(), "{\"id\":9,\"name\":\"Rex\"}\n", "{}", output.stderr());
    assert_eq!(call("", &["pet.name"]).stdout(), "Rex\n", "the id is a name of the tool too");
    let errors: Vec<String> = [
        call("", &["pet_nam"]),
        call("", &["something.else"]),
        call("", &["pet_get", r#"{"id": 9}"#]),
        call(token.trim(), &["pet_get", r#"{"id": "x"}"#]),
        call("cg_wrong", &["pet_name"]),
    ]
    .iter()
    .map(|output| output.failure().1.replace(&server.address().to_string(), "[address]"))
    .collect();
    insta::assert_debug_snapshot!(errors);
    dir.ok(&["setting", "set", "mcp_tools_prefix", "SHOP"]);
    server.wait_until("the prefix counts", |_| call("", &["SHOP__pet_name"]).stdout() == "Rex\n");
    // The name of another tool may end with the name of this one.
    let (_, stderr) = call("", &["pet.name"]).failure();
    assert!(stderr.contains("did you mean `SHOP__pet_name`?"), "{stderr}");
    let stderr = ["http://127.0.0.1:9/mcp", &format!("http://{}/nothing", server.address())]
        .map(|url| other_dir.call(&["pet_name", "--url", url]).failure().1);
    insta::assert_snapshot!(stderr.concat().replace(&server.address().to_string(), "[address]"), @"
    callgate: cannot reach http://127.0.0.1:9/mcp: connection refused. Is the server running? Check the URL
    callgate: http://[address]/nothing answered HTTP 404 Not Found. Is that an MCP server? Check the path of the URL
    ");
    assert_eq!(other_dir.call(&["a", "--url", &url, "--user", "ada"]).failure().0, 2);
}
