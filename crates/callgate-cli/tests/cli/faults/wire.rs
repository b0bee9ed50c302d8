//! HTTP as a client has it that must live with servers that end in the middle: every failure is told, and
//! nothing is sent twice.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::support::PATIENCE;

/// A connection that is kept for the next request.
pub(crate) struct Connection(BufReader<TcpStream>);

/// What came back. Of a stream of events, the last one's data.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Whether the other side has not ended it meanwhile.
    pub(crate) fn is_open(&self) -> bool {
        let stream = self.0.get_ref();
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let is_quiet = peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        is_quiet && stream.set_nonblocking(false).is_ok()
    }

    /// Sends a request with these headers, each ending its line, and reads what comes back.
    pub(crate) fn request(&mut self, line: &str, headers: &str, body: &str) -> io::Result<Answer> {
        self.write(line, headers, body)?;
        let head = self.head()?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut answer = Answer { status: status.unwrap_or(0), head, body: String::new() };
        let body = match (answer.header("content-length"), answer.header("transfer-encoding")) {
            (Some(length), _) => self.bytes(length.parse().map_err(io::Error::other)?)?,
            (None, Some(_)) => self.chunks()?,
            (None, None) => Vec::new(),
        };
        answer.body = last_event(String::from_utf8(body).map_err(io::Error::other)?);
        Ok(answer)
    }

    /// Sends a request as above; what comes is for others to read.
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
        let mut all = Vec::new();
        loop {
            let length = self.line()?;
            let length = usize::from_str_radix(length.trim(), 16).map_err(io::Error::other)?;
            all.extend(self.bytes(length)?);
            self.line()?;
            if length == 0 {
                return Ok(all);
            }
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

fn last_event(body: String) -> String {
    match body.lines().rev().find_map(|line| line.strip_prefix("data: ")) {
        Some(data) => data.to_owned(),
        None => body,
    }
}

/// Asks by a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    Connection::open(address)?.request(&format!("GET {path}"), "Connection: close\r\n", "")
}
