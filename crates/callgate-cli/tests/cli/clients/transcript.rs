//! Parses recorded bytes into messages.

use std::collections::HashMap;

use serde_json::Value;

use super::recorder::Recording;

/// All messages of a client and of the server.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) from_client: Vec<Value>,
    pub(crate) from_server: Vec<Value>,
}

impl Transcript {
    pub(crate) fn of_lines(client: &str, server: &str) -> Self {
        let messages = |text: &str| text.lines().map(message).collect();
        Self { from_client: messages(client), from_server: messages(server) }
    }

    pub(crate) fn of_http(recordings: &[Recording]) -> Self {
        let mut transcript = Self::default();
        for recording in recordings {
            for body in bodies(&recording.sent) {
                transcript.from_client.extend(messages(&body));
            }
            for body in bodies(&recording.received) {
                transcript.from_server.extend(messages(&body));
            }
        }
        transcript
    }
}

fn message(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

struct Body {
    is_stream: bool,
    text: String,
}

/// Returns the messages of a body: one message, or one for each event.
fn messages(body: &Body) -> Vec<Value> {
    if body.is_stream {
        let data = body.text.lines().filter_map(|line| line.strip_prefix("data: "));
        return data.map(message).collect();
    }
    if body.text.is_empty() { Vec::new() } else { vec![message(&body.text)] }
}

/// Returns the bodies of one direction of an HTTP/1.1 connection.
fn bodies(mut bytes: &[u8]) -> Vec<Body> {
    let mut bodies = Vec::new();
    while let Some(at) = find(bytes, b"\r\n\r\n") {
        let headers = headers(&bytes[..at]);
        bytes = &bytes[at + 4..];
        let body = if headers.contains_key("transfer-encoding") {
            unchunk(&mut bytes)
        } else {
            let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            let (body, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            body.to_vec()
        };
        let is_stream = headers.get("content-type").is_some_and(|ty| ty == "text/event-stream");
        bodies.push(Body { is_stream, text: String::from_utf8(body).unwrap() });
    }
    bodies
}

fn headers(head: &[u8]) -> HashMap<String, String> {
    let head = std::str::from_utf8(head).unwrap();
    let pairs = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect()
}

/// Reads a chunked body. If the body was cut off, returns the bytes before the cut.
fn unchunk(bytes: &mut &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = find(bytes, b"\r\n") {
        let size = std::str::from_utf8(&bytes[..at]).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let chunk = &bytes[at + 2..];
        body.extend_from_slice(&chunk[..size.min(chunk.len())]);
        *bytes = chunk.get(size + 2..).unwrap_or_default();
        if size == 0 {
            break;
        }
    }
    body
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}
