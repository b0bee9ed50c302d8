//! What the bridge needs to know of a message; everything else passes as it stands.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::wire::jsonrpc;
use crate::wire::jsonrpc::{Envelope, EnvelopeError, Message, RpcError};
use crate::wire::strict_json::text;

/// Opens a connection of the legacy era.
pub(super) const INITIALIZE: &str = "initialize";
/// Opens one of the modern era.
pub(super) const DISCOVER: &str = "server/discover";
/// A legacy client is ready.
pub(super) const INITIALIZED: &str = "notifications/initialized";
/// A request is no longer wanted.
pub(super) const CANCELLED: &str = "notifications/cancelled";
/// A stream that stays open.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// An id that can be compared: `1` and `"1"` differ, `"a"` and `"\u0061"` do not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Id(Box<str>);

impl Id {
    pub(super) fn of(raw: &RawValue) -> Self {
        match text(raw) {
            Some(Cow::Owned(text)) => Self(serde_json::Value::from(text).to_string().into()),
            _ => Self(raw.get().into()),
        }
    }

    /// As it stands in a message.
    pub(super) fn as_json(&self) -> &str {
        &self.0
    }
}

/// A message of the client.
#[derive(Debug)]
pub(super) enum FromClient {
    /// To be answered.
    Request(Request),
    /// Not to be answered: a notification, or an answer to the server.
    Other(Other),
}

/// A request, or several as revision 2025-03-26 has them.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) ids: Vec<Id>,
    /// Empty for several.
    pub(super) method: Box<str>,
    pub(super) body: Bytes,
    /// What a modern request says about itself.
    pub(super) modern: Option<Modern>,
}

/// The terms of a modern request.
#[derive(Debug)]
pub(super) struct Modern {
    pub(super) version: Box<str>,
    /// What it is about, for `Mcp-Name`.
    pub(super) name: Option<Box<str>>,
}

/// A notification or an answer.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) body: Bytes,
    /// The method of a notification.
    pub(super) method: Option<Box<str>>,
    pub(super) version: Option<Box<str>>,
    /// What is cancelled.
    pub(super) cancels: Option<Id>,
}

impl FromClient {
    /// Reads a line.
    pub(super) fn parse(body: &Bytes) -> Result<Self, EnvelopeError> {
        let body = body.clone();
        let line = std::str::from_utf8(&body)
            .map_err(|_| EnvelopeError::Parse(serde::de::Error::custom("not UTF-8")))?;
        if line.trim_start().starts_with('[') {
            let ids = batch(line)?;
            return Ok(if ids.is_empty() {
                Self::Other(Other { body, method: None, version: None, cancels: None })
            } else {
                Self::Request(Request { ids, method: "".into(), body, modern: None })
            });
        }
        let (id, method, params) = parts(line)?;
        let version = params.meta.version.and_then(text).map(Into::into);
        Ok(match (id, method) {
            (Some(id), Some(method)) => {
                let name = params.subject(&method).map(Into::into);
                let modern = version.map(|version| Modern { version, name });
                Self::Request(Request {
                    ids: vec![Id::of(id)],
                    method: method.into(),
                    modern,
                    body: body.clone(),
                })
            }
            (_, method) => {
                let is_cancel = method.as_deref() == Some(CANCELLED);
                let cancels = params.request_id.filter(|_| is_cancel).map(Id::of);
                let method = method.map(Into::into);
                Self::Other(Other { method, version, cancels, body: body.clone() })
            }
        })
    }
}

impl Request {
    /// Whether it is the first that a client sends.
    pub(super) fn opens(&self) -> bool {
        matches!(&*self.method, INITIALIZE | DISCOVER)
    }

    /// Whether it is `initialize` of the legacy era.
    pub(super) fn is_handshake(&self) -> bool {
        self.modern.is_none() && &*self.method == INITIALIZE
    }

    /// Whether it changes nothing, and may be sent twice.
    pub(super) fn only_reads(&self) -> bool {
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

    /// Reads the parameters as something else.
    pub(super) fn params<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        Envelope::<T>::read(std::str::from_utf8(&self.body).ok()?).ok()?.params
    }
}

/// The parameters of a call that the bridge looks into.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallParams<'a> {
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(super) meta: Option<&'a RawValue>,
}

/// The revision in the parameters or the result of `initialize`.
#[derive(Deserialize)]
pub(super) struct Revision {
    #[serde(rename = "protocolVersion")]
    pub(super) version: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Meta<'a>,
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
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    /// What a request is about.
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
fn parts(line: &str) -> Result<Parts<'_>, EnvelopeError> {
    Ok(match Envelope::parse(line)?.message()? {
        Message::Request(jsonrpc::Request { id, method, params }) => {
            // What is wrong with them is for the server to say.
            let params =
                params.and_then(|params: &RawValue| serde_json::from_str(params.get()).ok());
            (id, Some(method), params.unwrap_or_default())
        }
        Message::Response { id, .. } => (Some(id), None, Params::default()),
    })
}

type Parts<'a> = (Option<&'a RawValue>, Option<Cow<'a, str>>, Params<'a>);

/// The ids that are to be answered.
fn batch(line: &str) -> Result<Vec<Id>, EnvelopeError> {
    let items: Vec<&RawValue> = serde_json::from_str(line).map_err(EnvelopeError::Parse)?;
    if items.is_empty() {
        return Err(EnvelopeError::invalid("a list must have something in it"));
    }
    let mut ids = Vec::new();
    for item in items {
        if let (Some(id), Some(_), _) = parts(item.get())? {
            ids.push(Id::of(id));
        }
    }
    Ok(ids)
}

/// The ids in a line that cannot be sent; each waits for an answer.
pub(super) fn ids_of_refused(line: &str) -> Vec<Id> {
    if let Some(message) = from_server(line) {
        return message.id.map(Id::of).into_iter().collect();
    }
    let items: Vec<&RawValue> = serde_json::from_str(line).unwrap_or_default();
    let asks = |message: &FromServer<'_>| message.result.is_none() && message.error.is_none();
    let messages = items.into_iter().filter_map(|item| from_server(item.get()));
    messages.filter(asks).filter_map(|message| message.id.map(Id::of)).collect()
}

/// A message of the server.
pub(super) type FromServer<'a> = Envelope<'a, IgnoredAny>;

/// Reads a message of the server, in which null counts as absent.
pub(super) fn from_server(json: &str) -> Option<FromServer<'_>> {
    fn present(member: Option<&RawValue>) -> Option<&RawValue> {
        member.filter(|value| value.get() != "null")
    }
    let message = FromServer::read(json).ok()?;
    Some(FromServer {
        id: present(message.id),
        method: present(message.method),
        result: present(message.result),
        error: present(message.error),
        ..message
    })
}

/// Returns the error of a message, if it is one of JSON-RPC.
pub(super) fn rpc_error(message: &FromServer<'_>) -> Option<RpcError> {
    serde_json::from_str(message.error?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> FromClient {
        FromClient::parse(&Bytes::copy_from_slice(line.as_bytes())).unwrap()
    }

    #[test]
    fn a_message_is_what_its_members_say() {
        let FromClient::Request(request) = parse(
            r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"name":"x","_meta":
               {"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"arguments":{"a":1}}}"#,
        ) else {
            panic!()
        };
        assert_eq!(request.ids[0].as_json(), "\"a\"");
        let modern = request.modern.as_ref().unwrap();
        assert_eq!((&*modern.version, modern.name.as_deref()), ("2026-07-28", Some("x")));
        let call: CallParams<'_> = request.params().unwrap();
        assert_eq!(call.arguments.unwrap().get(), r#"{"a":1}"#);
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        let FromClient::Other(cancel) = parse(cancel) else { panic!() };
        assert_eq!(cancel.cancels.unwrap().as_json(), "7");
        let answer = parse(r#"{"jsonrpc":"2.0","id":3,"result":null}"#);
        assert!(matches!(answer, FromClient::Other(Other { method: None, .. })));
        let batch = parse(
            r#"[{"jsonrpc":"2.0","id":3,"result":{}},{"jsonrpc":"2.0","id":4,"method":"ping"}]"#,
        );
        assert!(matches!(batch, FromClient::Request(Request { ids, .. }) if ids.len() == 1));
    }

    #[test]
    fn what_is_no_message_has_its_code() {
        let code = |line: &str| {
            FromClient::parse(&Bytes::copy_from_slice(line.as_bytes())).unwrap_err().code()
        };
        assert_eq!(code("nonsense"), jsonrpc::PARSE_ERROR);
        assert_eq!(code("{}"), jsonrpc::INVALID_REQUEST);
        assert_eq!(code("[1]"), jsonrpc::INVALID_REQUEST);
        assert_eq!(code("[{}"), jsonrpc::PARSE_ERROR);
        assert_eq!(
            FromClient::parse(&Bytes::from_static(b"\"\xff")).unwrap_err().code(),
            jsonrpc::PARSE_ERROR
        );
    }
}
