//! Users' credentials for a service, set with `callgate credential`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::support::{Server, TestDirectory};
use super::upstreams::{Service, directory_with_method};

fn dir(service: &Service) -> TestDirectory {
    let dir = directory_with_method(&format!(
        r#"
        [upstreams.default]
        url = "http://{}/jsonrpc"
        params = "positional"

        [upstreams.default.credential]
        first_param = true
        prefix = "token:"
        "#,
        service.address
    ));
    dir.ok(&["user", "add", "ada"]);
    dir.ok(&["user", "add", "bob"]);
    dir
}

/// Returns the message of a call that fails.
fn error_message(server: &Server, token: &str) -> Option<String> {
    let reply = server.invoke(token, "item.get", &json!({"id": 7})).json();
    reply["error"]["message"].as_str().map(ToOwned::to_owned)
}

#[test]
fn credentials_are_set_and_removed_while_the_server_runs() {
    let service = Service::start();
    let dir = dir(&service);
    dir.run_with(&["credential", "set", "ada", "default"], "s3cret\n").expect_success();
    let tokens = ["ada", "bob"].map(|user| dir.ok(&["token", "add", user]).trim().to_owned());
    let [ada, bob] = &tokens;
    let server = dir.serve(&[]);
    assert_eq!(error_message(&server, ada), None);
    assert!(error_message(&server, bob).unwrap().contains("there is none for you"));
    assert!(error_message(&server, "").unwrap().contains("you are anonymous"));
    assert_eq!(service.requests().len(), 1, "nothing was sent for the others");
    dir.write("bob.txt", "s3cret");
    dir.ok(&["credential", "set", "bob", "default", "--secret-file", "bob.txt"]);
    server.wait_until("bob has one", |server| error_message(server, bob).is_none());
    dir.ok(&["credential", "remove", "ada", "default"]);
    server.wait_until("ada has none", |server| error_message(server, ada).is_some());
    let (_, log) = server.stop();
    assert!(
        log.contains("`bob` has no credential for the service") && !log.contains("s3cret"),
        "{log}"
    );
}

#[test]
fn credentials_are_listed_without_secrets_and_errors_are_reported() {
    let dir = dir(&Service::start());
    let permissions = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(dir.path("callgate.db"), permissions).unwrap();
    let mut messages = Vec::new();
    for (upstream, secret) in
        [("default", "s3cret"), ("none", "s3cret"), ("default", " \n"), ("default", "s3cret\nb")]
    {
        let output = dir.run_with(&["credential", "set", "ada", upstream], secret);
        assert!(output.stdout().is_empty());
        messages.push(output.stderr());
    }
    for arguments in [
        &["credential", "set", "eve", "default"][..],
        &["credential", "set", "ada", "default", "--secret-file", "none.txt"],
        &["credential", "remove", "bob", "default"],
    ] {
        messages.push(dir.run_with(arguments, "").stderr());
    }
    insta::assert_debug_snapshot!(messages);
    for arguments in [&["credential", "list"][..], &["credential", "list", "--json"]] {
        let listed = dir.ok(arguments);
        assert!(!listed.contains("s3cret"), "{listed}");
        assert_eq!(listed.lines().filter(|line| line.contains("ada")).count(), 2, "{listed}");
    }
}
