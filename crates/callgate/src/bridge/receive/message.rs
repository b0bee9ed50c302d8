//! Parses the parts of messages that the bridge uses.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::wire::jsonrpc;
use crate::wire::jsonrpc::{Envelope, EnvelopeError, RpcError, RpcMessage};
use crate::wire::strict_json::text;

/// First request of the legacy era.
pub(crate) const INITIALIZE: &str = "initialize";
/// First request of the modern era.
pub(crate) const DISCOVER: &str = "server/discover";
pub(crate) const INITIALIZED: &str = "notifications/initialized";
pub(crate) const CANCELLED: &str = "notifications/cancelled";
pub(crate) const LISTEN: &str = "subscriptions/listen";

/// A request id as normalized JSON: `1` and `"1"` differ, `"a"` and `"\u0061"` do not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MessageId(Box<str>);

impl MessageId {
    pub(crate) fn of(raw: &RawValue) -> Self {
        match text(raw) {
            Some(Cow::Owned(text)) => Self(serde_json::Value::from(text).to_string().into()),
            _ => Self(raw.get().into()),
        }
    }

    pub(crate) fn as_json(&self) -> &str {
        &self.0
    }
}

/// A message of the client: a request, a batch of revision 2025-03-26, a notification, or a response to the server.
#[derive(Debug, Default)]
pub(crate) struct ClientMessage {
    /// Ids of the requests in the message. Empty for a notification and for a response.
    pub(crate) ids: Vec<MessageId>,
    /// Empty for a batch and for a response.
    pub(crate) method: Box<str>,
    /// Revision of a message of the modern era.
    pub(crate) version: Option<Box<str>>,
    /// Name of the tool, prompt, resource or task of a request.
    pub(crate) name: Option<Box<str>>,
    /// Request that a `notifications/cancelled` cancels.
    pub(crate) cancels: Option<MessageId>,
    pub(crate) body: Bytes,
}

impl ClientMessage {
    pub(crate) fn parse(body: Bytes) -> Result<Self, EnvelopeError> {
        let line = std::str::from_utf8(&body)
            .map_err(|_| EnvelopeError::Parse(serde::de::Error::custom("not UTF-8")))?;
        if line.trim_start().starts_with('[') {
            return Ok(Self { ids: batch(line)?, body, ..Self::default() });
        }
        let (id, method, params) = message_parts(line)?;
        let request = id.filter(|_| method.is_some());
        let method = method.unwrap_or_default();
        let cancels = params.request_id.filter(|_| request.is_none() && method == CANCELLED);
        Ok(Self {
            ids: request.map(MessageId::of).into_iter().collect(),
            version: params.meta.version.and_then(text).map(Into::into),
            name: request.and_then(|_| params.subject(&method)).map(Into::into),
            cancels: cancels.map(MessageId::of),
            method: method.into(),
            body: body.clone(),
        })
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.version.is_some()
    }

    /// Returns `true` for `initialize` and `server/discover`, the methods with which clients begin.
    pub(crate) fn is_first_request(&self) -> bool {
        matches!(&*self.method, INITIALIZE | DISCOVER)
    }

    pub(crate) fn is_handshake(&self) -> bool {
        !self.is_modern() && &*self.method == INITIALIZE
    }

    /// Returns `true` if the request is read-only and may therefore be sent twice.
    pub(crate) fn is_read_only(&self) -> bool {
        self.method.ends_with("/list")
            || matches!(
                &*self.method,
                "resources/read"
                    | "prompts/get"
                    | "completion/complete"
                    | "ping"
                    | "tasks/get"
                    | INITIALIZE
                    | DISCOVER
            )
    }

    pub(crate) fn params<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        Envelope::<T>::read(std::str::from_utf8(&self.body).ok()?).ok()?.params
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallParams<'a> {
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

/// Protocol version in the parameters or the result of `initialize`.
#[derive(Deserialize)]
pub(crate) struct ProtocolVersion {
    #[serde(rename = "protocolVersion")]
    pub(crate) version: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageParams<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: MessageMeta<'a>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "taskId")]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "requestId")]
    request_id: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageMeta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
}

impl<'a> MessageParams<'a> {
    fn subject(&self, method: &str) -> Option<Cow<'a, str>> {
        let member = match method {
            "tools/call" | "prompts/get" => self.name,
            "resources/read" => self.uri,
            method if method.starts_with("tasks/") => self.task_id,
            _ => None,
        };
        member.and_then(text)
    }
}

/// Returns the id, the method and the parameters; a response has no method.
fn message_parts(line: &str) -> Result<MessageParts<'_>, EnvelopeError> {
    Ok(match Envelope::parse(line)?.message()? {
        RpcMessage::Request(jsonrpc::Request { id, method, params }) => {
            // The server reports invalid parameters.
            let params =
                params.and_then(|params: &RawValue| serde_json::from_str(params.get()).ok());
            (id, Some(method), params.unwrap_or_default())
        }
        RpcMessage::Response { id, .. } => (Some(id), None, MessageParams::default()),
    })
}

type MessageParts<'a> = (Option<&'a RawValue>, Option<Cow<'a, str>>, MessageParams<'a>);

fn batch(line: &str) -> Result<Vec<MessageId>, EnvelopeError> {
    let items: Vec<&RawValue> = serde_json::from_str(line).map_err(EnvelopeError::Parse)?;
    if items.is_empty() {
        return Err(EnvelopeError::invalid("a batch must not be empty"));
    }
    let mut ids = Vec::new();
    for item in items {
        if let (Some(id), Some(_), _) = message_parts(item.get())? {
            ids.push(MessageId::of(id));
        }
    }
    Ok(ids)
}

/// Returns the ids of the requests in a line that the bridge does not send.
pub(crate) fn ids_of_rejected(line: &str) -> Vec<MessageId> {
    if let Some(message) = parse_server_message(line) {
        return message.id.map(MessageId::of).into_iter().collect();
    }
    let items: Vec<&RawValue> = serde_json::from_str(line).unwrap_or_default();
    let is_request =
        |message: &ServerMessage<'_>| message.result.is_none() && message.error.is_none();
    let messages = items.into_iter().filter_map(|item| parse_server_message(item.get()));
    messages.filter(is_request).filter_map(|message| message.id.map(MessageId::of)).collect()
}

pub(crate) type ServerMessage<'a> = Envelope<'a, IgnoredAny>;

/// Parses a message of the server. Treats null members as absent.
pub(crate) fn parse_server_message(json: &str) -> Option<ServerMessage<'_>> {
    fn present(member: Option<&RawValue>) -> Option<&RawValue> {
        member.filter(|value| value.get() != "null")
    }
    let message = ServerMessage::read(json).ok()?;
    Some(ServerMessage {
        id: present(message.id),
        method: present(message.method),
        result: present(message.result),
        error: present(message.error),
        ..message
    })
}

pub(crate) fn rpc_error(message: &ServerMessage<'_>) -> Option<RpcError> {
    serde_json::from_str(message.error?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> ClientMessage {
        ClientMessage::parse(Bytes::copy_from_slice(line.as_bytes())).unwrap()
    }

    #[test]
    fn messages_are_classified_by_their_members() {
        let request = parse(
            r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"name":"x","_meta":
               {"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"arguments":{"a":1}}}"#,
        );
        assert_eq!(request.ids[0].as_json(), "\"a\"");
        let (version, name) = (request.version.as_deref(), request.name.as_deref());
        assert_eq!((version, name), (Some("2026-07-28"), Some("x")));
        let call: CallParams<'_> = request.params().unwrap();
        assert_eq!(call.arguments.unwrap().get(), r#"{"a":1}"#);
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        let cancel = parse(cancel);
        assert!(cancel.ids.is_empty());
        assert_eq!(cancel.cancels.unwrap().as_json(), "7");
        let answer = parse(r#"{"jsonrpc":"2.0","id":3,"result":null}"#);
        assert!(answer.ids.is_empty() && answer.method.is_empty());
        let batch = parse(
            r#"[{"jsonrpc":"2.0","id":3,"result":{}},{"jsonrpc":"2.0","id":4,"method":"ping"}]"#,
        );
        assert_eq!(batch.ids.len(), 1);
    }

    #[test]
    fn an_invalid_message_has_its_json_rpc_code() {
        let code = |line: &str| {
            ClientMessage::parse(Bytes::copy_from_slice(line.as_bytes())).unwrap_err().code()
        };
        assert_eq!(code("nonsense"), jsonrpc::PARSE_ERROR);
        assert_eq!(code("{}"), jsonrpc::INVALID_REQUEST);
        assert_eq!(code("[1]"), jsonrpc::INVALID_REQUEST);
        assert_eq!(code("[{}"), jsonrpc::PARSE_ERROR);
        assert_eq!(
            ClientMessage::parse(Bytes::from_static(b"\"\xff")).unwrap_err().code(),
            jsonrpc::PARSE_ERROR
        );
    }
}
