//! anvil: an Ethereum node, whose methods are described by an OpenRPC document of another project.

use serde_json::json;

use super::servers::{self, RunningProcess};
use super::{QUIET, assert_recovery_after_kill, call, dir};
use crate::support::TestDirectory;

/// Returns a registry with the methods of the document.
fn imported(anvil: &RunningProcess, keys: &str) -> TestDirectory {
    let (document, methods) = servers::ethereum_document();
    let dir = dir(&format!("[upstreams.service]\nurl = \"{}\"\n{keys}", anvil.url("/")));
    let document = document.display().to_string();
    let stdout = dir.ok(&["import", "openrpc", &document, "--upstream", "service"]);
    assert!(stdout.contains(&format!("{methods} added")), "{stdout}");
    dir
}

#[test]
fn methods_of_anvil_are_imported_listed_and_called() {
    let anvil = servers::anvil();
    let dir = imported(&anvil, "");
    let server = dir.serve(&[]);
    let list = server.get("", "/mcp/tools/list").json();
    assert_eq!(list["tools"].as_array().unwrap().len(), 50, "the first page");
    assert_eq!(server.start["tools"], servers::ethereum_document().1);
    assert_eq!(call(&server, "eth_chainId", &json!({})), (false, "0x7a69".to_owned()));
    // Clients reject the name in the document, `Hydrated transactions`.
    let block = json!({"Block": "latest", "Hydrated_transactions": false});
    let reply = server.invoke("", "eth_getBlockByNumber", &block).json();
    assert_eq!(reply["result"]["number"], "0x0", "{reply}");
    let accounts = server.invoke("", "eth_accounts", &json!({})).json();
    assert_eq!(accounts["result"].as_array().unwrap().len(), 10, "{accounts}");
}

#[test]
fn errors_of_anvil_reach_the_agent() {
    let anvil = servers::anvil();
    let dir = imported(&anvil, "");
    let server = dir.serve(&[]);
    let (is_error, text) = call(&server, "wallet_getPermissions", &json!({}));
    assert!(is_error && text.contains("Method not found"), "{text}");
    let (is_error, text) = call(&server, "eth_sendRawTransaction", &json!({"Transaction": "0x00"}));
    assert!(is_error && text.contains("(code -32"), "{text}");
    let invalid = server.invoke("", "eth_sendRawTransaction", &json!({"Transaction": "zero"}));
    assert_eq!(invalid.status, 400, "what the schema refuses never leaves: {}", invalid.body);
}

#[test]
fn a_call_without_a_reply_fails_after_the_timeout() {
    let anvil = servers::anvil();
    let dir = imported(&anvil, "timeout_seconds = 1\n");
    dir.ok(&["method", "set", "eth_chainId", "--read-only"]);
    let server = dir.serve(&[]);
    anvil.suspend();
    let (is_error, text) = call(&server, "eth_chainId", &json!({}));
    let expected = "The service behind this tool did not respond within 1s. The method only reads, so the call \
                 can be repeated. (error id mcp_";
    assert!(is_error && text.starts_with(expected), "{text}");
    anvil.signal("-CONT");
    server.wait_until("it answers again", |server| {
        call(server, "eth_chainId", &json!({})).1 == "0x7a69"
    });
    assert!(
        server.operations("/readyz").json()["upstreams_down"].as_array().is_none_or(Vec::is_empty)
    );
}

#[test]
fn calls_succeed_again_after_a_restart_of_anvil() {
    let mut anvil = servers::anvil();
    let dir = imported(&anvil, "");
    let server = dir.serve_with(&[QUIET], &[]);
    assert_recovery_after_kill(&server, &mut anvil, "eth_chainId", &json!({}), "0x7a69");
}
