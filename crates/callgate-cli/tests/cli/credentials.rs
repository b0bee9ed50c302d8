//! What users are known by at a service, set with `callgate credential`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::support::{Place, Server};
use super::upstreams::{Service, place_with_a_method};

fn place(service: &Service) -> Place {
    let place = place_with_a_method(&format!(
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
    place.ok(&["user", "add", "ada"]);
    place.ok(&["user", "add", "bob"]);
    place
}

/// The message of a call that fails.
fn told(server: &Server, token: &str) -> Option<String> {
    let reply = server.invoke(token, "item.get", &json!({"id": 7})).json();
    reply["error"]["message"].as_str().map(ToOwned::to_owned)
}

#[test]
fn d13_a_credential_counts_and_ends_while_the_server_runs() {
    let service = Service::start();
    let place = place(&service);
    let set = place.run_with(&["credential", "set", "ada", "default"], "s3cret\n");
    assert!(set.0.status.success(), "{}", set.talk());
    let tokens = ["ada", "bob"].map(|user| place.ok(&["token", "create", user]).trim().to_owned());
    let [ada, bob] = &tokens;
    let server = place.serve(&[]);
    assert_eq!(told(&server, ada), None);
    assert!(told(&server, bob).unwrap().contains("there is none of yours"));
    assert!(told(&server, "").unwrap().contains("you did not say who you are"));
    assert_eq!(service.seen().len(), 1, "nothing was sent for the others");
    place.write("bob.txt", "s3cret");
    place.ok(&["credential", "set", "bob", "default", "--file", "bob.txt"]);
    server.until("bob has one", |server| told(server, bob).is_none());
    place.ok(&["credential", "remove", "ada", "default"]);
    server.until("ada has none", |server| told(server, ada).is_some());
    server.signal("-TERM");
    let (_, log) = server.ended();
    assert!(log.contains("`bob` has no credential for it") && !log.contains("s3cret"), "{log}");
}

#[test]
fn credentials_are_listed_without_their_secrets_and_what_is_wrong_is_told() {
    let place = place(&Service::start());
    let others_read = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("callgate.db"), others_read).unwrap();
    let mut talk = Vec::new();
    for (upstream, secret) in
        [("default", "s3cret"), ("none", "s3cret"), ("default", " \n"), ("default", "s3cret\nb")]
    {
        let ran = place.run_with(&["credential", "set", "ada", upstream], secret);
        assert!(ran.data().is_empty());
        talk.push(ran.talk());
    }
    for arguments in [
        &["credential", "set", "eve", "default"][..],
        &["credential", "set", "ada", "default", "--file", "none.txt"],
        &["credential", "remove", "bob", "default"],
    ] {
        talk.push(place.run_with(arguments, "").talk());
    }
    insta::assert_debug_snapshot!(talk);
    for arguments in [&["credential", "list"][..], &["credential", "list", "--json"]] {
        let listed = place.ok(arguments);
        assert!(!listed.contains("s3cret"), "{listed}");
        assert_eq!(listed.lines().filter(|line| line.contains("ada")).count(), 2, "{listed}");
    }
}
