//! Encoded JSON-RPC messages: one JSON text without line breaks, stored as slices.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::gateway::Settings;
use crate::upstream::BudgetReservation;
use crate::wire::Revision;
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};

/// An encoded JSON-RPC message to a client.
#[derive(Debug, Clone)]
pub struct EncodedMessage(MessageBytes);

#[derive(Debug, Clone)]
enum MessageBytes {
    One(Bytes),
    Many(Vec<Bytes>),
}

impl From<Bytes> for EncodedMessage {
    fn from(message: Bytes) -> Self {
        Self(MessageBytes::One(message))
    }
}

impl EncodedMessage {
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            MessageBytes::One(bytes) => bytes.len(),
            MessageBytes::Many(slices) => slices.iter().map(Bytes::len).sum(),
        }
    }

    /// Returns the slices of the message in order.
    pub fn into_slices(self) -> Vec<Bytes> {
        match self.0 {
            MessageBytes::One(bytes) => vec![bytes],
            MessageBytes::Many(slices) => slices,
        }
    }

    /// Returns the message if it consists of one slice, otherwise its slices.
    pub fn into_whole(self) -> Result<Bytes, Vec<Bytes>> {
        match self.0 {
            MessageBytes::One(bytes) => Ok(bytes),
            MessageBytes::Many(slices) => Err(slices),
        }
    }

    /// Keeps a budget reservation until the message has been sent.
    pub(crate) fn with_reservation(self, reservation: BudgetReservation) -> Self {
        Self(match self.0 {
            MessageBytes::One(bytes) => MessageBytes::One(reservation.keep(bytes)),
            MessageBytes::Many(mut slices) => {
                let last = slices.pop().unwrap_or_default();
                slices.push(reservation.keep(last));
                MessageBytes::Many(slices)
            }
        })
    }

    /// Decodes a response into its result or error.
    pub(crate) fn outcome(self) -> Result<serde_json::Value, RpcError> {
        #[derive(serde::Deserialize)]
        struct DecodedResponse {
            result: Option<serde_json::Value>,
            error: Option<RpcError>,
        }
        let bytes = self.into_slices().concat();
        match serde_json::from_slice(&bytes) {
            Ok(DecodedResponse { error: Some(error), .. }) => Err(error),
            Ok(DecodedResponse { result, .. }) => Ok(result.unwrap_or_default()),
            Err(error) => Err(RpcError::new(INTERNAL_ERROR, error.to_string())),
        }
    }

    /// Encodes an error. If the id of the request could not be read, the error has no id.
    pub(crate) fn error(id: Option<&RawValue>, error: &RpcError) -> Self {
        #[derive(Serialize)]
        struct EncodedError<'a> {
            jsonrpc: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a RawValue>,
            error: &'a RpcError,
        }
        Self::encode(&EncodedError { jsonrpc: "2.0", id, error })
    }

    pub(crate) fn notification(method: &str, params: &impl Serialize) -> Self {
        Self::encode(&OutgoingRequest { jsonrpc: "2.0", id: None, method, params })
    }

    /// Encodes a request to a client.
    pub(crate) fn request(id: &str, method: &str, params: &impl Serialize) -> Self {
        Self::encode(&OutgoingRequest { jsonrpc: "2.0", id: Some(id), method, params })
    }

    /// Joins the responses to a batch into one message.
    pub(crate) fn batch(messages: impl IntoIterator<Item = Self>) -> Self {
        let mut slices = vec![Bytes::from_static(b"[")];
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 {
                slices.push(Bytes::from_static(b","));
            }
            slices.extend(message.into_slices());
        }
        slices.push(Bytes::from_static(b"]"));
        Self(MessageBytes::Many(slices))
    }

    fn encode(message: &impl Serialize) -> Self {
        Self(MessageBytes::One(serde_json::to_vec(message).unwrap_or_default().into()))
    }
}

/// A request, or a notification if it has no id.
#[derive(Serialize)]
struct OutgoingRequest<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    method: &'a str,
    params: &'a P,
}

#[derive(Debug)]
pub(crate) struct ResultWriter {
    slices: Vec<Bytes>,
    buffer: Vec<u8>,
    revision: Revision,
    is_empty: bool,
}

impl ResultWriter {
    /// Begins a result.
    pub(crate) fn new(id: &RawValue, revision: Revision, capacity: usize) -> Self {
        let mut writer = Self::begin(id, revision, capacity);
        if revision.is_modern() {
            writer.member("resultType").extend_from_slice(b"\"complete\"");
        }
        writer
    }

    /// Begins a modern result whose type is not `complete`.
    pub(crate) fn of_type(id: &RawValue, result_type: &str) -> Self {
        let mut writer = Self::begin(id, Revision::NEWEST, 200);
        writer.value("resultType", &result_type);
        writer
    }

    fn begin(id: &RawValue, revision: Revision, capacity: usize) -> Self {
        let mut buffer = Vec::with_capacity(capacity + id.get().len() + 200);
        buffer.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        buffer.extend_from_slice(id.get().as_bytes());
        buffer.extend_from_slice(b",\"result\":{");
        Self { slices: Vec::new(), buffer, revision, is_empty: true }
    }

    /// Begins a member, whose value the caller of this function writes next. The name must not need escaping.
    pub(crate) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.buffer.push(b',');
        }
        self.buffer.push(b'"');
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.extend_from_slice(b"\":");
        &mut self.buffer
    }

    /// Writes a member.
    pub(crate) fn value(&mut self, name: &str, value: &impl Serialize) {
        write_json(self.member(name), value);
    }

    /// Writes the members of a value that serializes to an object.
    pub(crate) fn members(&mut self, object: &impl Serialize) {
        let json = serde_json::to_vec(object).unwrap_or_default();
        if let [b'{', members @ .., b'}'] = json.as_slice() {
            if !std::mem::take(&mut self.is_empty) {
                self.buffer.push(b',');
            }
            self.buffer.extend_from_slice(members);
        }
    }

    /// Writes for how long and by whom the result may be cached. Modern revisions require both.
    pub(crate) fn cache(&mut self, ttl_ms: u32, scope: &str) {
        if self.revision.is_modern() {
            self.value("ttlMs", &ttl_ms);
            self.value("cacheScope", &scope);
        }
    }

    /// Appends slices to the value being written, without copying them.
    pub(crate) fn slices(&mut self, slices: Vec<Bytes>) {
        self.slices.push(std::mem::take(&mut self.buffer).into());
        self.slices.extend(slices);
        self.buffer.reserve(256);
    }

    /// Appends bytes to the value being written.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Ends the result. In the modern era, adds the name and version of the server.
    pub(crate) fn finish(mut self, settings: &Settings) -> EncodedMessage {
        if self.revision.is_modern() {
            let out = self.member("_meta");
            out.extend_from_slice(b"{\"io.modelcontextprotocol/serverInfo\":{\"name\":");
            write_text(out, &settings.server_name);
            out.extend_from_slice(b",\"version\":");
            write_text(out, &settings.server_version);
            out.extend_from_slice(b"}}");
        }
        self.end()
    }

    /// Ends the result without the name and version of the server.
    pub(crate) fn end(mut self) -> EncodedMessage {
        self.buffer.extend_from_slice(b"}}");
        let last = self.buffer.into();
        if self.slices.is_empty() {
            return EncodedMessage(MessageBytes::One(last));
        }
        self.slices.push(last);
        EncodedMessage(MessageBytes::Many(self.slices))
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ServerInfo<'a> {
    name: &'a str,
    version: &'a str,
}

impl<'a> ServerInfo<'a> {
    pub(crate) fn of(settings: &'a Settings) -> Self {
        Self { name: &settings.server_name, version: &settings.server_version }
    }
}

/// Writes a text as a JSON string. Most texts need no escapes.
fn write_text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        return write_json(out, text);
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Writes a value as JSON. Writing to memory cannot fail.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(out, value);
}
