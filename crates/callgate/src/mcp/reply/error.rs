//! Errors of the protocol: a JSON-RPC error with an HTTP status.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::EncodedMessage;
use crate::access::RateLimited;
use crate::gateway::BATCH_FULL;
use crate::upstream::Capability;
use crate::wire::jsonrpc::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError,
};
use crate::wire::shortened;

/// Error code: the client did not declare a required capability.
pub const MISSING_CAPABILITY: i64 = -32021;

/// A JSON-RPC error with an HTTP status.
#[derive(Debug, Clone)]
pub struct McpError {
    /// HTTP status.
    pub status: u16,
    /// Id of the request, if it could be read.
    pub(crate) id: Option<Box<RawValue>>,
    /// The JSON-RPC error.
    pub error: Box<RpcError>,
    /// Whether the client's message was a notification. Over stdio, a notification gets no response.
    pub(crate) is_for_notification: bool,
    /// Number of seconds that the client should wait before another attempt.
    pub retry_after: Option<u64>,
}

impl From<RateLimited> for McpError {
    fn from(limited: RateLimited) -> Self {
        let error = Box::new(limited.to_rpc());
        Self { error, retry_after: Some(limited.retry_after), ..Self::new(429, 0, "") }
    }
}

impl McpError {
    /// Returns an error with status 400.
    pub(crate) fn bad_request(code: i64, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// Returns an error with status 200, because a client could fall back to the other era after an HTTP error.
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(200, INVALID_PARAMS, message)
    }

    pub(crate) fn method_not_found(method: &str, is_modern: bool) -> Self {
        let method: String = method.chars().take(200).collect();
        let status = if is_modern { 404 } else { 200 };
        Self::new(status, METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    /// Returns the error of a request in a batch whose replies are already too large.
    pub(crate) fn batch_full() -> Self {
        Self::new(200, INVALID_REQUEST, BATCH_FULL)
    }

    /// Returns the error for a session that has ended, belongs to another user, or never existed.
    pub(crate) fn unknown_session() -> Self {
        let message =
            "the session is unknown, has ended or belongs to another user; send `initialize` again";
        Self::new(404, INVALID_REQUEST, message)
    }

    pub(crate) fn missing_capability(capability: Capability) -> Self {
        let message = format!("the client must declare the capability: {capability}");
        let data = json!({"requiredCapabilities": capability.declaration()});
        Self::bad_request(MISSING_CAPABILITY, message).with_data(data)
    }

    /// Converts an error of a method. If its code is reserved for servers, the error becomes an internal error.
    pub(crate) fn from_rpc(mut error: RpcError) -> Self {
        if (-32099..=-32000).contains(&error.code) {
            error.code = INTERNAL_ERROR;
        }
        Self { error: Box::new(error), ..Self::new(200, 0, "") }
    }

    /// Creates an error. Truncates the message, which may repeat a long text of the client.
    pub fn new(status: u16, code: i64, message: impl Into<String>) -> Self {
        let error = Box::new(RpcError::new(code, shortened(message.into())));
        Self { status, id: None, error, is_for_notification: false, retry_after: None }
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.error.data = Some(data);
        self
    }

    /// Sets the id of the request.
    #[must_use]
    pub fn with_id(mut self, id: &RawValue) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    pub(crate) fn with_optional_id(mut self, id: Option<&RawValue>) -> Self {
        self.id = id.map(ToOwned::to_owned);
        self
    }

    pub(crate) fn for_notification(mut self) -> Self {
        self.is_for_notification = true;
        self
    }

    /// Encodes the error.
    pub fn message(&self) -> EncodedMessage {
        EncodedMessage::error(self.id.as_deref(), &self.error)
    }
}
