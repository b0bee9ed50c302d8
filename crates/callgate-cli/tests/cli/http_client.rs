//! A minimal HTTP/1.1 client that reports every failure and never retries.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::support::TIMEOUT;

/// A persistent connection.
pub(crate) struct Connection(BufReader<TcpStream>);

/// A response. For an event stream, `body` is the data of the last event.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Returns `true` if the server has not closed the connection.
    pub(crate) fn is_open(&self) -> bool {
        let stream = self.0.get_ref();
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let is_idle = peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        is_idle && stream.set_nonblocking(false).is_ok()
    }

    /// Sends a request and reads the response. Each of `headers` ends with a line break.
    pub(crate) fn request(
        &mut self,
        line: &str,
        headers: &str,
        body: &str,
    ) -> io::Result<HttpResponse> {
        self.write(line, headers, body)?;
        let head = self.head()?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut response = HttpResponse { status: status.unwrap_or(0), head, body: String::new() };
        let body = match (response.header("content-length"), response.header("transfer-encoding")) {
            (Some(length), _) => self.bytes(length.parse().map_err(io::Error::other)?)?,
            (None, Some(_)) => self.chunks()?,
            (None, None) => Vec::new(),
        };
        response.body = last_event(String::from_utf8(body).map_err(io::Error::other)?);
        Ok(response)
    }

    /// Sends a request. Returns the stream with the response.
    pub(crate) fn send(mut self, line: &str, headers: &str, body: &str) -> io::Result<TcpStream> {
        self.write(line, headers, body)?;
        Ok(self.0.into_inner())
    }

    fn write(&mut self, line: &str, headers: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(text.as_bytes())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    fn head(&mut self) -> io::Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push_str(&self.line()?);
        }
        Ok(head)
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let length = self.line()?;
            let length = usize::from_str_radix(length.trim(), 16).map_err(io::Error::other)?;
            bytes.extend(self.bytes(length)?);
            self.line()?;
            if length == 0 {
                return Ok(bytes);
            }
        }
    }
}

impl HttpResponse {
    /// Parses a complete response with a plain body.
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

fn last_event(body: String) -> String {
    match body.lines().rev().find_map(|line| line.strip_prefix("data: ")) {
        Some(data) => data.to_owned(),
        None => body,
    }
}

/// Sends a GET request on a new connection.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<HttpResponse> {
    Connection::open(address)?.request(&format!("GET {path}"), "Connection: close\r\n", "")
}
