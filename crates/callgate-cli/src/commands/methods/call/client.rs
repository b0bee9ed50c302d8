//! The client of `callgate call`: MCP over a pipe, whose other side is the gateway or the bridge.

use std::fmt::Display;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// Capacity of the pipe in each direction, in bytes.
const BUFFER: usize = 64 * 1024;
/// Newest revision with a handshake. The server may choose an older one.
const REVISION: &str = "2025-11-25";
/// Ids of the two requests.
const INITIALIZE: u8 = 1;
const CALL: u8 = 2;

/// The name of a tool, and its arguments as JSON on one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolCall<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

impl ToolCall<'_> {
    /// Calls the tool on the server that `serve` runs until its input ends. Returns the JSON-RPC reply.
    pub(super) async fn send<E: Into<anyhow::Error>>(
        self,
        serve: impl AsyncFnOnce(
            BufReader<ReadHalf<DuplexStream>>,
            WriteHalf<DuplexStream>,
        ) -> Result<(), E>,
    ) -> Result<Value> {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let (input, output) = tokio::io::split(theirs);
        let (ended, reply) =
            tokio::join!(serve(BufReader::new(input), output), self.exchange(ours));
        reply.or_else(|error| {
            ended.map_err(Into::into)?;
            Err(error)
        })
    }

    async fn exchange(self, stream: DuplexStream) -> Result<Value> {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        let client = json!({"name": "callgate call", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client});
        write.write_all(line(INITIALIZE, "initialize", params).as_bytes()).await?;
        let opened = reply(&mut lines, INITIALIZE).await?;
        if opened.get("error").is_some() {
            return Ok(opened);
        }
        write
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
            .await?;
        let (name, arguments) = (json!(self.name), self.arguments);
        let params = format_args!("{{\"name\":{name},\"arguments\":{arguments}}}");
        write.write_all(line(CALL, "tools/call", params).as_bytes()).await?;
        reply(&mut lines, CALL).await
    }
}

fn line(id: u8, method: &str, params: impl Display) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
}

async fn reply(lines: &mut Lines<BufReader<ReadHalf<DuplexStream>>>, id: u8) -> Result<Value> {
    while let Some(line) = lines.next_line().await? {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message.get("id") == Some(&json!(id)) {
            return Ok(message);
        }
    }
    anyhow::bail!("the server has sent no reply")
}
