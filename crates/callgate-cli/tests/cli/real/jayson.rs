//! A server of the npm package jayson: parameters by name or by position, batches, and errors with data.

use serde_json::json;

use super::servers::{self, RunningProcess};
use super::{QUIET, assert_recovery_after_kill, call, call_batch, dir};
use crate::support::TestDirectory;

fn imported(jayson: &RunningProcess) -> TestDirectory {
    let dir = dir(&format!("[upstreams.service]\nurl = \"{}\"\nbatch = true\n", jayson.url("/")));
    let stdout = dir.ok(&["import", "openrpc", "--upstream", "service"]);
    assert!(stdout.contains("3 added"), "{stdout}");
    dir
}

#[test]
fn methods_of_jayson_are_imported_and_called_and_its_errors_are_returned() {
    let jayson = servers::jayson();
    let dir = imported(&jayson);
    let server = dir.serve(&[]);
    assert_eq!(call(&server, "add", &json!({"b": 2, "a": 40})), (false, "42".to_owned()));
    let ada = json!({"name": "Ada"});
    assert_eq!(call(&server, "greet", &ada), (false, "Hello, Ada".to_owned()));
    assert_eq!(call_batch(&server, "greet", &ada, 20), vec![json!("Hello, Ada"); 20]);
    let (is_error, text) = call(&server, "withdraw", &json!({"amount": 8}));
    assert!(is_error && text.contains("no 8 in the account"), "{text}");
    let reply = server.invoke("", "withdraw", &json!({"amount": 8})).json();
    assert_eq!(reply["error"]["data"]["data"]["balance"], 7, "{reply}");
}

#[test]
fn calls_succeed_again_after_a_restart_of_jayson() {
    let mut jayson = servers::jayson();
    let dir = imported(&jayson);
    let server = dir.serve_with(&[QUIET], &[]);
    assert_recovery_after_kill(&server, &mut jayson, "add", &json!({"a": 1, "b": 2}), "3");
}
