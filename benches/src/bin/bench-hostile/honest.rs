//! Honest clients, each with a connection that it uses at full speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use memchr::memmem;
use serde_json::json;

use crate::exchange::{self, Request};
use crate::server::{HONEST_USERS, Server};

/// Maximum time for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Latencies of a client in microseconds, and the failure that ended the client.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) latencies: Vec<u32>,
    pub(crate) failure: Option<String>,
}

/// Sends requests one after the other until `stop` is set or a request fails.
pub(crate) async fn run(number: usize, server: Arc<Server>, stop: Arc<AtomicBool>) -> Outcome {
    let mut latencies = Vec::new();
    let run = requests(number, &server, &stop, &mut latencies);
    let failure = run.await.err().map(|error| format!("client {number}: {error:#}"));
    Outcome { latencies, failure }
}

async fn requests(
    number: usize,
    server: &Server,
    stop: &AtomicBool,
    latencies: &mut Vec<u32>,
) -> anyhow::Result<()> {
    let (request, expected) = request(number, server);
    let expected = memmem::Finder::new(expected);
    let address = [127, 0, 0, u8::try_from(100 + number % HONEST_USERS)?];
    let mut stream = exchange::connect(address, server.address).await?;
    let mut buffer = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let exchange = exchange::send(&mut stream, &request, &mut buffer);
        let Ok(reply) = tokio::time::timeout(REPLY_TIMEOUT, exchange).await else {
            bail!("no reply within {REPLY_TIMEOUT:?}");
        };
        let reply = reply?;
        latencies.push(u32::try_from(started.elapsed().as_micros())?);
        let body = buffer.get(reply.body).unwrap_or_default();
        let is_correct = reply.status == 200 && expected.find(body).is_some();
        let text = || String::from_utf8_lossy(body).chars().take(300).collect::<String>();
        ensure!(is_correct, "{}: {}", reply.status, text());
    }
    Ok(())
}

/// Returns the request of a client, and bytes that the reply must contain.
fn request(number: usize, server: &Server) -> (Request, &'static [u8]) {
    let token = server.tokens.get(number % HONEST_USERS).map_or("", String::as_str);
    let local = "content.types.list";
    let rpc = |method: &str, params| {
        json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).to_string()
    };
    match number / HONEST_USERS % 5 {
        0 => {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let name = "content_types_list";
            let params = json!({"name": name, "arguments": {}, "_meta": meta});
            let extra_headers = format!(
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
            );
            (
                Request::post("/mcp", token, &extra_headers, &rpc("tools/call", params)),
                b"Basic page",
            )
        }
        1 => {
            let params = json!({"name": "content_types_list", "arguments": {}});
            let extra_headers = "MCP-Protocol-Version: 2025-11-25\r\n";
            (Request::post("/mcp", token, extra_headers, &rpc("tools/call", params)), b"Basic page")
        }
        2 => {
            let body = json!({"name": local, "arguments": {}}).to_string();
            (Request::post("/mcp/tools/invoke", token, "", &body), b"Basic page")
        }
        3 => (Request::get("/mcp/tools/describe?name=content.types.list", token), b"content types"),
        _ => {
            let params = json!({"text": "hello"});
            (Request::post("/jsonrpc", token, "", &rpc("echo", params)), b"\"result\":\"hello\"")
        }
    }
}
