//! `callgate serve` in front of a JSON-RPC service that is configured in `callgate.toml`.

use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use super::fake::FakeService;
use super::support::TestDirectory;

/// A service that takes parameters like aria2: as a list, with a token first.
pub(crate) struct Service {
    fake: FakeService,
    pub(crate) address: SocketAddr,
}

impl Service {
    pub(crate) fn start() -> Self {
        let fake = FakeService::start(|request| {
            let (status, reply) = match request.body.as_array() {
                Some(batch) => (200, batch.iter().map(|request| respond(request).1).collect()),
                None => respond(&request.body),
            };
            (status, reply.to_string())
        });
        Self { address: fake.address, fake }
    }

    /// Returns the heads and bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.fake.log.requests().into_iter().map(|request| (request.head, request.body)).collect()
    }
}

fn respond(request: &Value) -> (u16, Value) {
    let id = &request["id"];
    match request["params"][0].as_str() {
        Some("token:s3cret") => (200, json!({"result": request["params"][1], "id": id})),
        _ => (400, json!({"error": {"code": 1, "message": "Unauthorized"}, "id": id})),
    }
}

pub(crate) fn directory_with_method(configuration: &str) -> TestDirectory {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", configuration);
    dir.ok(&["migrate"]);
    dir.ok(&["method", "add", "item.get", "--param", "int $id", "--read-only"]);
    dir
}

#[test]
fn methods_of_rows_run_on_the_service() {
    let service = Service::start();
    let dir = directory_with_method(&format!(
        r#"
        [upstreams.default]
        url = "http://{}/jsonrpc"
        params = "positional"
        first_params = [{{ env = "CALLGATE_ITEMS_SECRET", prefix = "token:" }}]
        headers = {{ X-Team = {{ file = "team.txt" }} }}
        ids = "integer"

        [upstreams.default.pass_caller]
        user_id = "X-User-Id"
        "#,
        service.address
    ));
    dir.write("team.txt", "blue\n");
    let server = dir.serve_with(&[("CALLGATE_ITEMS_SECRET", "s3cret")], &[]);
    assert_eq!(server.invoke("", "item.get", &json!({"id": 7})).json(), json!({"result": 7}));
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"item_get","arguments":{"id":8}}}"#;
    let reply = server.request("POST /mcp", "", call).json();
    assert_eq!(reply["result"]["content"][0]["text"], "8");
    dir.ok(&["user", "add", "ada"]);
    let token = dir.ok(&["token", "add", "ada"]);
    let reply = server.invoke(token.trim(), "item.get", &json!({"id": 9}));
    assert_eq!(reply.json(), json!({"result": 9}));
    let requests = service.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].0.contains("x-team: blue") && !requests[0].0.contains("x-user-id"));
    assert!(requests[2].0.contains("x-user-id: 1") && !requests[2].0.contains("authorization"));
    assert_eq!(requests[2].1["id"], 3);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    assert!(!log.contains("s3cret") && !log.contains("not configured"), "{log}");
}

#[test]
fn concurrent_calls_are_sent_as_one_batch_if_configured() {
    let service = Service::start();
    let dir = directory_with_method(&format!(
        r#"
        [upstreams.default]
        url = "http://{}/jsonrpc"
        params = "positional"
        first_params = ["token:s3cret"]
        batch = true
        "#,
        service.address
    ));
    let server = dir.serve(&[]);
    let call = |id| json!({"jsonrpc": "2.0", "id": id, "method": "item.get", "params": [id]});
    let calls: Value = (1..4).map(call).collect();
    let replies = server.request("POST /jsonrpc", "", &calls.to_string()).json();
    let results: Vec<&Value> = replies.as_array().unwrap().iter().map(|it| &it["result"]).collect();
    assert_eq!(results, [1, 2, 3]);
    let requests = service.requests();
    assert!(requests.len() < 3 && requests.iter().any(|(_, body)| body.is_array()), "{requests:?}");
}

/// Starts a service that returns the request and its path.
fn path_echo_service() -> FakeService {
    FakeService::start(|request| {
        let path = request.target().split_whitespace().nth(1).unwrap_or_default().to_owned();
        let result = json!({"path": path, "params": request.body["params"]});
        (200, json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string())
    })
}

#[test]
fn calls_are_sent_to_the_url_of_their_tool_if_configured() {
    let fake = path_echo_service();
    let url = format!("http://{}/drupal/jsonrpc", fake.address);
    for (keys, path) in [
        ("", "/drupal/jsonrpc"),
        ("calls = \"single\"", "/drupal/jsonrpc"),
        ("calls = \"per_tool\"", "/drupal/mcp/tools/item.get"),
        ("calls = \"per_tool\"\ntool_path = \"/t/{id}/run\"", "/t/item.get/run"),
    ] {
        let table = format!("[upstreams.default]\nurl = \"{url}\"\n{keys}\n");
        let dir = directory_with_method(&table);
        let server = dir.serve(&[]);
        let reply = server.invoke("", "item.get", &json!({"id": 7})).json();
        assert_eq!(reply["result"]["path"], path, "{keys}");
    }
    let dir = directory_with_method("[registry_upstreams]\ntargets = \"127.0.0.1\"\n");
    let url = format!("url={url}");
    dir.ok(&["upstream", "set", "default", &url, "calls=per_tool", "null_is_absent=true"]);
    let server = dir.serve(&[]);
    let reply = server.invoke("", "item.get", &json!({"id": 7})).json();
    assert_eq!(reply["result"]["path"], "/drupal/mcp/tools/item.get");
}

#[test]
fn null_is_omitted_if_configured() {
    let fake = path_echo_service();
    for (key, status) in [("", 400), ("null_is_absent = true", 200)] {
        let table = format!("[upstreams.default]\nurl = \"http://{}/\"\n{key}\n", fake.address);
        let dir = directory_with_method(&table);
        let params = ["--param", "int $id", "--param", "int $times = 1"];
        dir.ok(&[&["method", "add", "item.find", "--read-only"][..], &params].concat());
        let server = dir.serve(&[]);
        let reply = server.invoke("", "item.find", &json!({"id": 7, "times": null}));
        assert_eq!(reply.status, status, "{key}: {}", reply.body);
        if status == 200 {
            assert_eq!(reply.json()["result"]["params"], json!({"id": 7, "times": 1}));
        } else {
            assert!(reply.body.contains("omit the argument"), "{}", reply.body);
        }
    }
}

#[test]
fn the_text_of_an_internal_error_is_sent_only_if_configured() {
    let fake = FakeService::start(|request| {
        let error = json!({"code": -32603, "message": "Internal Error", "data": "in /var/www"});
        (200, json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}).to_string())
    });
    for (key, is_sent) in [("", false), ("trust_errors = true", true)] {
        let table = format!("[upstreams.default]\nurl = \"http://{}/\"\n{key}\n", fake.address);
        let dir = directory_with_method(&table);
        let server = dir.serve(&[]);
        let reply = server.invoke("", "item.get", &json!({"id": 7}));
        assert_eq!((reply.status, reply.body.contains("/var/www")), (500, is_sent), "{key}");
        assert_eq!(server.stop().1.contains("/var/www"), !is_sent);
    }
}

#[test]
fn an_unavailable_service_is_reported_to_the_agent_and_on_readyz() {
    for scheme in ["http", "ws"] {
        assert_unavailable_service_is_reported(scheme);
    }
}

fn assert_unavailable_service_is_reported(scheme: &str) {
    let unused_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let table = format!("[upstreams.default]\nurl = \"{scheme}://{unused_address}/\"\n");
    let dir = directory_with_method(&table);
    let server = dir.serve(&["--operations-listen", "127.0.0.1:0"]);
    for _ in 0..6 {
        let reply = server.invoke("", "item.get", &json!({"id": 7}));
        assert_eq!(reply.status, 500);
        let body = reply.json();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("The service behind this tool cannot be reached"), "{message}");
    }
    let ready = server.operations("/readyz");
    assert_eq!((ready.status, &ready.json()["upstreams_down"]), (200, &json!(["default"])));
    let (_, log) = server.stop();
    assert!(log.contains("upstream `default`: no connection: connection refused"), "{log}");
}

#[test]
fn an_invalid_table_is_refused_with_its_location_and_without_secrets() {
    let dir = TestDirectory::migrated();
    let mut failures = Vec::new();
    for table in [
        "[upstreams.a]\nurll = \"http://localhost/\"",
        "[upstreams.a]\nparams = \"named\"",
        "[upstreams.local]\nurl = \"http://localhost/\"",
        "[upstreams]\na = 1",
        "[upstreams.a]\nurl = \"ftp://s3cret/\"",
        "[upstreams.a]\nurl = \"http://user:s3cret@localhost/\"",
        "[upstreams.a]\nurl = 1",
        "[upstreams.a]\nurl = { env = \"NOT_SET_ANYWHERE\" }",
        "[upstreams.a]\nurl = { file = \"nothing.txt\" }",
        "[upstreams.a]\nurl = { enf = \"X\" }",
        "[upstreams.a]\nurl = \"http://localhost/\"\nparams = \"both\"",
        "[upstreams.a]\nurl = \"http://localhost/\"\nfirst_params = [\"s3cret\"]",
        "[upstreams.a]\nurl = \"http://localhost/\"\nmembers = { id = \"s3cret\" }",
        "[upstreams.a]\nurl = \"http://localhost/\"\nheaders = { Host = \"s3cret\" }",
        "[upstreams.a]\nurl = \"http://localhost/\"\nbasic_user = \"ada\"",
        "[upstreams.a]\nurl = \"http://localhost/\"\npass_caller = { tokn = \"X-Token\" }",
        "[upstreams.a]\nurl = \"http://localhost/\"\nmax_concurrent = 0",
        "[upstreams.a]\nurl = \"http://localhost/\"\nca_file = \"callgate.toml\"",
        "[upstreams.a]\nurl = \"ws://user:s3cret@localhost/\"",
        "[upstreams.a]\nurl = \"ws://localhost/\"\nhttp2 = true",
        "[upstreams.a]\nurl = \"ws://localhost/\"\nbatch = true",
        "[upstreams.a]\nurl = \"http://localhost/\"\nbatch = \"always\"",
        "[upstreams.a]\nurl = \"ws://localhost/\"\ncalls = \"per_tool\"",
        "[upstreams.a]\nurl = \"http://localhost/\"\ncalls = \"per_tool\"\nbatch = true",
        "[upstreams.a]\nurl = \"http://localhost/\"\ncalls = \"each\"",
        "[upstreams.a]\nurl = \"http://localhost/\"\ntool_path = \"/mcp/tools/{id}\"",
        "[upstreams.a]\nurl = \"http://localhost/\"\ncalls = \"per_tool\"\ntool_path = \"/mcp/{name}\"",
        "[upstreams.a]\nurl = \"http://localhost/\"\ntimeout_seconds = \"s3cret\"",
        "[upstreams.a]\nurl = \"http://localhost/\"\nmax_concurrent = -1",
        "[upstreams.a]\nurl = \"http://localhost/\"\noauth = { client_id = \"x\" }",
        "[upstreams.a]\nurl = \"wss://localhost/\"\npass_caller = { role = \"X-Role\" }",
    ] {
        dir.write("callgate.toml", table);
        let (code, stderr) = dir.run(&["serve", "--listen", "127.0.0.1:0"]).failure();
        assert_eq!(code, 1);
        assert!(!stderr.contains("s3cret"), "{stderr}");
        let stderr: Vec<&str> = stderr.lines().filter(|line| !line.contains(" INFO ")).collect();
        failures.push(format!("{}\n    {}", table.replace('\n', "; "), stderr.join("\n    ")));
    }
    let failures = failures.join("\n");
    insta::assert_snapshot!(failures);
}

#[test]
fn commands_other_than_serve_read_upstreams_without_their_secrets() {
    let table = "[upstreams.default]\nurl = { env = \"NOT_SET_ANYWHERE\" }\n";
    let dir = directory_with_method(table);
    assert!(!dir.ok(&["method", "show", "item.get"]).contains("not configured"));
    dir.ok(&["method", "set", "item.get", "--upstream", "other"]);
    let output = dir.run(&["method", "show", "item.get"]);
    let output = format!("{}{}", output.stdout(), output.stderr());
    assert!(output.contains("upstream `other` is not configured"), "{output}");
}

#[test]
fn the_callers_token_is_forwarded_only_if_configured() {
    let service = Service::start();
    let dir = directory_with_method(&format!(
        r#"
        [upstreams.default]
        url = "http://{}/jsonrpc"
        params = "positional"
        first_params = ["token:s3cret"]
        pass_caller = {{ token = "X-Authorization" }}
        "#,
        service.address
    ));
    dir.ok(&["user", "add", "ada"]);
    let token = dir.ok(&["token", "add", "ada"]);
    let server = dir.serve(&[]);
    for token in [token.trim(), ""] {
        server.invoke(token, "item.get", &json!({"id": 7}));
    }
    let call = dir
        .command(&["call", "item.get", r#"{"id":7}"#])
        .env("CALLGATE_TOKEN", token.trim())
        .output()
        .unwrap();
    assert!(call.status.success(), "{call:?}");
    let header = format!("x-authorization: {}", token.trim().to_lowercase());
    let sent: Vec<bool> =
        service.requests().iter().map(|(head, _)| head.contains(&header)).collect();
    assert_eq!(sent, [true, false, true]);
    let (_, log) = server.stop();
    assert!(!log.contains(token.trim()), "{log}");
}

#[test]
fn metrics_are_served_only_if_enabled_and_to_authenticated_callers() {
    let unused_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let table = format!("[upstreams.default]\nurl = \"http://{unused_address}/\"\n");
    let dir = directory_with_method(&table);
    assert_eq!(dir.serve(&[]).get("", "/metrics").status, 404);
    dir.write("callgate.toml", &format!("metrics = true\nopen_methods = \"allow\"\n{table}"));
    dir.ok(&["user", "add", "ada"]);
    let token = dir.ok(&["token", "add", "ada"]);
    let server = dir.serve(&["--require-auth"]);
    assert_eq!(server.get("", "/metrics").status, 401);
    server.invoke(token.trim(), "item.get", &json!({"id": 7}));
    let metrics = server.get(token.trim(), "/metrics");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let counter = r#"callgate_upstream_calls_total{upstream="default",outcome="unreachable"} 1"#;
    assert!(metrics.body.contains(counter) && !metrics.body.contains("ada"), "{}", metrics.body);
}
