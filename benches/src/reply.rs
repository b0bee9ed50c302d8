//! Parses the HTTP/1.1 replies of the servers.

use std::ops::Range;

use anyhow::{Context as _, bail};
use memchr::memmem;

/// Location of a reply in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Range of the body.
    pub body: Range<usize>,
}

impl Reply {
    /// Parses a reply that has a `Content-Length`. Returns `None` if the reply is incomplete.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Option<Self>> {
        let Some(head) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
        let body = head + 4;
        let head = std::str::from_utf8(bytes.get(..head).unwrap_or_default())?;
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
            .context("reply is not HTTP/1.1")?;
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let Some(length) = length else { bail!("reply has no Content-Length: {head}") };
        let end = body + length?;
        Ok((bytes.len() >= end).then_some(Self { status, body: body..end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_parsed_once_it_is_complete() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ndate: now\r\n\r\nhi";
        for end in 0..bytes.len() {
            assert_eq!(Reply::parse(&bytes[..end]).unwrap(), None);
        }
        let reply = Reply::parse(bytes).unwrap().unwrap();
        assert_eq!((reply.status, &bytes[reply.body]), (200, &b"hi"[..]));
    }

    #[test]
    fn a_reply_without_content_length_is_refused() {
        assert!(Reply::parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
