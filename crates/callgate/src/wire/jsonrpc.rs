//! JSON-RPC 2.0: requests that borrow from the body, replies and error objects.
//!
//! ```
//! use callgate::jsonrpc::Request;
//!
//! let request = Request::parse(r#"{"jsonrpc":"2.0","id":1,"method":"user.get"}"#)?;
//! assert_eq!(request.method, "user.get");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::wire::{shortened, strict_json};

/// The message is not valid JSON.
///
/// Returned by [`EnvelopeError::code`].
pub const PARSE_ERROR: i64 = -32700;
/// The message is not a valid request.
///
/// Returned by [`EnvelopeError::code`].
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist, or the caller may not call it.
///
/// Sent for [`CallError::NotFound`](crate::upstream::CallError::NotFound) over JSON-RPC. [`reply`] has an example.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid.
///
/// Sent for [`CallError::Arguments`](crate::upstream::CallError::Arguments) over JSON-RPC.
pub const INVALID_PARAMS: i64 = -32602;
/// The server failed.
///
/// Sent for [`CallError::Failed`](crate::upstream::CallError::Failed) over JSON-RPC.
pub const INTERNAL_ERROR: i64 = -32603;
/// A rate limit was exceeded. EIP-1474 defines this code.
///
/// Sent for [`CallError::RateLimited`](crate::upstream::CallError::RateLimited) over JSON-RPC.
pub const LIMIT_EXCEEDED: i64 = -32005;

/// Maximum number of messages in a batch.
pub(crate) const MAX_BATCH: usize = 100;

/// Members of a JSON-RPC message as raw JSON. Unknown members are ignored.
///
/// The type of `params` is generic, so that `params` is deserialized in the same pass as the message.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object", bound(deserialize = "P: Deserialize<'de>"))]
pub(crate) struct Envelope<'a, P = &'a RawValue> {
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    pub(crate) jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    pub(crate) method: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "deserialize_present")]
    pub(crate) params: Option<P>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    pub(crate) error: Option<&'a RawValue>,
}

/// Deserializes a member that is present. `null` counts as a value, not as an absent member.
fn deserialize_present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Debug)]
pub(crate) enum RpcMessage<'a, P = &'a RawValue> {
    Request(Request<'a, P>),
    Response { id: &'a RawValue, outcome: Result<&'a RawValue, &'a RawValue> },
}

/// A request, or a notification if it has no id.
///
/// The module [`jsonrpc`](self) has an example.
#[derive(Debug)]
pub struct Request<'a, P = &'a RawValue> {
    /// The id as raw JSON: a string or a number. `None` for a notification.
    pub id: Option<&'a RawValue>,
    /// Name of the method.
    pub method: Cow<'a, str>,
    /// An object or an array.
    pub params: Option<P>,
}

/// Reason why a body is neither a valid request nor a valid batch.
///
/// Error of [`Request::parse`].
#[derive(Debug, Error)]
pub enum EnvelopeError {
    /// The body is not UTF-8.
    #[error("not valid JSON: not UTF-8")]
    NotUtf8,
    /// The body is not JSON.
    #[error("not valid JSON: {0}")]
    Parse(#[source] serde_json::Error),
    /// The body is JSON, but not a request.
    #[error("not a JSON-RPC 2.0 request: {0}")]
    Invalid(Cow<'static, str>),
    /// The batch is empty or too long.
    #[error("a batch must have 1 to {MAX_BATCH} messages")]
    BatchSize,
}

impl EnvelopeError {
    /// Returns the JSON-RPC error code.
    pub fn code(&self) -> i64 {
        match self {
            Self::NotUtf8 | Self::Parse(_) => PARSE_ERROR,
            Self::Invalid(_) | Self::BatchSize => INVALID_REQUEST,
        }
    }

    pub(crate) fn invalid(problem: &'static str) -> Self {
        Self::Invalid(Cow::Borrowed(problem))
    }
}

impl<'a, P: Deserialize<'a>> Envelope<'a, P> {
    /// Parses an object. Fails if a known key is duplicated.
    pub(crate) fn read(body: &'a str) -> Result<Self, serde_json::Error> {
        strict_json::refuse_string(body)?;
        // serde's derive would also accept an array.
        if body.trim_start().starts_with('[') {
            return Err(de::Error::invalid_type(Unexpected::Seq, &"an object"));
        }
        serde_json::from_str(body)
    }

    /// Like [`Self::read`], but returns an error to be sent to the client.
    pub(crate) fn parse(body: &'a str) -> Result<Self, EnvelopeError> {
        Self::read(body).map_err(|error| object_error(body, error))
    }
}

impl<'a, P> Envelope<'a, P> {
    /// Classifies the message. Fails if it is not JSON-RPC 2.0.
    pub(crate) fn message(self) -> Result<RpcMessage<'a, P>, EnvelopeError> {
        if self.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(EnvelopeError::invalid("`jsonrpc` must be \"2.0\""));
        }
        if self.id.is_some_and(|id| {
            !id.get().starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
        }) {
            return Err(EnvelopeError::invalid("`id` must be a string or a number"));
        }
        let outcome = self.result.map(Ok).or(self.error.map(Err));
        if let (Some(outcome), Some(id), None) = (outcome, self.id, self.method) {
            return Ok(RpcMessage::Response { id, outcome });
        }
        let method = self.method.and_then(strict_json::text);
        let method = method.ok_or(EnvelopeError::invalid("`method` must be a string"))?;
        Ok(RpcMessage::Request(Request { id: self.id, method, params: self.params }))
    }
}

impl<'a> Request<'a> {
    /// Parses one request. A batch is an error.
    pub fn parse(body: &'a str) -> Result<Self, EnvelopeError> {
        let RpcMessage::Request(request) = Envelope::parse(body)?.message()? else {
            return Err(EnvelopeError::invalid("`method` must be a string"));
        };
        if request.params.is_some_and(|params: &RawValue| !params.get().starts_with(['{', '['])) {
            return Err(EnvelopeError::invalid("`params` must be an object or a list"));
        }
        Ok(request)
    }
}

/// Splits a batch into its messages.
pub(crate) fn batch(body: &str) -> Result<Vec<&RawValue>, EnvelopeError> {
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let messages = deserializer.deserialize_seq(BatchVisitor).and_then(|messages| {
        deserializer.end()?;
        Ok(messages)
    });
    messages.map_err(|error| {
        if error.is_data() { EnvelopeError::BatchSize } else { EnvelopeError::Parse(error) }
    })
}

/// Reads 1 to [`MAX_BATCH`] messages. A longer batch is not read to its end.
struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 to {MAX_BATCH} messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while let Some(message) = seq.next_element()? {
            if messages.len() == MAX_BATCH {
                return Err(de::Error::invalid_length(MAX_BATCH + 1, &self));
            }
            messages.push(message);
        }
        if messages.is_empty() {
            return Err(de::Error::invalid_length(0, &self));
        }
        Ok(messages)
    }
}

/// Explains why the text is not an object with unique members.
pub(crate) fn object_error(body: &str, error: serde_json::Error) -> EnvelopeError {
    if error.is_syntax() || error.is_eof() {
        return EnvelopeError::Parse(error);
    }
    if body.trim_start().starts_with('[') {
        return EnvelopeError::invalid("batches are not supported here; send one request");
    }
    let problem = error.to_string();
    let duplicate = problem.strip_prefix("duplicate field ").and_then(|it| it.split_once(" at "));
    let problem = match duplicate {
        Some((key, position)) => format!("the key {key} is duplicated at {position}"),
        None => problem,
    };
    EnvelopeError::Invalid(shortened(problem).into())
}

/// The error object of a JSON-RPC reply.
///
/// ```
/// use callgate::jsonrpc::RpcError;
/// use callgate::{Error, method};
///
/// /// Books a room.
/// #[method(destructive)]
/// fn book(room: u32) -> Result<u32, Error> {
///     if room > 40 {
///         return Err(Error::rpc(RpcError::new(4711, "there is no such room")));
///     }
///     Ok(room)
/// }
///
/// assert!(book(41).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// Error code.
    pub code: i64,
    /// Error message.
    pub message: String,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Creates the error for a request that exceeds a limit. The client can repeat the request after `retry_after`
    /// seconds.
    pub(crate) fn limit_exceeded(message: String, retry_after: u64) -> Self {
        let data = Some(serde_json::json!({"retry_after": retry_after}));
        Self { code: LIMIT_EXCEEDED, message, data }
    }

    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl From<EnvelopeError> for RpcError {
    fn from(error: EnvelopeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// Serializes a reply. The id is `null` if the id of the request is unknown.
///
/// ```
/// use callgate::jsonrpc::{METHOD_NOT_FOUND, Request, RpcError, reply};
/// use serde_json::{Value, json};
///
/// let request = Request::parse(r#"{"jsonrpc": "2.0", "id": 1, "method": "user.get"}"#)?;
/// let error = RpcError::new(METHOD_NOT_FOUND, "Method not found");
/// let reply: Value = serde_json::from_slice(&reply(request.id, Err(&error)))?;
/// let expected = json!({"code": -32601, "message": "Method not found"});
/// assert_eq!(reply, json!({"jsonrpc": "2.0", "id": 1, "error": expected}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reply(id: Option<&RawValue>, outcome: Result<&RawValue, &RpcError>) -> Vec<u8> {
    #[derive(Serialize)]
    struct ReplyObject<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a RpcError>,
    }
    let reply = ReplyObject { jsonrpc: "2.0", id, result: outcome.ok(), error: outcome.err() };
    serde_json::to_vec(&reply).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_borrowed_unchanged() {
        let request =
            Request::parse(r#" {"id": 0,"method":"a\u002eb","params":{"x": 1.0},"jsonrpc":"2.0"}"#)
                .unwrap();
        assert_eq!(request.id.unwrap().get(), "0");
        assert_eq!(request.method, "a.b");
        assert_eq!(request.params.unwrap().get(), r#"{"x": 1.0}"#);
    }

    #[test]
    fn invalid_requests_have_their_error_code() {
        let codes: Vec<(i64, String)> = [
            "{",
            "",
            "[]",
            r#"[{"jsonrpc":"2.0","method":"a","id":1}]"#,
            "1",
            r#" "a string is not repeated in the error""#,
            r#""without an end"#,
            r#"{"method":"a","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","method":1,"id":1}"#,
            r#"{"jsonrpc":"2.0","method":"a","id":null}"#,
            r#"{"jsonrpc":"2.0","method":"a","id":{}}"#,
            r#"{"jsonrpc":"2.0","method":"a","params":1,"id":1}"#,
            r#"{"jsonrpc":"2.0","method":"a","method":"b","id":1}"#,
        ]
        .into_iter()
        .map(|body| Request::parse(body).map_err(|e| (e.code(), e.to_string())).unwrap_err())
        .collect();
        insta::assert_debug_snapshot!(codes);
    }

    #[test]
    fn a_batch_has_up_to_100_messages_and_a_longer_batch_is_not_read_completely() {
        let list = |count: usize| vec!["{}"; count].join(",");
        assert_eq!(batch(&format!(" [{}] ", list(100))).unwrap().len(), 100);
        for text in [format!("[{}]", list(101)), format!("[{},,", list(101)), "[]".to_owned()] {
            assert!(matches!(batch(&text), Err(EnvelopeError::BatchSize)), "{text}");
        }
        for text in ["[{}", "[{}]]", "[{},]"] {
            assert!(matches!(batch(text), Err(EnvelopeError::Parse(_))), "{text}");
        }
    }

    #[test]
    fn a_null_result_is_a_result() {
        let bytes = reply(None, Ok(RawValue::NULL));
        assert_eq!(bytes, br#"{"jsonrpc":"2.0","id":null,"result":null}"#);
    }
}
