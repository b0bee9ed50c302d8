//! `callgate import openrpc URL`: the document of a running service.

use serde_json::json;

use super::{document, simple_method};
use crate::fake::{FakeResponse, FakeService, ReceivedRequest};
use crate::support::TestDirectory;

fn pets() -> serde_json::Value {
    serde_json::from_str(&document(&json!([simple_method("pet.get", "A pet.")]))).unwrap()
}

#[test]
fn a_document_is_requested_from_a_service_and_a_configuration_is_suggested() {
    let service = FakeService::json_rpc(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    let url = service.url("/rpc");
    let output = dir.run(&["import", "openrpc", &url, "--upstream", "pets"]);
    assert!(output.stdout().starts_with("1 added"), "{}", output.stderr());
    insta::assert_snapshot!(service.mask_port(&output.stderr()), @r#"
    from OpenRPC document `Pets`, for upstream `pets`
    version 1, 1 method, OpenRPC 1.3.2
    note: to call the service, callgate.toml needs
    [upstreams.pets]
    url = "http://127.0.0.1:[port]/rpc"
    note: no section is required for 1 method, so every caller, even without a token, can call such a method unless `open_methods` or `require_auth` forbids it; `--section` adds a section
    note: the safety of 1 method is a guess; `--review` lists guesses, `--review=approve` approves them, and `callgate method set ID` with `--read-only` or `--destructive` replaces one
    "#);
    // If the registry may have an upstream with this target, a command for the registry is
    // suggested too.
    dir.allow_targets("127.0.0.1");
    let stderr = dir.run(&["import", "openrpc", &url, "--upstream", "pets"]).stderr();
    assert!(stderr.contains(&format!("or: callgate upstream set pets url={url}")), "{stderr}");
    // The suggested configuration works, and is not suggested again.
    dir.write("callgate.toml", &format!("[upstreams.pets]\nurl = \"{url}\"\n"));
    let output = dir.run(&["import", "openrpc", "--upstream", "pets"]);
    assert!(output.stdout().starts_with("nothing changed"), "{}", output.stderr());
    assert!(!output.stderr().contains("callgate.toml"), "{}", output.stderr());
}

#[test]
fn a_document_is_read_from_its_own_url_or_from_the_url_of_the_service() {
    let reply = |request: &ReceivedRequest| match request.target() {
        "GET /openrpc.json" | "GET /rpc" => (200, pets().to_string()),
        _ => (404, "{}".to_owned()),
    };
    let server = FakeService::start(reply);
    for (path, lines) in
        [("/openrpc.json", &["GET /openrpc.json"][..]), ("/rpc", &["POST /rpc", "GET /rpc"])]
    {
        let before = server.log.requests().len();
        let output = TestDirectory::migrated().run(&["import", "openrpc", &server.url(path)]);
        assert!(output.stdout().starts_with("1 added"), "{}", output.stderr());
        assert!(!output.stderr().contains("callgate.toml"), "where the service is, is not known");
        let requests = server.log.requests();
        let targets: Vec<&str> = requests[before..].iter().map(ReceivedRequest::target).collect();
        assert_eq!(targets, lines);
    }
}

#[test]
fn credentials_are_sent_only_to_the_url_of_the_upstream() {
    let service = FakeService::json_rpc(|method, _| (method == "rpc.discover").then(pets));
    let other_service = FakeService::json_rpc(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    let url = service.url("/rpc");
    dir.write(
        "callgate.toml",
        &format!("[upstreams.pets]\nurl = \"{url}\"\nheaders = {{ X-Key = \"s3cret\" }}\n"),
    );
    dir.ok(&["import", "openrpc", "--upstream", "pets"]);
    dir.ok(&["import", "openrpc", &url, "--upstream", "pets"]);
    assert!(service.log.requests().iter().all(|request| request.head.contains("x-key: s3cret")));
    assert_eq!(service.log.requests().len(), 2);
    let output = dir.run(&["import", "openrpc", &other_service.url("/rpc"), "--upstream", "pets"]);
    let stderr = service.mask_port(&output.stderr());
    let note = "note: upstream `pets` has the URL http://127.0.0.1:[port]/rpc, so its credentials are not sent";
    assert!(stderr.contains(note), "{stderr}");
    // The credentials are not sent to another path either.
    dir.run(&["import", "openrpc", &service.url("/other"), "--upstream", "pets"]);
    let other_requests =
        other_service.log.requests().into_iter().chain(service.log.requests().into_iter().skip(2));
    assert!(other_requests.into_iter().all(|request| !request.head.contains("s3cret")));
}

#[test]
fn an_upstream_of_the_registry_is_used() {
    let service = FakeService::json_rpc(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    let url = format!("url={}", service.url("/rpc"));
    let allowed = "targets = \"127.0.0.1\"\ndirectory = \".\"";
    dir.write("callgate.toml", &format!("[registry_upstreams]\n{allowed}\n"));
    dir.ok(&["upstream", "set", "pets", &url, "headers.X-Key={\"file\":\"key\"}"]);
    let (_, stderr) = dir.run(&["import", "openrpc", "--upstream", "pets"]).failure();
    let problem = "callgate: upstream `pets` in the registry: `headers`: cannot read `key`";
    assert!(stderr.starts_with(problem), "{stderr}");
    dir.write("key", "s3cret");
    let output = dir.run(&["import", "openrpc", "--upstream", "pets"]);
    assert!(output.stdout().starts_with("1 added"), "{}", output.stderr());
    assert!(!output.stderr().contains("callgate.toml"), "{}", output.stderr());
    assert!(service.log.requests()[0].head.contains("x-key: s3cret"));
}

#[test]
fn headers_come_from_variables_and_files() {
    let service = FakeService::json_rpc(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    dir.write("team.txt", "blue\n");
    let url = service.url("/rpc");
    let arguments = ["import", "openrpc", &url, "--upstream", "pets"];
    let headers = ["--header-env", "Authorization=PETS_TOKEN", "--header-file", "X-Team=team.txt"];
    let mut command = dir.command(&[&arguments[..], &headers].concat());
    let output = command.env("PETS_TOKEN", "Bearer s3cret").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let head = &service.log.requests()[0].head;
    assert!(head.contains("authorization: bearer s3cret\r\nx-team: blue"), "{head}");
    let file = json!(dir.path("team.txt"));
    let table = format!(
        r#"headers = {{ Authorization = {{ env = "PETS_TOKEN" }}, X-Team = {{ file = {file} }} }}"#
    );
    assert!(stderr.contains(&table) && !stderr.contains("s3cret"), "{stderr}");
    let url = service.url("/rpc?key=s3cret");
    let first =
        ["import", "openrpc", &url, "--upstream", "the pets", "--first-param-env", "PETS_TOKEN"];
    let output = dir.command(&first).env("PETS_TOKEN", "s3cret").output().unwrap();
    let stderr = service.mask_port(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(service.log.requests()[1].body["params"], json!(["s3cret"]));
    let table = r#"
[upstreams."the pets"]
url = "http://127.0.0.1:[port]/rpc"  # plus the query
params = "position"
first_params = [{ env = "PETS_TOKEN" }]
"#;
    assert!(stderr.contains(table) && !stderr.contains("s3cret"), "{stderr}");
    let (code, stderr) = dir.run(&[&arguments[..], &headers].concat()).failure();
    assert_eq!((code, stderr.as_str()), (1, "callgate: `--header-env`: `PETS_TOKEN` is not set\n"));
}

#[test]
fn failed_attempts_are_reported_with_hints() {
    let dir = TestDirectory::migrated();
    let plain = FakeService::json_rpc(|_, _| None);
    let page = FakeService::start(|request| match request.target() {
        "GET /rpc" => (200, "<html>\u{7}".to_owned()),
        _ => (302, String::new()),
    });
    let json = FakeService::start(|request| match request.target() {
        "GET /rpc" => (200, "{\"swagger\":\"2.0\"}".to_owned()),
        "GET /api.yaml" => (200, "openapi: 3.1.0\npaths: {}\n".to_owned()),
        _ => (500, String::new()),
    });
    let closed = FakeService::start(|_| (401, String::new()));
    let mut errors = String::new();
    for server in [&plain, &page, &json, &closed] {
        let (code, stderr) = dir.run(&["import", "openrpc", &server.url("/rpc")]).failure();
        assert_eq!(code, 1);
        errors.push_str(&server.mask_port(&stderr));
    }
    errors.push_str(
        &json.mask_port(&dir.run(&["import", "openrpc", &json.url("/api.yaml")]).failure().1),
    );
    let php = FakeService::start(|_| {
        let error = "<b>Fatal error</b>: Uncaught Error in <b>/srv/a.php</b> on line <b>3</b>";
        FakeResponse::text(200, "text/html", error)
    });
    for command in [&["import", "openrpc"][..], &["try"]] {
        let output = dir.run(&[command, &[&php.url("/rpc")]].concat());
        errors.push_str(&php.mask_port(&output.failure().1));
    }
    let unused_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, stderr) =
        dir.run(&["import", "openrpc", &format!("http://{unused_address}/rpc")]).failure();
    errors.push_str(&stderr.replace(&unused_address.to_string(), "127.0.0.1:[port]"));
    for invalid in ["http://ada:s3cret@localhost/", "ftp://localhost/s3cret"] {
        errors.push_str(&dir.run(&["import", "openrpc", invalid]).failure().1);
    }
    errors.push_str(&dir.run(&["import", "openrpc", "--upstream", "none"]).failure().1);
    assert!(!errors.contains("s3cret"));
    insta::assert_snapshot!(errors);
}

#[test]
fn an_error_that_mentions_not_found_is_not_treated_as_a_missing_document() {
    for message in [
        "Session not found: log in before you call this method",
        "Method not permitted: no such permission",
        "Invalid signature: key not found",
    ] {
        let service = FakeService::start(move |request| {
            if request.target() == "GET /rpc" {
                return (200, pets().to_string());
            }
            let error = json!({"code": -32001, "message": message});
            (200, json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}).to_string())
        });
        let dir = TestDirectory::migrated();
        let (_, stderr) = dir.run(&["import", "openrpc", &service.url("/rpc")]).failure();
        assert!(stderr.contains(message), "{stderr}");
        assert!(dir.exported().is_empty());
    }
}
