//! Sends a request and extracts the compared parts of its reply.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::request::Request;

/// Maximum time for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Compared parts of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) status: u16,
    pub(crate) kind: Kind,
    /// JSON-RPC id.
    pub(crate) id: Option<Value>,
    /// Parts of a result that must be equal.
    pub(crate) details: Value,
    /// Complete reply, for messages.
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Result,
    Error(i64),
    /// No JSON-RPC message.
    NoMessage,
    /// An open stream, with the method of its first message.
    Stream(String),
    /// Responses to a batch.
    Batch(Vec<Self>),
}

impl Outcome {
    /// Returns `true` if two replies are equivalent.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        (self.status, &self.kind, &self.id, &self.details)
            == (other.status, &other.kind, &other.id, &other.details)
    }

    pub(crate) fn is_error(&self, status: u16, code: i64) -> bool {
        (self.status, &self.kind) == (status, &Kind::Error(code))
    }

    pub(crate) fn has_no_message(&self, status: u16) -> bool {
        (self.status, &self.kind) == (status, &Kind::NoMessage)
    }

    pub(crate) fn is_result(&self) -> bool {
        (self.status, &self.kind) == (200, &Kind::Result)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result => f.write_str("result"),
            Self::Error(code) => write!(f, "{code}"),
            Self::NoMessage => f.write_str("no message"),
            Self::Stream(first) if first.is_empty() => f.write_str("stream"),
            Self::Stream(first) => write!(f, "stream with {first}"),
            Self::Batch(parts) => write!(f, "batch of {}", parts.len()),
        }
    }
}

/// Sends a request on a new connection.
pub(crate) async fn send(address: SocketAddr, request: &Request) -> Outcome {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut http_request = http::Request::builder().method(request.verb).uri("/mcp");
    if request.header("host").is_none() {
        http_request = http_request.header("host", address.to_string());
    }
    for (name, value) in &request.headers {
        http_request = http_request.header(*name, value);
    }
    let http_request = http_request.body(Full::new(Bytes::from(request.body()))).unwrap();
    let outcome = async { read(sender.send_request(http_request).await.unwrap(), request).await };
    let outcome = tokio::time::timeout(REPLY_TIMEOUT, outcome).await;
    connection.abort();
    outcome.unwrap_or_else(|_| panic!("no reply to {request:?}"))
}

async fn read(response: http::Response<Incoming>, request: &Request) -> Outcome {
    let status = response.status().as_u16();
    let content_type = response.headers().get("content-type");
    let is_stream = content_type.is_some_and(|value| value == "text/event-stream");
    if !is_stream {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        return outcome(status, &serde_json::from_str(&text).unwrap_or_default(), text);
    }
    if request.verb == "GET" {
        let kind = Kind::Stream(String::new());
        return Outcome { status, kind, id: None, details: Value::Null, text: String::new() };
    }
    let text = first_event(response.into_body()).await;
    outcome(status, &serde_json::from_str(&text).unwrap_or_default(), text)
}

/// Returns the first message of a stream, or an empty string at its end.
async fn first_event(mut body: Incoming) -> String {
    let mut text = String::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.unwrap().into_data() else { continue };
        text.push_str(std::str::from_utf8(&data).unwrap());
        let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let data = lines.find_map(|line| {
            line.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty())
        });
        if let Some(data) = data {
            return data.to_owned();
        }
    }
    String::new()
}

fn outcome(status: u16, message: &Value, text: String) -> Outcome {
    let id = message.get("id").cloned();
    Outcome { status, kind: kind(message), id, details: details(&message["result"]), text }
}

fn kind(message: &Value) -> Kind {
    if let Some(parts) = message.as_array() {
        return Kind::Batch(parts.iter().map(kind).collect());
    }
    if message["jsonrpc"] != "2.0" {
        return Kind::NoMessage;
    }
    if message.get("result").is_some() {
        return Kind::Result;
    }
    match message["error"]["code"].as_i64() {
        Some(code) => Kind::Error(code),
        None => Kind::Stream(message["method"].as_str().unwrap_or_default().to_owned()),
    }
}

/// Returns the names and input schemas of a list, the content of a call, or the version of a handshake.
fn details(result: &Value) -> Value {
    if let Some(tools) = result["tools"].as_array() {
        let schemas = tools.iter().map(|tool| (tool["name"].to_string(), &tool["inputSchema"]));
        return json!(schemas.collect::<BTreeMap<_, _>>());
    }
    if let Some(content) = result["content"].as_array() {
        let texts: Vec<&Value> = content.iter().map(|part| &part["text"]).collect();
        return json!({
            "isError": result["isError"].as_bool().unwrap_or_default(),
            "texts": texts,
            "structuredContent": result.get("structuredContent").map(|value| json!([value])),
        });
    }
    json!({
        "protocolVersion": result["protocolVersion"],
        "supportedVersions": result["supportedVersions"],
        "resultType": result["resultType"],
    })
}
