//! Callgate in front of servers of other projects, which are installed and started here, on loopback.

mod anvil;
mod aria2;
mod deluge;
mod electrum;
mod jayson;
mod litecoin;
mod mock;
mod monero;
mod oauth;
mod php;
pub(crate) mod servers;
mod transmission;
mod transports;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use serde_json::Value;

use super::support::{Server, TIMEOUT, TestDirectory};
use servers::RunningProcess;

/// Number of callers that call concurrently while a service is killed.
const CALLERS: usize = 4;

/// Messages that an agent may get about a stopped service, after "The service behind this tool".
const UNAVAILABLE_MESSAGES: [&str; 5] = [
    "cannot be reached. Nothing was run",
    "cannot be reached, and calls to it are suspended for some seconds. Nothing was run",
    "closed the connection without a response",
    "closed the connection in the middle of its response",
    // PHP's server marks the end of a response by closing the connection. If the server is killed
    // after the headers, the body seems to be empty.
    "responded without a body (HTTP 200)",
];

/// A directory with a registry and this configuration.
fn dir(configuration: &str) -> TestDirectory {
    let dir = TestDirectory::new();
    let operations = "operations_listen = \"127.0.0.1:0\"\n";
    dir.write("callgate.toml", &format!("{operations}{configuration}"));
    dir.ok(&["migrate"]);
    dir
}

/// No log: nobody reads it here, and thousands of calls fail.
const QUIET: (&str, &str) = ("CALLGATE_LOG", "off");

/// Calls a method `count` times in one batch. Returns the results.
fn call_batch(server: &Server, method: &str, params: &Value, count: usize) -> Vec<Value> {
    let call =
        |id| serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let calls: Value = (0..count).map(call).collect();
    let replies = server.request("POST /jsonrpc", "", &calls.to_string()).json();
    replies.as_array().unwrap().iter().map(|reply| reply["result"].clone()).collect()
}

/// Calls a tool of a stopped service until the message is that the service cannot be reached.
fn wait_until_unreachable(server: &Server, name: &str) {
    server.wait_until("the service is gone", |server| {
        let (is_error, text) = call(server, name, &serde_json::json!({}));
        is_error && text.contains("cannot be reached. Nothing was run")
    });
}

/// Calls a tool over MCP. Returns whether the result is an error, and the text.
fn call(server: &Server, name: &str, arguments: &Value) -> (bool, String) {
    let params = serde_json::json!({"name": name, "arguments": arguments});
    let call =
        serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let reply = server.request("POST /mcp", "", &call.to_string()).json();
    let text = reply["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{reply}")).to_owned();
    (reply["result"]["isError"] == true, text)
}

/// Kills a service while several callers call it, and restarts it. Every call gets a reply: the result of the service,
/// or a message about the failure. Later calls reach the service.
fn assert_recovery_after_kill(
    server: &Server,
    service: &mut RunningProcess,
    name: &str,
    arguments: &Value,
    expected: &str,
) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel::<Result<(), String>>();
        for _ in 0..CALLERS {
            let (sender, is_done) = (sender.clone(), &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    let reply = match call(server, name, arguments) {
                        (false, text) if text.contains(expected) => Ok(()),
                        (_, text) => Err(text),
                    };
                    if sender.send(reply).is_err() {
                        return;
                    }
                }
            });
        }
        // Stops the callers, even if an assertion fails.
        let _stop = OnDrop(|| is_done.store(true, Ordering::Relaxed));
        let wait_for = |expected_reply: &str, is_expected: &dyn Fn(&Result<(), String>) -> bool| {
            let started = Instant::now();
            loop {
                let reply = receiver.recv_timeout(TIMEOUT).unwrap();
                if let Err(text) = &reply {
                    let message = text.strip_prefix("The service behind this tool ");
                    let is_known =
                        |prefix: &&str| message.is_some_and(|it| it.starts_with(*prefix));
                    assert!(UNAVAILABLE_MESSAGES.iter().any(is_known), "{text}");
                }
                if is_expected(&reply) {
                    return;
                }
                assert!(started.elapsed() < TIMEOUT, "never: {expected_reply}");
            }
        };
        for _ in 0..CALLERS * 4 {
            wait_for("an answer", &|reply| reply.is_ok());
        }
        service.kill();
        wait_for("a failure", &|reply| reply.is_err());
        wait_for("it is left alone", &|reply| {
            reply.as_ref().is_err_and(|text| text.contains("are suspended for some seconds"))
        });
        let ready = server.operations("/readyz").json();
        assert_eq!(ready["upstreams_down"], serde_json::json!(["service"]), "{ready}");
        service.restart();
        for _ in 0..CALLERS * 4 {
            wait_for("an answer after its return", &|reply| reply.is_ok());
        }
    });
    let ready = server.operations("/readyz").json();
    assert!(
        ready.get("upstreams_down").is_none_or(|down| down == &serde_json::json!([])),
        "{ready}"
    );
}

/// Runs a function at the end of a block, even after a panic.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
