//! The bridge between a client on in-memory pipes and small servers on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop"
)]

mod batches;
mod failures;
mod legacy;
mod lines;
mod modern;
mod streams;
mod tls;

use std::time::Duration;

use callgate::bridge::{self, BridgeError, Limits, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;

/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);
const TOKEN: &str = "cg_never_to_be_seen";

/// A client with its own bridge.
struct BridgeClient {
    input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    bridge: JoinHandle<Result<(), BridgeError>>,
    received_lines: Vec<String>,
}

impl BridgeClient {
    fn start(url: &str) -> Self {
        Self::with(Options::new(url.parse().unwrap()).token(TOKEN).unwrap())
    }

    /// Creates a client that waits only a short time for a server.
    fn with_short_waits(url: &str) -> Self {
        let wait = Duration::from_millis(200);
        let limits = Limits { first_request_wait: wait, request_wait: wait, ..Limits::default() };
        Self::with(Options::new(url.parse().unwrap()).token(TOKEN).unwrap().limits(limits))
    }

    fn with(options: Options) -> Self {
        let (input, bridge_input) = tokio::io::duplex(1 << 16);
        let (output, bridge_output) = tokio::io::duplex(1 << 16);
        let bridge = tokio::spawn(async move {
            let input = BufReader::new(bridge_input);
            bridge::run(&options, input, bridge_output, std::future::pending()).await
        });
        let output = BufReader::new(output).lines();
        Self { input: Some(input), output, bridge, received_lines: Vec::new() }
    }

    async fn send(&mut self, message: Value) {
        self.send_text(&message.to_string()).await;
    }

    async fn send_text(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Returns the next message, which must be one line of JSON without the token.
    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.output.next_line()).await;
        let line = line.expect("a message in time").unwrap().expect("a message");
        assert!(!line.contains(TOKEN), "{line}");
        let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        self.received_lines.push(line);
        message
    }

    /// Returns the next message, which must be the response to this id.
    async fn answer(&mut self, id: impl Into<Value>) -> Value {
        let message = self.next().await;
        assert_eq!(message["id"], id.into(), "{message}");
        message
    }

    /// Opens a session of this revision.
    async fn initialize(&mut self, version: &str) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {}});
        self.request(0, "initialize", params).await;
        let answer = self.answer(0).await;
        self.notify("notifications/initialized", json!({})).await;
        answer
    }

    /// Closes the client. Returns the messages that it has not read.
    async fn close(mut self) -> Vec<Value> {
        drop(self.input.take());
        let mut unread = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            unread.push(serde_json::from_str(&line).unwrap());
        }
        let result = tokio::time::timeout(TIMEOUT, self.bridge).await;
        result.expect("the bridge ends with its client").unwrap().unwrap();
        unread
    }
}

/// Adds the metadata of a modern request.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// Polls until the condition holds.
async fn wait_until(description: &str, mut condition: impl FnMut() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, polling).await.is_ok(), "never: {description}");
}
