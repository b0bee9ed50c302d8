//! PHP's built-in server with a small JSON-RPC host (`tests/php`): its source is imported, and its methods are called.

use std::time::Instant;

use serde_json::{Value, json};

use super::servers::{RunningProcess, debian};
use super::{QUIET, assert_recovery_after_kill, dir};
use crate::support::{Server, TIMEOUT, TestDirectory};

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php");

/// Returns PHP without the configuration of the system.
fn php() -> std::process::Command {
    let mut command = debian("php-cli", "php");
    command.arg("-n").current_dir(HOST);
    command
}

fn host() -> RunningProcess {
    RunningProcess::start(|port| {
        let mut command = php();
        command.args(["-S", &format!("127.0.0.1:{port}"), "router.php"]);
        command
    })
}

/// Returns a gateway in front of the host, after its source was imported.
fn serve_imported(host: &RunningProcess, options: &str) -> (TestDirectory, Server) {
    let url = host.url("/");
    let dir =
        dir(&format!("[upstreams.service]\nurl = \"{url}\"\nparams = \"positional\"\n{options}"));
    dir.ok(&["import", "php", HOST, "--upstream", "service", "--section", "all"]);
    dir.sql("callgate.db", "INSERT INTO users_types (caption) VALUES ('anonymous')");
    // Some methods of the source name sections themselves. The section `all` is for the others.
    for section in ["all", "projects", "commits"] {
        dir.ok(&["grant", "set", "--role", "anonymous", section, "write"]);
    }
    let server = dir.serve_with(&[QUIET], &[]);
    (dir, server)
}

#[test]
fn methods_of_imported_source_run_on_the_php_server() {
    let host = host();
    let (_dir, server) = serve_imported(&host, "");
    let call = |id: &str, arguments: Value| server.invoke("", id, &arguments).json();
    assert_eq!(
        call("getProject", json!({"idProject": 1})),
        json!({"result": {"id": 1, "name": "Bridge"}})
    );
    let details = call("getProject", json!({"includeDetails": true, "idProject": 2}));
    assert_eq!(details["result"]["owner"], "Ada");
    let found = call(
        "findProjects",
        json!({"query": "t", "atLeast": 16, "owner": {"name": "Ada"}, "states": ["planned"], "from": ""}),
    );
    assert_eq!(found["result"], json!({"items": ["Tunnel"], "atLeast": "High", "owner": "Ada"}));
    let commit = json!({"sha": "a1", "author": {"name": "Ada", "team": [{"name": "Bob"}]}});
    let batch = json!({"commits": [commit, commit], "serviceName": "git", "idProject": 1});
    assert_eq!(call("batchCreateByProjectID", batch), json!({"result": 2}));
    assert_eq!(
        call("getProjects", json!({}))["result"]["total"],
        2,
        "what the Response was filled with"
    );
    assert_eq!(call("node.create", json!({"title": "New"}))["result"]["title"], "New", "by name");
    assert_eq!(call("cache.rebuild", json!({})), json!({"result": true}));
    let refused = call("findProjects", json!({"query": "t", "states": ["lost"]}));
    assert_eq!(refused["error"]["code"], "invalid_arguments", "{refused}");
    let failed = call("getProject", json!({"idProject": 9}));
    assert_eq!(failed["error"]["message"], "there is no project 9");
    assert_eq!(failed["error"]["data"]["code"], 404);
    assert!(!server.tools("").iter().any(|tool| tool == "user.count"), "it is not marked");
}

#[test]
fn a_php_server_killed_during_a_call_is_reported_and_used_again_after_a_restart() {
    let mut host = host();
    let (dir, server) = serve_imported(&host, "timeout_seconds = 2\n");
    let file = dir.path("begun");
    let wait = |seconds: u32| json!({"file": file, "seconds": seconds});
    let broken = std::thread::scope(|scope| {
        let call = scope.spawn(|| server.invoke("", "waitFor", &wait(60)));
        let started = Instant::now();
        while !file.exists() {
            assert!(started.elapsed() < TIMEOUT, "the call does not arrive");
            std::thread::yield_now();
        }
        host.kill();
        call.join().unwrap()
    });
    let message = broken.json()["error"]["message"].to_string();
    assert!(message.contains("closed the connection without a response"), "{message}");
    assert!(message.contains("may have run"), "{message}");
    let unavailable = server.invoke("", "getProjects", &json!({})).json();
    assert!(
        unavailable["error"]["message"].to_string().contains("cannot be reached"),
        "{unavailable}"
    );
    host.restart();
    let restarted = server.invoke("", "getProject", &json!({"idProject": 1})).json();
    assert_eq!(restarted["result"]["name"], "Bridge");
    let timed_out = server.invoke("", "waitFor", &wait(60)).json();
    assert!(
        timed_out["error"]["message"].to_string().contains("did not respond within"),
        "{timed_out}"
    );
}

#[test]
fn calls_succeed_again_after_a_restart_of_the_php_server() {
    let mut host = host();
    let (_dir, server) = serve_imported(&host, "");
    let project = json!({"idProject": 1});
    assert_recovery_after_kill(&server, &mut host, "getProject", &project, "Bridge");
}

#[test]
fn imported_parameters_match_those_of_php_reflection() {
    let output = php().arg("reflect.php").output().unwrap();
    let signatures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let dir = TestDirectory::migrated();
    dir.ok(&["import", "php", HOST]);
    let manifest: Value = serde_json::from_str(&dir.ok(&["export"])).unwrap();
    let mut compared = 0;
    for method in manifest["methods"].as_array().unwrap() {
        let Some(expected) = signatures[method["id"].as_str().unwrap()].as_array() else {
            continue;
        };
        let expected: Vec<&Value> = expected.iter().filter(|it| it["type"] != "Response").collect();
        let params = method["params"].as_array().cloned().unwrap_or_default();
        assert_eq!(params.len(), expected.len(), "{method}");
        for (param, expected) in params.iter().zip(expected) {
            compared += 1;
            assert_eq!(param["name"], expected["name"]);
            assert_eq!(
                param["optional"].as_bool().unwrap_or(false),
                expected["optional"],
                "{param}"
            );
            // The value of `__DIR__` is known only at run time.
            if expected["has_default"] == true && param["name"] != "from" {
                assert_eq!(param["default"], expected["default"], "{param}");
            }
            let ty = param["type"].as_str().unwrap();
            let native = expected["type"].as_str().unwrap();
            assert_eq!(ty.starts_with('?'), native.starts_with('?'), "{param} {native}");
            if ["int", "bool", "float", "?string", "mixed"].contains(&native) {
                assert!(ty.starts_with(native), "{param} {native}");
            }
        }
    }
    assert!(compared >= 20, "{compared}");
}
