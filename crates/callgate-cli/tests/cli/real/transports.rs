//! The same services over other transports: WebSocket, and batches.

use serde_json::json;

use super::servers::{self, SECRET};
use super::{QUIET, assert_recovery_after_kill, call, call_batch, dir};
use crate::support::TestDirectory;

/// Returns a registry with this configuration of a service, and with these methods. The methods
/// have no parameters.
fn configured(table: &str, methods: &[&str]) -> TestDirectory {
    let dir = dir(&format!("[upstreams.service]\nparams = \"positional\"\n{table}"));
    for id in methods {
        dir.ok(&["method", "add", id, "--read-only", "--upstream", "service"]);
    }
    dir
}

fn anvil_over_websocket(anvil: &servers::RunningProcess) -> TestDirectory {
    let url = anvil.url("/").replace("http:", "ws:");
    configured(&format!("url = \"{url}\"\n"), &["eth_chainId", "eth_nothing"])
}

#[test]
fn anvil_returns_results_and_errors_over_websocket() {
    let anvil = servers::anvil();
    let dir = anvil_over_websocket(&anvil);
    let server = dir.serve(&[]);
    assert_eq!(call(&server, "eth_chainId", &json!({})), (false, "0x7a69".to_owned()));
    let (is_error, text) = call(&server, "eth_nothing", &json!({}));
    assert!(is_error && text.ends_with("(code -32602)"), "{text}");
    assert_eq!(call_batch(&server, "eth_chainId", &json!([]), 50), vec![json!("0x7a69"); 50]);
}

#[test]
fn calls_over_websocket_succeed_again_after_a_restart_of_anvil() {
    let mut anvil = servers::anvil();
    let dir = anvil_over_websocket(&anvil);
    let server = dir.serve_with(&[QUIET], &[]);
    assert_recovery_after_kill(&server, &mut anvil, "eth_chainId", &json!({}), "0x7a69");
}

#[test]
fn aria2_returns_results_between_notifications_over_websocket() {
    let aria2 = servers::aria2();
    let url = aria2.url("/jsonrpc").replace("http:", "ws:");
    let table = format!("url = \"{url}\"\nfirst_params = [\"token:{SECRET}\"]\n");
    let dir = configured(&table, &["aria2.getVersion"]);
    dir.ok(&[
        "method",
        "add",
        "aria2.addUri",
        "--param",
        "string[] $uris",
        "--upstream",
        "service",
    ]);
    // Descriptions are requested over the WebSocket too.
    let (_, stderr) = dir.run(&["import", "openrpc", "--upstream", "service"]).failure();
    assert_eq!(
        stderr,
        format!(
            "callgate: {url} offers no OpenRPC document\n  rpc.discover: No such method: rpc.discover (code 1)\n\
             hint: an OpenRPC document can also be imported from a file; `callgate import introspect` reads \
             `system.listMethods`\n"
        )
    );
    dir.ok(&["import", "introspect", "--upstream", "service", "--select", "aria2.getUris"]);
    let server = dir.serve(&[]);
    // No server listens there. aria2 notifies all connections that the download begins and fails.
    let unused_url = format!("http://{}/", servers::free_address());
    for _ in 0..5 {
        let added = server.invoke("", "aria2.addUri", &json!({"uris": [unused_url]})).json();
        assert!(added["result"].is_string(), "{added}");
        let (is_error, version) = call(&server, "aria2_getVersion", &json!({}));
        assert!(!is_error && version.contains("enabledFeatures"), "{version}");
    }
}

#[test]
fn anvil_and_aria2_accept_batches() {
    let (mut anvil, aria2) = (servers::anvil(), servers::aria2());
    let table = format!("url = \"{}\"\nbatch = true\n", anvil.url("/"));
    let dir = configured(&table, &["eth_chainId"]);
    let server = dir.serve(&[]);
    assert_eq!(call_batch(&server, "eth_chainId", &json!([]), 50), vec![json!("0x7a69"); 50]);
    let (_, log) = server.stop();
    assert!(!log.contains("the service refuses batches"), "{log}");
    let server = dir.serve_with(&[QUIET], &[]);
    assert_recovery_after_kill(&server, &mut anvil, "eth_chainId", &json!({}), "0x7a69");

    let url = aria2.url("/jsonrpc");
    let table = format!("url = \"{url}\"\nbatch = true\nfirst_params = [\"token:{SECRET}\"]\n");
    let dir = configured(&table, &["aria2.getVersion"]);
    let server = dir.serve(&[]);
    let versions = call_batch(&server, "aria2.getVersion", &json!([]), 50);
    assert!(versions.iter().all(|it| it["version"].is_string()), "{versions:?}");
    let (_, log) = server.stop();
    assert!(!log.contains("the service refuses batches"), "{log}");
}
