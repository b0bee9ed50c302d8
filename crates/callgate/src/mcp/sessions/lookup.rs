//! Finds the session that a request names.

use std::time::SystemTime;

use super::session::Session;
use crate::mcp::parse::headers::{Header, SESSION_ID};
use crate::mcp::reply::error::McpError;
use crate::mcp::{Inbound, Mcp};
use crate::wire::jsonrpc::INVALID_REQUEST;

impl Mcp {
    /// Returns the session in the header `Mcp-Session-Id`. Fails if the session is not valid.
    pub(crate) fn session(&self, inbound: &Inbound<'_>) -> Result<Option<Session>, McpError> {
        let id = match inbound.headers.map(|headers| headers.header(SESSION_ID)) {
            None | Some(Header::Absent) => return Ok(None),
            Some(Header::One(id)) => id,
            Some(Header::Unusable) => return Err(not_found()),
        };
        let session = self.sessions.find(id, inbound.caller, SystemTime::now());
        session.map(Some).ok_or_else(not_found)
    }
}

/// Returns the same error for sessions that have ended, belong to another user, or never existed.
fn not_found() -> McpError {
    let message =
        "the session is unknown, has ended or belongs to another user; send `initialize` again";
    McpError::new(404, INVALID_REQUEST, message)
}
