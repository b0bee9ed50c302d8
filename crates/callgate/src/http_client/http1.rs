//! HTTP/1.1 without TLS, over connections that are kept open.
//!
//! The task of a call writes its request and reads the response itself. hyper's client has a task for each connection.
//! Channels and header maps connect that task with the call. With hyper, forwarding takes more than twice as many
//! instructions as with this client.

mod head;
mod idle;
mod socket;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::buf::Chain;
use bytes::{Buf, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};
use httparse::Status;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::runtime::{self, Handle};

use super::body::{BodyError, CountedBytes};
use super::send_error::{SendError, SendErrorKind, describe};
use head::Framing;
use idle::IdleConnections;
use socket::Socket;

pub(crate) use head::{ResponseHead, ResponseHeaders};
pub(crate) use socket::PlainConnector;

/// Minimum and maximum size of a read, in bytes.
const MIN_READ: usize = 8 << 10;
const MAX_READ: usize = 256 << 10;

/// Maximum size of the head of a response, as in hyper.
const MAX_HEAD: usize = 400 << 10;

/// Maximum size of the line before a chunk, and of the trailers.
const MAX_CHUNK_LINES: usize = 16 << 10;

const CLOSED_EARLY: &str = "connection closed before message completed";
const CLOSED_IN_BODY: &str = "end of file before message length reached";

/// A client of one server.
#[derive(Debug)]
pub(crate) struct Http1Client {
    connector: PlainConnector,
    idle: Arc<IdleConnections>,
}

/// An open connection, with the bytes that were read from it and not used yet.
#[derive(Debug)]
struct Http1Connection {
    socket: Socket,
    buffer: BytesMut,
    /// The runtime that waits for events of the socket.
    runtime: runtime::Id,
}

/// A request and its response, while they are written and read.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    connection: Http1Connection,
    /// The part that has not been written yet.
    request: Chain<Chain<&'a [u8], &'a [u8]>, &'a [u8]>,
    /// Set if any byte of the request was written.
    has_written: bool,
    idle: &'a Arc<IdleConnections>,
}

impl Http1Client {
    pub(crate) fn new(connector: PlainConnector, max_idle: usize) -> Self {
        Self { connector, idle: IdleConnections::new(max_idle) }
    }

    /// Sends a request, which consists of three parts, and reads the head of the response. If an idle connection turns
    /// out to be closed before anything was written, uses another connection.
    pub(crate) async fn send<'a>(
        &'a self,
        [head, head_end, body]: [&'a [u8]; 3],
    ) -> Result<(ResponseHead, Exchange<'a>), SendError> {
        loop {
            let (connection, is_reused) = match self.idle.take() {
                Some(connection) => (connection, true),
                None => (Http1Connection::new(Box::pin(self.connector.connect()).await?), false),
            };
            let request = Buf::chain(head, head_end).chain(body);
            let idle = &self.idle;
            let mut exchange = Exchange { connection, request, has_written: false, idle };
            match exchange.read_head().await {
                Ok(response) => return Ok((response, exchange)),
                Err(error) if is_reused && error.kind == SendErrorKind::NotSent => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Writes the request line and the headers, without the length of the body and the final empty line.
pub(crate) fn request_head(method: &Method, uri: &Uri, headers: &HeaderMap) -> Vec<u8> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let host = uri.host().unwrap_or_default();
    let port = uri.port().filter(|port| port.as_u16() != 80);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}{port}\r\n").into_bytes();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head
}

/// Returns the size of the head of a response at the beginning of `bytes`, or `None` if it is incomplete or invalid.
#[cfg(any(test, fuzzing))]
pub(crate) fn head_size(bytes: &[u8]) -> Option<usize> {
    let (size, head) = ResponseHead::parse(bytes).ok().flatten()?;
    let _ = head.headers.map();
    Some(size)
}

impl Http1Connection {
    fn new(socket: Socket) -> Self {
        Self { socket, buffer: BytesMut::new(), runtime: Handle::current().id() }
    }

    /// Moves an idle connection to the current runtime.
    fn into_current_runtime(self) -> io::Result<Self> {
        Ok(Self::new(self.socket.into_current_runtime()?))
    }

    /// Drops a buffer that has grown for a long response.
    fn release_memory(&mut self) {
        if self.buffer.capacity() > 2 * MIN_READ {
            self.buffer = BytesMut::new();
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Self { socket, buffer, .. } = self;
        match socket {
            Socket::Tcp(socket) => pin!(socket.read_buf(buffer)).poll(context),
            #[cfg(unix)]
            Socket::Unix(socket) => pin!(socket.read_buf(buffer)).poll(context),
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_write_vectored(context, slices),
        }
    }
}

impl Exchange<'_> {
    async fn read_head(&mut self) -> Result<ResponseHead, SendError> {
        loop {
            let read = self.fill(MIN_READ).await;
            let has_response_bytes = !self.connection.buffer.is_empty();
            let problem = match read {
                Ok(1..) => None,
                Ok(0) => Some(CLOSED_EARLY.to_owned()),
                Err(error) => Some(describe(&error)),
            };
            if let Some(problem) = problem {
                let broken = SendErrorKind::Broken { has_response_bytes };
                let kind = if self.has_written { broken } else { SendErrorKind::NotSent };
                return Err(SendError::new(kind, problem));
            }
            while let Some((bytes, head)) = ResponseHead::parse(&self.connection.buffer)? {
                self.connection.buffer.advance(bytes);
                if !head.is_interim() {
                    return Ok(head);
                }
            }
            if self.connection.buffer.len() > MAX_HEAD {
                return Err(SendError::not_http());
            }
        }
    }

    /// Reads more of the response, and writes the rest of the request meanwhile. Returns the number of bytes read, or 0
    /// if the server has closed the connection. A response may arrive even if the request cannot be written.
    async fn fill(&mut self, expected: usize) -> io::Result<usize> {
        self.connection.buffer.reserve(expected.clamp(MIN_READ, MAX_READ));
        poll_fn(|context| {
            while self.request.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 3];
                let count = self.request.chunks_vectored(&mut slices);
                let slices = slices.get(..count).unwrap_or_default();
                match self.connection.poll_write(context, slices) {
                    Poll::Ready(Ok(written @ 1..)) => {
                        self.has_written = true;
                        self.request.advance(written);
                    }
                    Poll::Ready(Err(error)) if !self.has_written => return Poll::Ready(Err(error)),
                    Poll::Ready(_) | Poll::Pending => break,
                }
            }
            self.connection.poll_read(context)
        })
        .await
    }

    /// Reads the body that follows `head`. Fails if the body has more than `limit` bytes. Passes the size of each part
    /// to `count`. Keeps the connection for another request if the whole response was read.
    pub(crate) async fn body<E: From<BodyError>>(
        mut self,
        head: &ResponseHead,
        limit: usize,
        count: impl Fn(usize) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let bytes = Vec::with_capacity(self.connection.buffer.len());
        let mut body = CountedBytes { bytes, limit, count };
        match head.framing {
            Framing::Length(length) => self.read_part(length, &mut body).await?,
            Framing::Chunked => self.read_chunks(&mut body).await?,
            Framing::UntilClose => loop {
                body.add(&self.connection.buffer)?;
                self.connection.buffer.clear();
                if self.fill(MIN_READ).await.map_err(broken)? == 0 {
                    return Ok(body.bytes);
                }
            },
        }
        let is_complete = self.connection.buffer.is_empty() && !self.request.has_remaining();
        if head.is_persistent && is_complete {
            self.connection.release_memory();
            self.idle.put(self.connection);
        }
        Ok(body.bytes)
    }

    /// Moves the next `length` bytes to `body`.
    async fn read_part<E: From<BodyError>, C: Fn(usize) -> Result<(), E>>(
        &mut self,
        length: u64,
        body: &mut CountedBytes<C>,
    ) -> Result<(), E> {
        let mut remaining = usize::try_from(length).unwrap_or(usize::MAX);
        loop {
            let buffer = &mut self.connection.buffer;
            let part = buffer.get(..remaining).unwrap_or(buffer);
            let bytes = part.len();
            body.add(part)?;
            buffer.advance(bytes);
            remaining -= bytes;
            if remaining == 0 {
                return Ok(());
            }
            self.fill_more(remaining).await?;
        }
    }

    async fn read_chunks<E: From<BodyError>, C: Fn(usize) -> Result<(), E>>(
        &mut self,
        body: &mut CountedBytes<C>,
    ) -> Result<(), E> {
        loop {
            let length = self.chunk_length().await?;
            if length == 0 {
                return Ok(self.skip_trailers().await?);
            }
            self.read_part(length, body).await?;
            if self.line_length().await? != 0 {
                return Err(BodyError::Broken("no line break after a chunk".to_owned()).into());
            }
            self.connection.buffer.advance(2);
        }
    }

    async fn chunk_length(&mut self) -> Result<u64, BodyError> {
        loop {
            match httparse::parse_chunk_size(&self.connection.buffer) {
                Ok(Status::Complete((bytes, length))) if bytes <= MAX_CHUNK_LINES => {
                    self.connection.buffer.advance(bytes);
                    return Ok(length);
                }
                Ok(Status::Partial) if self.connection.buffer.len() <= MAX_CHUNK_LINES => {
                    self.fill_more(MIN_READ).await?;
                }
                _ => return Err(BodyError::Broken("invalid size of a chunk".to_owned())),
            }
        }
    }

    async fn skip_trailers(&mut self) -> Result<(), BodyError> {
        let mut remaining = MAX_CHUNK_LINES;
        loop {
            let length = self.line_length().await?;
            self.connection.buffer.advance(length + 2);
            if length == 0 {
                return Ok(());
            }
            let too_long = || BodyError::Broken("the trailers are too long".to_owned());
            remaining = remaining.checked_sub(length).ok_or_else(too_long)?;
        }
    }

    /// Returns the length of the line at the beginning of the buffer, without the line break.
    async fn line_length(&mut self) -> Result<usize, BodyError> {
        loop {
            let buffer = &self.connection.buffer;
            if let Some(length) = buffer.windows(2).position(|pair| pair == b"\r\n") {
                return Ok(length);
            }
            if buffer.len() > MAX_CHUNK_LINES {
                return Err(BodyError::Broken("a line between chunks is too long".to_owned()));
            }
            self.fill_more(MIN_READ).await?;
        }
    }

    /// Reads more of a response that is not complete.
    async fn fill_more(&mut self, expected: usize) -> Result<(), BodyError> {
        match self.fill(expected).await.map_err(broken)? {
            0 => Err(BodyError::Broken(CLOSED_IN_BODY.to_owned())),
            _ => Ok(()),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn broken(error: io::Error) -> BodyError {
    BodyError::Broken(describe(&error))
}
