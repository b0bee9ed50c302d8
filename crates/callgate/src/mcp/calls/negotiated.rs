//! The terms that a request is answered on: in the modern era each request states its own, in the legacy
//! era they were agreed on with `initialize`.

use std::str::FromStr as _;
use std::time::SystemTime;

use super::in_flight::Scope;
use crate::mcp::parse::classify::{
    META_CAPABILITIES, McpRequest, Message, Verb, unsupported_header,
};
use crate::mcp::parse::headers::{Header, SESSION_ID};
use crate::mcp::reply::error::Reject;
use crate::mcp::sessions::session::Session;
use crate::mcp::{Inbound, Mcp};
use crate::upstream::client::Capabilities;
use crate::wire::log_level::LogLevel;
use crate::wire::revision::Revision;

const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The terms of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) revision: Revision,
    /// Whether tools that change something are refused.
    pub(crate) read_only: bool,
    /// The least severe log messages that the client wants, if any.
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) capabilities: Capabilities,
    /// What the ids of requests are unique within, and where answers come from.
    pub(crate) scope: Option<Scope>,
    /// The legacy session over HTTP.
    pub(crate) session: Option<Session>,
    /// Whether the client reads what is sent before the reply.
    pub(crate) accepts_events: bool,
}

impl Terms {
    fn new(revision: Revision, inbound: &Inbound<'_>) -> Self {
        Self {
            revision,
            read_only: inbound.verb == Verb::Raw,
            log_level: None,
            capabilities: Capabilities::default(),
            scope: inbound.connection.map(|connection| connection.scope()),
            session: None,
            accepts_events: inbound.accepts_events,
        }
    }

    /// Reads the terms of a modern request, without the log level.
    pub(crate) fn modern(inbound: &Inbound<'_>, request: &McpRequest<'_>) -> Result<Self, Reject> {
        let declared = request.meta.get(META_CAPABILITIES).map(Capabilities::declared).transpose();
        let capabilities = declared.map_err(|error| {
            let problem = crate::wire::strict_json::problem(&error);
            Reject::invalid_params(format!("`{META_CAPABILITIES}`: {problem}"))
        })?;
        let capabilities = capabilities.unwrap_or_default();
        Ok(Self { capabilities, ..Self::new(Revision::NEWEST, inbound) })
    }
}

/// Reads the log level of a modern request.
pub(crate) fn log_level(request: &McpRequest<'_>) -> Result<Option<LogLevel>, Reject> {
    let level = request.meta.text(META_LOG_LEVEL)?.map(|level| LogLevel::from_str(&level));
    level.transpose().map_err(|error| Reject::invalid_params(error.to_string()))
}

impl Mcp {
    /// Returns the terms of one legacy message. A handshake begins anew, whatever session the client
    /// still names.
    pub(crate) fn terms_of(
        &self,
        inbound: &Inbound<'_>,
        claimed: Option<Revision>,
        message: &Message<'_>,
    ) -> Result<Terms, Reject> {
        let Message::Request(request) = message else { return self.terms(inbound, claimed) };
        let is_http = inbound.connection.is_none() && inbound.verb != Verb::Raw;
        if is_http && request.method == "initialize" {
            return Ok(Terms::new(Revision::NEWEST_LEGACY, inbound));
        }
        self.terms(inbound, claimed).map_err(|reject| reject.of(request.id))
    }

    /// Returns the terms that a legacy client agreed on.
    pub(crate) fn terms(
        &self,
        inbound: &Inbound<'_>,
        claimed: Option<Revision>,
    ) -> Result<Terms, Reject> {
        let newest = self.gateway.settings().protocol_version.min(Revision::NEWEST_LEGACY);
        let fallback = Revision::V2025_03_26.min(newest);
        if inbound.verb == Verb::Raw {
            return Ok(Terms::new(newest, inbound));
        }
        if let Some(connection) = inbound.connection {
            let agreed = connection.agreed();
            return Ok(Terms {
                log_level: agreed.state.log_level,
                capabilities: agreed.capabilities,
                ..Terms::new(agreed.revision.unwrap_or(fallback), inbound)
            });
        }
        let session = self.session(inbound)?;
        let agreed = session.map(|session| session.revision);
        // What was agreed on stays, also when less is offered since.
        if let Some(claimed) = claimed.filter(|it| *it > newest && agreed != Some(*it)) {
            return Err(unsupported_header(claimed.as_str(), newest));
        }
        let terms = Terms::new(claimed.or(agreed).unwrap_or(fallback), inbound);
        let Some(session) = session else { return Ok(terms) };
        Ok(Terms {
            log_level: self.sessions.state(&session).log_level,
            capabilities: session.capabilities,
            scope: Some(Scope::Session(session.nonce)),
            session: Some(session),
            ..terms
        })
    }

    /// Returns the session that the client names, if any; it must be valid.
    pub(crate) fn session(&self, inbound: &Inbound<'_>) -> Result<Option<Session>, Reject> {
        let id = match inbound.headers.map(|headers| headers.header(SESSION_ID)) {
            None | Some(Header::Absent) => return Ok(None),
            Some(Header::One(id)) => id,
            Some(Header::Unusable) => return Err(Reject::no_such_session()),
        };
        let session = self.sessions.find(id, inbound.caller, SystemTime::now());
        session.map(Some).ok_or_else(Reject::no_such_session)
    }
}
