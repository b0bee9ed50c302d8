//! A Litecoin node: HTTP Basic, and replies in plain text if the node has too many requests.

use serde_json::json;

use super::servers::{self, SECRET};
use super::{call, dir};
use crate::support::TestDirectory;

#[test]
fn litecoin_is_called_with_http_basic_and_its_full_queue_is_reported() {
    let mut node = servers::litecoind();
    let dir = dir(&format!(
        r#"
        [upstreams.service]
        url = "{}"
        params = "positional"
        basic_user = "ada"
        basic_password = {{ env = "NODE_PASSWORD" }}
        "#,
        node.url("/")
    ));
    for (id, param) in [("getblockcount", None), ("waitfornewblock", Some("int $timeout"))] {
        let add = ["method", "add", id, "--read-only", "--upstream", "service"];
        let param = param.map(|param| ["--param", param]);
        dir.ok(&[&add[..], param.as_ref().map_or(&[], |it| &it[..])].concat());
    }
    let server = dir.serve_with(&[("NODE_PASSWORD", SECRET)], &[]);
    server.wait_until("it has started", |server| {
        call(server, "getblockcount", &json!({})) == (false, "0".to_owned())
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            // The call runs until the node stops.
            scope.spawn(|| call(&server, "waitfornewblock", &json!({"timeout": 600_000})));
        }
        server.wait_until("its queue is full", |server| {
            let (_, text) = call(server, "getblockcount", &json!({}));
            text.contains("has too many requests in its queue (HTTP 500). Nothing was run")
        });
        node.kill();
    });
    let (_, log) = server.stop();
    assert!(log.contains("Work queue depth exceeded"), "{log}");
}

#[test]
fn try_suggests_http_basic_and_sends_the_credentials() {
    let (node, dir) = (servers::litecoind(), TestDirectory::new());
    let url = node.url("/");
    let stderr = dir.run(&["try", &url]).failure().1;
    for text in ["none is configured; set `basic_user` and `basic_password`", "`--basic USER`"] {
        assert!(stderr.contains(text), "{stderr}");
    }
    dir.write("password", SECRET);
    let output = dir.run(&["try", &url, "--basic", "ada", "--password-file", "password"]);
    let stderr = output.failure().1;
    // The node does not list its methods, and reports this to callers with a password.
    assert!(
        stderr.contains("does not describe its methods") || stderr.contains("code -28"),
        "{stderr}"
    );
}
