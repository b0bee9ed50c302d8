//! What a client is told instead of a result, and with which HTTP status.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::OutMessage;
use crate::upstream::client::Capability;
use crate::wire::jsonrpc::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError,
};

/// The client did not declare what is needed.
pub const MISSING_CAPABILITY: i64 = -32021;

/// An error of the protocol.
#[derive(Debug, Clone)]
pub struct Reject {
    /// For HTTP.
    pub status: u16,
    /// The request's id, where it could be read.
    pub(crate) id: Option<Box<RawValue>>,
    /// What is wrong.
    pub error: Box<RpcError>,
    /// Whether it is about a message that wants no answer, and over lines gets none.
    pub(crate) is_unasked: bool,
}

impl Reject {
    /// 400
    pub(crate) fn bad_request(code: i64, message: impl Into<String>) -> Self {
        Self::with_status(400, code, message)
    }

    /// 200: the request was understood, and its parameters are wrong. Another status could make a
    /// client of both eras fall back.
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::with_status(200, INVALID_PARAMS, message)
    }

    /// Unknown to this revision.
    pub(crate) fn no_such_method(method: &str, is_modern: bool) -> Self {
        let method: String = method.chars().take(200).collect();
        let status = if is_modern { 404 } else { 200 };
        Self::with_status(status, METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    /// Also for ids that were never ours.
    pub(crate) fn no_such_session() -> Self {
        let message = "the session is unknown, has ended or is another user's; initialize again";
        Self::with_status(404, INVALID_REQUEST, message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::with_status(405, INVALID_REQUEST, "this revision only takes POST here")
    }

    /// A client that did not say that it can do what is needed.
    pub(crate) fn lacks(capability: Capability) -> Self {
        let message = format!("the client must declare the capability: {capability}");
        let data = json!({"requiredCapabilities": capability.declaration()});
        Self::bad_request(MISSING_CAPABILITY, message).with_data(data)
    }

    /// An error that a method made; what it may not say itself becomes an internal one.
    pub(crate) fn rpc(mut error: RpcError) -> Self {
        if (-32099..=-32000).contains(&error.code) {
            error.code = INTERNAL_ERROR;
        }
        Self { error: Box::new(error), ..Self::with_status(200, 0, "") }
    }

    /// Any status and code.
    pub fn with_status(status: u16, code: i64, message: impl Into<String>) -> Self {
        let error = Box::new(RpcError::new(code, message));
        Self { status, id: None, error, is_unasked: false }
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.error.data = Some(data);
        self
    }

    /// The answer to the request with this id.
    #[must_use]
    pub fn of(mut self, id: &RawValue) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// The answer to the request with this id, if it has one.
    pub(crate) fn of_optional(self, id: Option<&RawValue>) -> Self {
        match id {
            Some(id) => self.of(id),
            None => self,
        }
    }

    /// About a notification.
    pub(crate) fn of_notification(mut self) -> Self {
        self.is_unasked = true;
        self
    }

    /// The message to send.
    pub fn message(&self) -> OutMessage {
        OutMessage::error(self.id.as_deref(), &self.error)
    }
}
