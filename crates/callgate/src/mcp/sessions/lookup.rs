//! Finds the session that a request names.

use std::time::SystemTime;

use super::session::Session;
use crate::mcp::parse::headers::{Header, SESSION_ID};
use crate::mcp::reply::error::McpError;
use crate::mcp::{Inbound, Mcp};

impl Mcp {
    /// Returns the session in the header `Mcp-Session-Id`. Fails if the session is not valid.
    pub(crate) fn session(&self, inbound: &Inbound<'_>) -> Result<Option<Session>, McpError> {
        let id = match inbound.headers.map(|headers| headers.header(SESSION_ID)) {
            None | Some(Header::Absent) => return Ok(None),
            Some(Header::One(id)) => id,
            Some(Header::Unusable) => return Err(McpError::session_not_found()),
        };
        let session = self.sessions.find(id, inbound.caller, SystemTime::now());
        session.map(Some).ok_or_else(McpError::session_not_found)
    }
}
