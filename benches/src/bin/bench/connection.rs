//! A persistent connection with at most one request at a time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};

use callgate_bench::reply::Reply;

/// Buffer size, larger than any reply.
const BUFFER: usize = 256 * 1024;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Connection {
    /// Connects and registers the socket with `poll`.
    pub(crate) fn open(address: SocketAddr, poll: &Poll, token: Token) -> anyhow::Result<Self> {
        let stream = std::net::TcpStream::connect(address)
            .with_context(|| format!("failed to connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, token, Interest::READABLE)?;
        Ok(Self { stream, buffer: vec![0; BUFFER], filled: 0 })
    }

    /// Sends a request. The socket buffer is empty, because the previous reply has arrived.
    pub(crate) fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.filled = 0;
        let written = self.stream.write(request).context("failed to send a request")?;
        ensure!(written == request.len(), "{written} of {} bytes were sent", request.len());
        Ok(())
    }

    /// Reads available bytes. Returns status and body once the reply is complete.
    pub(crate) fn receive(&mut self) -> anyhow::Result<Option<(u16, &[u8])>> {
        loop {
            let unfilled = self.buffer.get_mut(self.filled..).unwrap_or_default();
            let unfilled_length = unfilled.len();
            let read = match self.stream.read(unfilled) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("failed to read a reply"),
            };
            ensure!(read > 0, "the server closed the connection, or the reply is too large");
            self.filled += read;
            let bytes = self.buffer.get(..self.filled).unwrap_or_default();
            if let Some(Reply { status, body }) = Reply::parse(bytes)? {
                let body = self.buffer.get(body).unwrap_or_default();
                return Ok(Some((status, body)));
            }
            // If the read was partial, the next event announces the rest.
            if read < unfilled_length {
                return Ok(None);
            }
        }
    }

    /// Returns status and body of the reply if it is complete.
    pub(crate) fn reply(&self) -> anyhow::Result<Option<(u16, &[u8])>> {
        let bytes = self.buffer.get(..self.filled).unwrap_or_default();
        let reply = Reply::parse(bytes)?;
        Ok(reply.map(|reply| (reply.status, bytes.get(reply.body).unwrap_or_default())))
    }
}
