//! `callgate import openrpc URL`: the document of a running service.

use serde_json::json;

use super::{document, reading};
use crate::fake::{FakeResponse, FakeService, ReceivedRequest};
use crate::support::TestDirectory;

fn pets() -> serde_json::Value {
    serde_json::from_str(&document(&json!([reading("pet.get", "A pet.")]))).unwrap()
}

#[test]
fn a_service_is_asked_for_its_document_and_its_configuration_is_suggested() {
    let service = FakeService::service(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    let url = service.url("/rpc");
    let ran = dir.run(&["import", "openrpc", &url, "--upstream", "pets"]);
    assert!(ran.stdout().starts_with("1 added"), "{}", ran.stderr());
    insta::assert_snapshot!(service.hide(&ran.stderr()), @r#"
    from OpenRPC document `Pets`, for upstream `pets`
    version 1, 1 method, OpenRPC 1.3.2
    note: to call the service, callgate.toml needs
    [upstreams.pets]
    url = "http://127.0.0.1:[port]/rpc"
    note: every caller, even without a token, can call 1 method, since no section is required; `--section` adds one
    note: the safety of 1 method is a guess; `--review` lists guesses, `--review=approve` approves them, and `callgate method set ID` with `--read-only` or `--destructive` replaces one
    "#);
    // If the registry may have an upstream with this target, a command for the registry is
    // suggested too.
    dir.allow_targets("127.0.0.1");
    let told = dir.run(&["import", "openrpc", &url, "--upstream", "pets"]).stderr();
    assert!(told.contains(&format!("or: callgate upstream set pets url={url}")), "{told}");
    // The suggested configuration works, and is not suggested again.
    dir.write("callgate.toml", &format!("[upstreams.pets]\nurl = \"{url}\"\n"));
    let ran = dir.run(&["import", "openrpc", "--upstream", "pets"]);
    assert!(ran.stdout().starts_with("nothing changed"), "{}", ran.stderr());
    assert!(!ran.stderr().contains("callgate.toml"), "{}", ran.stderr());
}

#[test]
fn a_document_is_read_at_a_url_and_at_that_of_the_service() {
    let has = |asked: &ReceivedRequest| match asked.target() {
        "GET /openrpc.json" | "GET /rpc" => (200, pets().to_string()),
        _ => (404, "{}".to_owned()),
    };
    let server = FakeService::start(has);
    for (path, lines) in
        [("/openrpc.json", &["GET /openrpc.json"][..]), ("/rpc", &["POST /rpc", "GET /rpc"])]
    {
        let before = server.log.requests().len();
        let ran = TestDirectory::migrated().run(&["import", "openrpc", &server.url(path)]);
        assert!(ran.stdout().starts_with("1 added"), "{}", ran.stderr());
        assert!(!ran.stderr().contains("callgate.toml"), "where the service is, is not known");
        let asked = server.log.requests();
        let asked: Vec<&str> = asked[before..].iter().map(ReceivedRequest::target).collect();
        assert_eq!(asked, lines);
    }
}

#[test]
fn credentials_are_sent_only_to_the_url_of_the_upstream() {
    let service = FakeService::service(|method, _| (method == "rpc.discover").then(pets));
    let other = FakeService::service(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    let url = service.url("/rpc");
    dir.write(
        "callgate.toml",
        &format!("[upstreams.pets]\nurl = \"{url}\"\nheaders = {{ X-Key = \"s3cret\" }}\n"),
    );
    dir.ok(&["import", "openrpc", "--upstream", "pets"]);
    dir.ok(&["import", "openrpc", &url, "--upstream", "pets"]);
    assert!(service.log.requests().iter().all(|asked| asked.head.contains("x-key: s3cret")));
    assert_eq!(service.log.requests().len(), 2);
    let ran = dir.run(&["import", "openrpc", &other.url("/rpc"), "--upstream", "pets"]);
    let told = service.hide(&ran.stderr());
    let note = "note: upstream `pets` has the URL http://127.0.0.1:[port]/rpc, so its credentials are not sent";
    assert!(told.contains(note), "{told}");
    // The credentials are not sent to another path either.
    dir.run(&["import", "openrpc", &service.url("/other"), "--upstream", "pets"]);
    let others = other.log.requests().into_iter().chain(service.log.requests().into_iter().skip(2));
    assert!(others.into_iter().all(|asked| !asked.head.contains("s3cret")));
}

#[test]
fn an_upstream_of_the_registry_is_used() {
    let service = FakeService::service(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    let url = format!("url={}", service.url("/rpc"));
    let allowed = "targets = \"127.0.0.1\"\ndirectory = \".\"";
    dir.write("callgate.toml", &format!("[registry_upstreams]\n{allowed}\n"));
    dir.ok(&["upstream", "set", "pets", &url, "headers.X-Key={\"file\":\"key\"}"]);
    let (_, talk) = dir.run(&["import", "openrpc", "--upstream", "pets"]).failure();
    let problem = "callgate: upstream `pets` in the registry: `headers`: cannot read `key`";
    assert!(talk.starts_with(problem), "{talk}");
    dir.write("key", "s3cret");
    let ran = dir.run(&["import", "openrpc", "--upstream", "pets"]);
    assert!(ran.stdout().starts_with("1 added"), "{}", ran.stderr());
    assert!(!ran.stderr().contains("callgate.toml"), "{}", ran.stderr());
    assert!(service.log.requests()[0].head.contains("x-key: s3cret"));
}

#[test]
fn headers_come_from_variables_and_files() {
    let service = FakeService::service(|method, _| (method == "rpc.discover").then(pets));
    let dir = TestDirectory::migrated();
    dir.write("team.txt", "blue\n");
    let url = service.url("/rpc");
    let arguments = ["import", "openrpc", &url, "--upstream", "pets"];
    let headers = ["--header-env", "Authorization=PETS_TOKEN", "--header-file", "X-Team=team.txt"];
    let mut command = dir.command(&[&arguments[..], &headers].concat());
    let output = command.env("PETS_TOKEN", "Bearer s3cret").output().unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{talk}");
    let head = &service.log.requests()[0].head;
    assert!(head.contains("authorization: bearer s3cret\r\nx-team: blue"), "{head}");
    let file = json!(dir.path("team.txt"));
    let table = format!(
        r#"headers = {{ Authorization = {{ env = "PETS_TOKEN" }}, X-Team = {{ file = {file} }} }}"#
    );
    assert!(talk.contains(&table) && !talk.contains("s3cret"), "{talk}");
    let url = service.url("/rpc?key=s3cret");
    let first =
        ["import", "openrpc", &url, "--upstream", "the pets", "--first-param-env", "PETS_TOKEN"];
    let output = dir.command(&first).env("PETS_TOKEN", "s3cret").output().unwrap();
    let talk = service.hide(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(service.log.requests()[1].body["params"], json!(["s3cret"]));
    let table = r#"
[upstreams."the pets"]
url = "http://127.0.0.1:[port]/rpc"  # plus the query
params = "position"
first_params = [{ env = "PETS_TOKEN" }]
"#;
    assert!(talk.contains(table) && !talk.contains("s3cret"), "{talk}");
    let (code, talk) = dir.run(&[&arguments[..], &headers].concat()).failure();
    assert_eq!((code, talk.as_str()), (1, "callgate: `--header-env`: `PETS_TOKEN` is not set\n"));
}

#[test]
fn attempts_are_reported_with_hints() {
    let dir = TestDirectory::migrated();
    let plain = FakeService::service(|_, _| None);
    let page = FakeService::start(|asked| match asked.target() {
        "GET /rpc" => (200, "<html>\u{7}".to_owned()),
        _ => (302, String::new()),
    });
    let json = FakeService::start(|asked| match asked.target() {
        "GET /rpc" => (200, "{\"swagger\":\"2.0\"}".to_owned()),
        "GET /api.yaml" => (200, "openapi: 3.1.0\npaths: {}\n".to_owned()),
        _ => (500, String::new()),
    });
    let closed = FakeService::start(|_| (401, String::new()));
    let mut told = String::new();
    for server in [&plain, &page, &json, &closed] {
        let (code, talk) = dir.run(&["import", "openrpc", &server.url("/rpc")]).failure();
        assert_eq!(code, 1);
        told.push_str(&server.hide(&talk));
    }
    told.push_str(&json.hide(&dir.run(&["import", "openrpc", &json.url("/api.yaml")]).failure().1));
    let php = FakeService::start(|_| {
        let error = "<b>Fatal error</b>: Uncaught Error in <b>/srv/a.php</b> on line <b>3</b>";
        FakeResponse::text(200, "text/html", error)
    });
    for command in [&["import", "openrpc"][..], &["try"]] {
        let ran = dir.run(&[command, &[&php.url("/rpc")]].concat());
        told.push_str(&php.hide(&ran.failure().1));
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, talk) = dir.run(&["import", "openrpc", &format!("http://{free}/rpc")]).failure();
    told.push_str(&talk.replace(&free.to_string(), "127.0.0.1:[port]"));
    for wrong in ["http://ada:s3cret@localhost/", "ftp://localhost/s3cret"] {
        told.push_str(&dir.run(&["import", "openrpc", wrong]).failure().1);
    }
    told.push_str(&dir.run(&["import", "openrpc", "--upstream", "none"]).failure().1);
    assert!(!told.contains("s3cret"));
    insta::assert_snapshot!(told);
}

#[test]
fn an_error_that_mentions_unknown_is_not_an_absent_description() {
    for message in [
        "Session not found: log in before you call this method",
        "Method not permitted: no such permission",
        "Invalid signature: key not found",
    ] {
        let service = FakeService::start(move |asked| {
            if asked.target() == "GET /rpc" {
                return (200, pets().to_string());
            }
            let error = json!({"code": -32001, "message": message});
            (200, json!({"jsonrpc": "2.0", "id": asked.body["id"], "error": error}).to_string())
        });
        let dir = TestDirectory::migrated();
        let (_, told) = dir.run(&["import", "openrpc", &service.url("/rpc")]).failure();
        assert!(told.contains(message), "{told}");
        assert!(dir.exported().is_empty());
    }
}
