//! Messages on their way out: whole JSON texts in slices, without line breaks.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::gateway::settings::Settings;
use crate::upstream::budget::BudgetReservation;
use crate::wire::jsonrpc::RpcError;
use crate::wire::revision::Revision;

/// A message to a client.
#[derive(Debug, Clone)]
pub struct OutMessage(Parts);

#[derive(Debug, Clone)]
enum Parts {
    One(Bytes),
    Many(Vec<Bytes>),
}

impl From<Bytes> for OutMessage {
    fn from(message: Bytes) -> Self {
        Self(Parts::One(message))
    }
}

impl OutMessage {
    /// The parts, to be sent one after the other.
    pub fn into_slices(self) -> Vec<Bytes> {
        match self.0 {
            Parts::One(bytes) => vec![bytes],
            Parts::Many(slices) => slices,
        }
    }

    /// The whole where it is in one piece, else its parts.
    pub fn into_whole(self) -> Result<Bytes, Vec<Bytes>> {
        match self.0 {
            Parts::One(bytes) => Ok(bytes),
            Parts::Many(slices) => Err(slices),
        }
    }

    /// With the result in it counted until it is sent.
    pub(crate) fn kept_by(self, reservation: BudgetReservation) -> Self {
        Self(match self.0 {
            Parts::One(bytes) => Parts::One(reservation.keep(bytes)),
            Parts::Many(mut slices) => {
                let last = slices.pop().unwrap_or_default();
                slices.push(reservation.keep(last));
                Parts::Many(slices)
            }
        })
    }

    /// What the reply says: its result, or its error.
    pub(crate) fn outcome(self) -> Result<serde_json::Value, RpcError> {
        #[derive(serde::Deserialize)]
        struct Reply {
            result: Option<serde_json::Value>,
            error: Option<RpcError>,
        }
        let bytes = self.into_slices().concat();
        // It was written here, so it can be read.
        match serde_json::from_slice(&bytes) {
            Ok(Reply { error: Some(error), .. }) => Err(error),
            Ok(Reply { result, .. }) => Ok(result.unwrap_or_default()),
            Err(error) => {
                Err(RpcError::new(crate::wire::jsonrpc::INTERNAL_ERROR, error.to_string()))
            }
        }
    }

    /// Writes an error; without an id if none could be read.
    pub(crate) fn error(id: Option<&RawValue>, error: &RpcError) -> Self {
        #[derive(Serialize)]
        struct Reply<'a> {
            jsonrpc: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a RawValue>,
            error: &'a RpcError,
        }
        Self::of(&Reply { jsonrpc: "2.0", id, error })
    }

    /// Writes a notification.
    pub(crate) fn notification(method: &str, params: &impl Serialize) -> Self {
        Self::of(&Request { jsonrpc: "2.0", id: None, method, params })
    }

    /// Writes a request to a client.
    pub(crate) fn request(id: &str, method: &str, params: &impl Serialize) -> Self {
        Self::of(&Request { jsonrpc: "2.0", id: Some(id), method, params })
    }

    /// Several answers as a list.
    pub(crate) fn batch(messages: impl IntoIterator<Item = Self>) -> Self {
        let mut slices = vec![Bytes::from_static(b"[")];
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 {
                slices.push(Bytes::from_static(b","));
            }
            slices.extend(message.into_slices());
        }
        slices.push(Bytes::from_static(b"]"));
        Self(Parts::Many(slices))
    }

    /// Everything that is written here can be.
    fn of(message: &impl Serialize) -> Self {
        Self(Parts::One(serde_json::to_vec(message).unwrap_or_default().into()))
    }
}

/// A request or, without an id, a notification.
#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    method: &'a str,
    params: &'a P,
}

/// Writes the result of a request, member by member.
#[derive(Debug)]
pub(crate) struct ResultWriter {
    slices: Vec<Bytes>,
    buffer: Vec<u8>,
    revision: Revision,
    is_empty: bool,
}

impl ResultWriter {
    /// `{"jsonrpc":"2.0","id":…,"result":{`
    pub(crate) fn new(id: &RawValue, revision: Revision, capacity: usize) -> Self {
        let mut writer = Self::begin(id, revision, capacity);
        if revision.is_modern() {
            writer.member("resultType").extend_from_slice(b"\"complete\"");
        }
        writer
    }

    /// A result that is of another type than a complete one.
    pub(crate) fn of_type(id: &RawValue, revision: Revision, result_type: &str) -> Self {
        let mut writer = Self::begin(id, revision, 200);
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

    /// Begins a member; its value is to be written next. Names have nothing to escape.
    pub(crate) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.buffer.push(b',');
        }
        self.buffer.push(b'"');
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.extend_from_slice(b"\":");
        &mut self.buffer
    }

    /// A member and its value.
    pub(crate) fn value(&mut self, name: &str, value: &impl Serialize) {
        write_json(self.member(name), value);
    }

    /// Members and their values.
    pub(crate) fn members(&mut self, members: serde_json::Map<String, serde_json::Value>) {
        for (name, value) in members {
            self.value(&name, &value);
        }
    }

    /// How long the result may be kept, and by whom: modern lists must say so.
    pub(crate) fn cache(&mut self, ttl_ms: u32, scope: &str) {
        if self.revision.is_modern() {
            self.value("ttlMs", &ttl_ms);
            self.value("cacheScope", &scope);
        }
    }

    /// The value goes on with these.
    pub(crate) fn slices(&mut self, slices: Vec<Bytes>) {
        self.slices.push(std::mem::take(&mut self.buffer).into());
        self.slices.extend(slices);
        self.buffer.reserve(256);
    }

    /// The value goes on with these bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Modern results say who gave them.
    pub(crate) fn finish(mut self, settings: &Settings) -> OutMessage {
        if self.revision.is_modern() {
            let out = self.member("_meta");
            out.extend_from_slice(b"{\"io.modelcontextprotocol/serverInfo\":");
            write_json(out, &ServerInfo::of(settings));
            out.push(b'}');
        }
        self.end()
    }

    /// Ends without saying so.
    pub(crate) fn end(mut self) -> OutMessage {
        self.buffer.extend_from_slice(b"}}");
        let last = self.buffer.into();
        if self.slices.is_empty() {
            return OutMessage(Parts::One(last));
        }
        self.slices.push(last);
        OutMessage(Parts::Many(self.slices))
    }
}

/// The server as it presents itself.
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

/// Writing to memory cannot fail, and everything that is written here has a JSON form.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(out, value);
}
