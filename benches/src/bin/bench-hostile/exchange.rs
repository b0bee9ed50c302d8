//! Requests and replies over HTTP/1.1.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// An encoded request.
#[derive(Debug, Clone)]
pub(crate) struct Request(pub(crate) Vec<u8>);

/// Status of a reply, and the range of its body in the buffer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: std::ops::Range<usize>,
}

impl Request {
    pub(crate) fn get(path: &str, token: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\n{}\r\n", headers(token)).into_bytes())
    }

    pub(crate) fn post(path: &str, token: &str, extra_headers: &str, body: &str) -> Self {
        let (headers, length) = (headers(token), body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\n{headers}{extra_headers}Content-Length: {length}\r\n\r\n"
        );
        Self([head.as_bytes(), body.as_bytes()].concat())
    }
}

/// Returns the headers of every request. If `token` is empty, there is no `Authorization` header.
pub(crate) fn headers(token: &str) -> String {
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    format!("Host: localhost\r\nAccept: application/json, text/event-stream\r\n{authorization}")
}

/// Connects from an address of this machine to a server.
pub(crate) async fn connect(from: [u8; 4], to: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((IpAddr::from(from), 0).into())?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads its reply, which must have a `Content-Length`.
pub(crate) async fn send(
    stream: &mut TcpStream,
    request: &Request,
    buffer: &mut Vec<u8>,
) -> anyhow::Result<Reply> {
    stream.write_all(&request.0).await.context("failed to send a request")?;
    buffer.clear();
    loop {
        let read = stream.read_buf(buffer).await.context("failed to read a reply")?;
        ensure!(read > 0, "the connection was closed after {} bytes", buffer.len());
        let Some(end) = memmem::find(buffer, b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(buffer.get(..end).unwrap_or_default())?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let body = end + 4..end + 4 + length.context("the reply has no Content-Length")?;
        if buffer.len() >= body.end {
            return Ok(Reply { status: status.context("the reply has no status")?, body });
        }
    }
}
