//! The client of `callgate call`. It speaks MCP over a pipe. The other end is the bridge, or a server in this
//! process.

use std::fmt::Display;

use anyhow::Result;
use callgate::jsonrpc::INVALID_PARAMS;
use callgate::model::{NameRequest, Prefix, tool_names};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use crate::error_hints::{hinted, nearest};

/// Capacity of the pipe in each direction, in bytes.
const PIPE_CAPACITY: usize = 64 * 1024;
/// Newest MCP revision with a handshake. The server may choose an older revision.
const REVISION: &str = "2025-11-25";
/// Ids of the requests.
const INITIALIZE: u8 = 1;
const CALL: u8 = 2;
const LIST: u8 = 3;
/// Maximum number of tools that are searched for a name.
const MAX_NAMES: usize = 100_000;

/// The name of a tool, and its arguments as JSON on one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolCall<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

impl ToolCall<'_> {
    /// Calls the tool and returns the JSON-RPC reply. `serve` runs the server until the server's input ends.
    pub(super) async fn send<E: Into<anyhow::Error>>(
        self,
        serve: impl AsyncFnOnce(
            BufReader<ReadHalf<DuplexStream>>,
            WriteHalf<DuplexStream>,
        ) -> Result<(), E>,
    ) -> Result<Value> {
        let (client_end, server_end) = tokio::io::duplex(PIPE_CAPACITY);
        let (input, output) = tokio::io::split(server_end);
        let (served, reply) =
            tokio::join!(serve(BufReader::new(input), output), self.exchange(client_end));
        reply.or_else(|error| {
            served.map_err(Into::into)?;
            Err(error)
        })
    }

    async fn exchange(self, stream: DuplexStream) -> Result<Value> {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        let client = json!({"name": "callgate call", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client});
        write.write_all(line(INITIALIZE, "initialize", params).as_bytes()).await?;
        let initialized = reply(&mut lines, INITIALIZE).await?;
        if initialized.get("error").is_some() {
            return Ok(initialized);
        }
        write
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
            .await?;
        write.write_all(self.line(self.name).as_bytes()).await?;
        let response = reply(&mut lines, CALL).await?;
        if response.pointer("/error/code") != Some(&json!(INVALID_PARAMS)) {
            return Ok(response);
        }
        let mut names: Vec<String> = Vec::new();
        let mut params = json!({});
        loop {
            write.write_all(line(LIST, "tools/list", params).as_bytes()).await?;
            let page = reply(&mut lines, LIST).await?;
            let tools = page.pointer("/result/tools").and_then(Value::as_array);
            let found = tools.into_iter().flatten().filter_map(|tool| tool.get("name")?.as_str());
            names.extend(found.map(ToOwned::to_owned));
            match page.pointer("/result/nextCursor").filter(|_| names.len() < MAX_NAMES) {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        if names.iter().any(|name| name == self.name) {
            return Ok(response);
        }
        // Callgate derives the name of a tool from the id of its method.
        let derived = derived_name(self.name);
        let Some(name) = derived.as_ref().filter(|name| names.contains(name)) else {
            let hint = match suggest_name(self.name, derived, &names) {
                Some(name) => format!("did you mean `{name}`?"),
                None if names.is_empty() => "the server lists no tools for this caller".to_owned(),
                None => format!(
                    "it has {} tools, such as `{}`",
                    names.len(),
                    names.first().map_or("", String::as_str)
                ),
            };
            let escaped_name = self.name.escape_debug();
            return Err(hinted(
                format!("the server has no tool `{escaped_name}` for this caller"),
                hint,
            ));
        };
        write.write_all(self.line(name).as_bytes()).await?;
        reply(&mut lines, CALL).await
    }

    fn line(self, name: &str) -> String {
        let (name, arguments) = (json!(name), self.arguments);
        line(CALL, "tools/call", format_args!("{{\"name\":{name},\"arguments\":{arguments}}}"))
    }
}

/// Returns the tool that was probably meant: one with a prefix before the name, or the most similar name.
fn suggest_name<'a>(id: &str, name: Option<String>, names: &'a [String]) -> Option<&'a String> {
    let suffix = name.map(|name| format!("__{name}"));
    let with_prefix = suffix.and_then(|suffix| names.iter().find(|name| name.ends_with(&suffix)));
    with_prefix.or_else(|| nearest(id, names))
}

fn derived_name(id: &str) -> Option<String> {
    let requests = [NameRequest { id, preferred: None }];
    let name = tool_names(&Prefix::default(), &requests, []).pop()?.ok()?;
    Some(name.to_string())
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
