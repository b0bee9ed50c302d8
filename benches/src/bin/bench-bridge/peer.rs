//! Clients that send a message and wait for the reply.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde_json::json;

use crate::programs::Demo;

/// Protocol era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        })
    }
}

impl Era {
    /// Returns the measured call.
    pub(crate) fn call(self) -> String {
        let mut params = json!({"name": "user_get", "arguments": {"id_user": 2}});
        if let (Self::Modern, Some(params)) = (self, params.as_object_mut()) {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.to_string(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            params.insert("_meta".to_owned(), meta);
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    }
}

/// A server or a bridge.
pub(crate) trait Peer {
    /// Sends a message and waits for the reply.
    fn request(&mut self, message: &str) -> anyhow::Result<String>;
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct DirectClient {
    stream: TcpStream,
    head: String,
    reply: Vec<u8>,
}

impl DirectClient {
    pub(crate) fn connect(demo: &Demo, era: Era) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(demo.address)?;
        stream.set_nodelay(true)?;
        let routing = match era {
            Era::Legacy => "",
            Era::Modern => "Mcp-Method: tools/call\r\nMcp-Name: user_get\r\n",
        };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {era}\r\n{routing}",
            demo.token
        );
        Ok(Self { stream, head, reply: vec![0; 1 << 16] })
    }
}

impl Peer for DirectClient {
    /// Reads a reply, which is small enough for one read.
    fn request(&mut self, message: &str) -> anyhow::Result<String> {
        let request = format!("{}Content-Length: {}\r\n\r\n{message}", self.head, message.len());
        self.stream.write_all(request.as_bytes())?;
        let count = self.stream.read(&mut self.reply)?;
        let reply = self.reply.get(..count).unwrap_or_default();
        Ok(String::from_utf8_lossy(reply).into_owned())
    }
}

/// A running bridge with its standard input and output. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct BridgeProcess {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for BridgeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl BridgeProcess {
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("failed to start a bridge")?;
        let input = process.stdin.take().context("stdin is not piped")?;
        let output = BufReader::new(process.stdout.take().context("stdout is not piped")?);
        Ok(Self { process, input, output })
    }

    /// Performs the handshake of the legacy era. The modern era has no handshake.
    pub(crate) fn initialize(&mut self, era: Era) -> anyhow::Result<()> {
        if era == Era::Modern {
            return Ok(());
        }
        let params = json!({
            "protocolVersion": era.to_string(),
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        let initialize =
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let reply = self.request(&initialize.to_string())?;
        anyhow::ensure!(reply.contains("\"result\""), "the handshake failed: {reply}");
        writeln!(self.input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)?;
        Ok(())
    }

    /// Returns the peak memory in kilobytes.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.context("the process has no VmHWM")?.parse().context("VmHWM is not a number")
    }
}

impl Peer for BridgeProcess {
    fn request(&mut self, message: &str) -> anyhow::Result<String> {
        writeln!(self.input, "{message}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}
