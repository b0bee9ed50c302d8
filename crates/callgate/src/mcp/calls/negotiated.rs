//! Properties that client and server negotiated: in the modern era with `_meta` of each request, in the legacy era with
//! `initialize`.

use std::str::FromStr as _;

use super::in_flight::Scope;
use crate::mcp::parse::classify::{META_CAPABILITIES, McpMessage, unsupported_header};
use crate::mcp::parse::method::McpMethod;
use crate::mcp::{Inbound, InboundKind, Mcp, McpError, McpRequest, Session};
use crate::upstream::client::Capabilities;
use crate::wire::{LogLevel, Revision, strict_json};

/// `_meta` key of the minimum severity of log messages.
pub(crate) const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Protocol revision, capabilities and other properties of the client on which the handling of a request depends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Negotiated {
    pub(crate) revision: Revision,
    /// Minimum severity that the client set for log messages.
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) capabilities: Capabilities,
    /// Scope in which request ids are unique. Answers and cancellations arrive in the same scope.
    pub(crate) scope: Option<Scope>,
    /// The legacy session over HTTP.
    pub(crate) session: Option<Session>,
}

impl Negotiated {
    fn new(revision: Revision, inbound: &Inbound<'_>) -> Self {
        Self {
            revision,
            log_level: None,
            capabilities: Capabilities::default(),
            scope: inbound.connection.map(|connection| connection.scope()),
            session: None,
        }
    }

    /// Reads `_meta` of a modern request. The log level is read separately.
    pub(crate) fn modern(
        inbound: &Inbound<'_>,
        request: &McpRequest<'_>,
    ) -> Result<Self, McpError> {
        let declared = request.meta.get(META_CAPABILITIES).map(Capabilities::declared).transpose();
        let capabilities = declared.map_err(|error| {
            let problem = strict_json::problem(&error);
            McpError::invalid_params(format!("`{META_CAPABILITIES}`: {problem}"))
        })?;
        let capabilities = capabilities.unwrap_or_default();
        Ok(Self { capabilities, ..Self::new(Revision::NEWEST, inbound) })
    }
}

pub(crate) fn log_level(request: &McpRequest<'_>) -> Result<Option<LogLevel>, McpError> {
    let level = request.meta.text(META_LOG_LEVEL)?.map(|level| LogLevel::from_str(&level));
    level.transpose().map_err(|error| McpError::invalid_params(error.to_string()))
}

impl Mcp {
    /// Returns the negotiated properties for a legacy message. For `initialize`, ignores an old session that the client
    /// still sends.
    pub(crate) fn negotiated_for(
        &self,
        inbound: &Inbound<'_>,
        header_revision: Option<Revision>,
        message: &McpMessage<'_>,
    ) -> Result<Negotiated, McpError> {
        let McpMessage::Request(request) = message else {
            return self.negotiated(inbound, header_revision);
        };
        let is_http = inbound.connection.is_none() && inbound.kind != InboundKind::RawRequest;
        if is_http && request.method == McpMethod::Initialize {
            return Ok(Negotiated::new(Revision::NEWEST_LEGACY, inbound));
        }
        self.negotiated(inbound, header_revision).map_err(|error| error.with_id(request.id))
    }

    /// Returns the properties that a legacy client negotiated.
    pub(crate) fn negotiated(
        &self,
        inbound: &Inbound<'_>,
        header_revision: Option<Revision>,
    ) -> Result<Negotiated, McpError> {
        let newest = self.gateway.settings().protocol_version.min(Revision::NEWEST_LEGACY);
        let fallback = Revision::V2025_03_26.min(newest);
        if inbound.kind == InboundKind::RawRequest {
            return Ok(Negotiated::new(newest, inbound));
        }
        if let Some(connection) = inbound.connection {
            let state = connection.state();
            return Ok(Negotiated {
                log_level: state.session.log_level,
                capabilities: state.capabilities,
                ..Negotiated::new(state.revision.unwrap_or(fallback), inbound)
            });
        }
        let session = self.session(inbound)?;
        let session_revision = session.map(|session| session.revision);
        // A negotiated revision stays valid if the setting for the newest revision is lowered later.
        if let Some(header_revision) =
            header_revision.filter(|it| *it > newest && session_revision != Some(*it))
        {
            return Err(unsupported_header(header_revision.as_str(), newest));
        }
        let negotiated =
            Negotiated::new(header_revision.or(session_revision).unwrap_or(fallback), inbound);
        let Some(session) = session else { return Ok(negotiated) };
        Ok(Negotiated {
            log_level: self.sessions.state(&session).log_level,
            capabilities: session.capabilities,
            scope: Some(Scope::Session(session.nonce)),
            session: Some(session),
            ..negotiated
        })
    }
}
