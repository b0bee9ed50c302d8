//! How a client and the server come to terms: `server/discover` in the modern era, `initialize` in
//! the legacy one.

use std::str::FromStr as _;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::Mcp;
use super::classify::Asked;
use super::message::{OutMessage, ResultWriter, ServerInfo};
use super::reject::Reject;
use super::requested::Requested;
use crate::access::Caller;
use crate::client::{Capabilities, TASKS_EXTENSION};
use crate::revision::Revision;

/// How long a client may keep what `server/discover` says, which is the same for everybody.
const DISCOVER_TTL_MS: u32 = 60_000;

/// `server/discover`
pub(super) fn discover(request: &Requested<'_>) -> OutMessage {
    let settings = request.mcp.gateway.settings();
    let versions: Vec<&str> = settings.protocol_version.and_older().map(Revision::as_str).collect();
    let mut result = ResultWriter::new(request.asked.id, request.terms.revision, 300);
    result.value("supportedVersions", &versions);
    let mut capabilities = capabilities(request.mcp);
    if request.mcp.tasks.is_some() {
        capabilities.insert("extensions".to_owned(), json!({TASKS_EXTENSION: {}}));
    }
    result.value("capabilities", &capabilities);
    result.cache(DISCOVER_TTL_MS, "public");
    result.finish(&settings)
}

/// How a session begins.
pub(super) struct Opened {
    /// The reply.
    pub(super) message: OutMessage,
    /// The session's id.
    pub(super) session: Option<String>,
    pub(super) revision: Revision,
    pub(super) capabilities: Capabilities,
}

/// `initialize`
pub(super) fn initialize(mcp: &Mcp, caller: &Caller, asked: &Asked<'_>) -> Result<Opened, Reject> {
    let settings = mcp.gateway.settings();
    let wanted = asked.params.required_text("protocolVersion").map_err(Reject::invalid_params)?;
    let newest = settings.protocol_version.min(Revision::NEWEST_LEGACY);
    let revision = Revision::from_str(&wanted).unwrap_or(newest).min(newest);
    let declared = asked.params.get("capabilities").map(Capabilities::declared).transpose();
    let declared = declared.map_err(|error| {
        let problem = crate::strict_json::problem(&error);
        Reject::invalid_params(format!("`capabilities` must be an object: {problem}"))
    })?;
    let declared = declared.unwrap_or_default();
    let session = mcp.sessions.open(revision, declared, caller, SystemTime::now());
    let mut result = ResultWriter::new(asked.id, revision, 300);
    result.value("protocolVersion", &revision.as_str());
    result.value("capabilities", &capabilities(mcp));
    result.value("serverInfo", &ServerInfo::of(&settings));
    let message = result.finish(&settings);
    Ok(Opened { message, session, revision, capabilities: declared })
}

/// The same in both eras.
fn capabilities(mcp: &Mcp) -> Map<String, Value> {
    let resources = match (mcp.resources.is_some(), mcp.can_subscribe()) {
        (true, true) => json!({"subscribe": true, "listChanged": true}),
        (true, false) => json!({"listChanged": true}),
        (false, _) => json!({}),
    };
    let prompts = if mcp.prompts.is_some() { json!({"listChanged": true}) } else { json!({}) };
    let mut all = Map::new();
    all.insert("tools".to_owned(), json!({"listChanged": true}));
    all.insert("resources".to_owned(), resources);
    all.insert("prompts".to_owned(), prompts);
    all.insert("logging".to_owned(), json!({}));
    if mcp.completion.is_some() {
        all.insert("completions".to_owned(), json!({}));
    }
    all
}
