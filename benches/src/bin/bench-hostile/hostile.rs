//! Hostile clients. Each repeats one kind of request forever, and connects again if it is disconnected.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::exchange::{self, Request};
use crate::server::{HONEST_USERS, Server};

/// Pause before the next connection, so that this program has time for the honest clients.
const RECONNECT_DELAY: Duration = Duration::from_millis(10);
/// Pause between the bytes of a slow request.
const BYTE_INTERVAL: Duration = Duration::from_secs(1);

/// Descriptions of what hostile clients do, for the report.
pub(crate) const KINDS: [&str; 10] = [
    "request bodies, sent at one byte per second",
    "request heads, sent at one byte per second",
    "connections without a request",
    "batches of 100 calls that take five seconds each",
    "batches of 100 calls with results of 1 MiB each",
    "wrong tokens",
    "streams and replies that are never read",
    "batches of 100 `resources/read` requests for `callgate://tools`",
    "arguments of 50 KB for patterns that need backtracking",
    "bodies of 2 MB",
];

/// Runs until it is aborted. Half of the clients of each kind have no token. The other half use the token of the
/// hostile user.
pub(crate) async fn run(number: usize, server: Arc<Server>) {
    let kind = number % KINDS.len();
    let has_token = number / KINDS.len() % 2 == 1;
    let token = server.tokens.get(HONEST_USERS).filter(|_| has_token);
    let token = token.map_or("", String::as_str);
    loop {
        let address = [127, 0, 0, u8::try_from(2 + kind).unwrap_or(2)];
        if let Ok(stream) = exchange::connect(address, server.address).await {
            let _ = attack(kind, stream, token).await;
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

async fn attack(kind: usize, mut stream: TcpStream, token: &str) -> anyhow::Result<()> {
    let request = match kind {
        0 => {
            let head = exchange::headers(token);
            let head = format!("POST /mcp HTTP/1.1\r\n{head}Content-Length: 100000\r\n\r\n");
            return trickle(&mut stream, head.as_bytes(), b' ').await;
        }
        1 => return trickle(&mut stream, b"GET /mcp/tools/list HTTP/1.1\r\nHost: ", b'a').await,
        2 => {
            stream.read_u8().await?;
            return Ok(());
        }
        3 => Request::post("/jsonrpc", token, "", &batch("slow", &json!({}))),
        4 => Request::post("/jsonrpc", token, "", &batch("large", &json!({}))),
        5 => return wrong_tokens(&mut stream).await,
        6 => return send_without_reading(stream, token).await,
        7 => {
            let params = json!({"uri": "callgate://tools"});
            Request::post("/mcp", token, "", &batch("resources/read", &params))
        }
        8 => {
            let params =
                json!({"backtracking": "a".repeat(25_000), "lookahead": "b".repeat(25_000)});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "checked", "params": params});
            Request::post("/jsonrpc", token, "", &call.to_string())
        }
        _ => Request::post("/jsonrpc", token, "", &" ".repeat(2_000_000)),
    };
    let mut buffer = Vec::new();
    loop {
        exchange::send(&mut stream, &request, &mut buffer).await?;
    }
}

fn batch(method: &str, params: &Value) -> String {
    let call = |id| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    (0..100).map(call).collect::<Value>().to_string()
}

/// Sends the start of a request and then a byte per second.
async fn trickle(stream: &mut TcpStream, start: &[u8], byte: u8) -> anyhow::Result<()> {
    stream.write_all(start).await?;
    loop {
        tokio::time::sleep(BYTE_INTERVAL).await;
        stream.write_u8(byte).await?;
    }
}

/// Sends requests, each with a different unknown token.
async fn wrong_tokens(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut buffer = Vec::new();
    for number in std::process::id().. {
        let token = format!("cg_{:043}", number.wrapping_mul(2_654_435_761));
        exchange::send(stream, &Request::get("/mcp/tools/list", &token), &mut buffer).await?;
    }
    Ok(())
}

/// Without a token, opens a stream. With a token, requests lists as fast as the server accepts the requests. Reads no
/// replies.
async fn send_without_reading(mut stream: TcpStream, token: &str) -> anyhow::Result<()> {
    if token.is_empty() {
        let params = json!({
            "notifications": {"toolsListChanged": true},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        });
        let method = "subscriptions/listen";
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let extra_headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
        let request = Request::post("/mcp", token, &extra_headers, &body.to_string());
        stream.write_all(&request.0).await?;
        // Nothing is read, so this client does not notice the end of the stream. It keeps the stream for a minute.
        tokio::time::sleep(Duration::from_mins(1)).await;
        return Ok(());
    }
    let request = Request::get("/mcp/tools/list", token);
    loop {
        stream.write_all(&request.0).await?;
    }
}
