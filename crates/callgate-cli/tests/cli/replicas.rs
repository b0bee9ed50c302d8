//! `examples/replicas`: it runs, and no request depends on a particular server.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::faults::load::client::{Client, Era};
use callgate_test_support::workspace_program;

/// A tool of the demo.
const CALLED: &str = "cache_rebuild";

/// The running example. It is stopped with a signal, so that the programs that it started end too.
struct Replicas {
    child: Child,
    address: SocketAddr,
    token: String,
}

impl Drop for Replicas {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.child.wait();
    }
}

impl Replicas {
    fn start() -> Self {
        let mut command = Command::new(workspace_program("replicas"));
        command.args(["--listen", "127.0.0.1:0", "--callgate", env!("CARGO_BIN_EXE_callgate")]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut replicas =
            Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), token: String::new() };
        let mut lines = lines.map_while(Result::ok);
        let mut output = Vec::new();
        while replicas.token.is_empty() {
            let line = lines.next().unwrap_or_else(|| panic!("it did not start: {output:?}"));
            if let Some(url) = line.strip_prefix("replicas: nginx at http://") {
                replicas.address = url.trim_end_matches("/mcp").parse().unwrap();
            }
            if let Some(token) = line.strip_prefix("replicas: a token for admin: ") {
                token.clone_into(&mut replicas.token);
            }
            output.push(line);
        }
        // Reads all output, so that a full pipe does not block the example.
        std::thread::spawn(move || lines.for_each(drop));
        replicas
    }
}

/// Returns the reply to a request, and the server that sent it.
fn request(client: &mut Client, method: &str, params: Value) -> (Value, String) {
    let response = client.send(0, method, params).unwrap();
    assert_eq!(response.status, 200, "{response:?}");
    let served_by = response.header("x-served-by").unwrap().to_owned();
    (serde_json::from_str(&response.body).unwrap(), served_by)
}

#[test]
fn clients_of_each_era_are_served_by_all_servers_behind_nginx() {
    let replicas = Replicas::start();
    for era in [Era::Legacy, Era::Modern] {
        let mut client = Client::new(era, &replicas.token, [CALLED; 2], &[replicas.address], 0);
        let mut served_by = HashSet::new();
        for _ in 0..50 {
            let (tools, by) = request(&mut client, "tools/list", json!({}));
            assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(9), "{tools}");
            served_by.insert(by);
            let params = json!({"name": CALLED, "arguments": {}});
            let (called, by) = request(&mut client, "tools/call", params);
            assert_eq!(called["result"]["content"][0]["text"], "true", "{called}");
            served_by.insert(by);
        }
        assert_eq!(served_by.len(), 3, "{era:?}: {served_by:?}");
    }
}
