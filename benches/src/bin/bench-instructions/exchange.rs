//! Sends requests one after the other on one connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, bail, ensure};
use callgate_bench::model;
use callgate_bench::reply::Reply;
use serde_json::{Value, json};

use crate::Kind;
use crate::server::Server;

/// Sends `count` requests and checks each reply.
pub(crate) fn send(server: &Server, kind: Kind, count: u32) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(server.address)?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 1 << 18];
    for id in 0..count {
        stream.write_all(&request(server, kind, id))?;
        let (status, body) = receive(&mut stream, &mut buffer)?;
        let text = String::from_utf8_lossy(body);
        let expected = match kind {
            Kind::List => "inputSchema",
            Kind::Call | Kind::Forward => model::NAME,
        };
        let is_correct = status == 200 && text.contains(expected);
        ensure!(is_correct, "wrong reply to request {id}: {status} {text}");
    }
    Ok(())
}

fn request(server: &Server, kind: Kind, id: u32) -> Vec<u8> {
    let (method, mut params) = match kind {
        Kind::List => ("tools/list", json!({})),
        Kind::Call | Kind::Forward => {
            ("tools/call", json!({"name": model::LOCAL, "arguments": {"id_user": 2}}))
        }
    };
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(params) = params.as_object_mut() {
        params.insert("_meta".to_owned(), meta);
    }
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
    let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    let Server { address, token, .. } = server;
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Reads a reply. Returns its status and body.
fn receive<'b>(stream: &mut TcpStream, buffer: &'b mut [u8]) -> anyhow::Result<(u16, &'b [u8])> {
    let mut filled = 0;
    loop {
        let unfilled = buffer.get_mut(filled..).unwrap_or_default();
        let read = stream.read(unfilled).context("failed to read a reply")?;
        if read == 0 {
            bail!("the server closed the connection, or the reply is too large");
        }
        filled += read;
        let bytes = buffer.get(..filled).unwrap_or_default();
        if let Some(Reply { status, body }) = Reply::parse(bytes)? {
            return Ok((status, buffer.get(body).unwrap_or_default()));
        }
    }
}
