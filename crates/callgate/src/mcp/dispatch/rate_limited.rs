//! Replies to messages that exceed a rate limit.

use std::sync::Arc;

use crate::access::RateLimited;
use crate::mcp::features::tools;
use crate::mcp::parse::classify::{Message, Route};
use crate::mcp::parse::method::McpMethod;
use crate::mcp::{Inbound, Mcp, McpError, McpResponse, Negotiated, RequestContext};

impl Mcp {
    /// Refuses a message or a whole batch.
    pub(crate) fn refuse(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        route: Result<Route<'_>, McpError>,
        limited: RateLimited,
    ) -> Result<McpResponse, McpError> {
        match route {
            Ok(Route::Modern(request)) => {
                let negotiated = Negotiated::modern(inbound, &request);
                let negotiated = negotiated.map_err(|error| error.with_id(request.id))?;
                RequestContext { mcp: self, inbound, request: &request, negotiated }.refuse(limited)
            }
            Ok(Route::Legacy { claimed, message }) => {
                let negotiated = self.negotiated_for(inbound, claimed, &message)?;
                self.refuse_legacy(inbound, negotiated, &message, limited)
            }
            Ok(Route::Batch { .. } | Route::OpenStream { .. } | Route::EndSession) => {
                Err(limited.into())
            }
            Err(error) => {
                let refused = McpError::from(limited).with_optional_id(error.id.as_deref());
                Err(if error.is_for_notification { refused.for_notification() } else { refused })
            }
        }
    }

    /// Refuses a legacy message. The message may be part of a batch.
    pub(crate) fn refuse_legacy(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        negotiated: Negotiated,
        message: &Message<'_>,
        limited: RateLimited,
    ) -> Result<McpResponse, McpError> {
        match message {
            Message::Request(request) => {
                RequestContext { mcp: self, inbound, request, negotiated }.refuse(limited)
            }
            Message::Notification { .. } | Message::Response { .. } => {
                Err(McpError::from(limited).for_notification())
            }
        }
    }
}

impl RequestContext<'_> {
    /// Refuses a request. A tool call gets a result that says how long to wait, because agents read results of tools.
    fn refuse(&self, limited: RateLimited) -> Result<McpResponse, McpError> {
        if self.request.method == McpMethod::ToolsCall {
            return Ok(McpResponse::Message(tools::error_result(self, &limited.to_string())));
        }
        Err(McpError::from(limited).with_id(self.request.id))
    }
}
