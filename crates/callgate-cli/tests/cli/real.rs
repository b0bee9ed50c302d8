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
mod wires;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use serde_json::Value;

use super::support::{Server, TIMEOUT, TestDirectory};
use servers::RunningProcess;

/// Number of callers that call concurrently while a service is killed.
const CALLERS: usize = 4;

/// Messages that an agent may get about a stopped service, after "The service behind this tool".
const GONE: [&str; 5] = [
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
fn together(server: &Server, method: &str, params: &Value, count: usize) -> Vec<Value> {
    let call =
        |id| serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let calls: Value = (0..count).map(call).collect();
    let replies = server.request("POST /jsonrpc", "", &calls.to_string()).json();
    replies.as_array().unwrap().iter().map(|reply| reply["result"].clone()).collect()
}

/// Calls a tool of a stopped service until the message is that the service cannot be reached.
fn until_gone(server: &Server, name: &str) {
    server.until("the service is gone", |server| {
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
fn survives_kill_and_return(
    server: &Server,
    service: &mut RunningProcess,
    name: &str,
    arguments: &Value,
    expected: &str,
) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel::<Result<(), String>>();
        for _ in 0..CALLERS {
            let (tell, is_over) = (tell.clone(), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = match call(server, name, arguments) {
                        (false, text) if text.contains(expected) => Ok(()),
                        (_, text) => Err(text),
                    };
                    if tell.send(answer).is_err() {
                        return;
                    }
                }
            });
        }
        // Stops the callers, even if an assertion fails.
        let _over = OnDrop(|| is_over.store(true, Ordering::Relaxed));
        let until = |what: &str, is_so: &dyn Fn(&Result<(), String>) -> bool| {
            let started = Instant::now();
            loop {
                let answer = told.recv_timeout(TIMEOUT).unwrap();
                if let Err(text) = &answer {
                    let words = text.strip_prefix("The service behind this tool ");
                    let is_known = |gone: &&str| words.is_some_and(|it| it.starts_with(*gone));
                    assert!(GONE.iter().any(is_known), "{text}");
                }
                if is_so(&answer) {
                    return;
                }
                assert!(started.elapsed() < TIMEOUT, "never: {what}");
            }
        };
        for _ in 0..CALLERS * 4 {
            until("an answer", &|answer| answer.is_ok());
        }
        service.kill();
        until("a failure", &|answer| answer.is_err());
        until("it is left alone", &|answer| {
            answer.as_ref().is_err_and(|text| text.contains("are suspended for some seconds"))
        });
        let ready = server.operations("/readyz").json();
        assert_eq!(ready["upstreams_down"], serde_json::json!(["service"]), "{ready}");
        service.restart();
        for _ in 0..CALLERS * 4 {
            until("an answer after its return", &|answer| answer.is_ok());
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
