//! How a client and the server come to terms: `server/discover` in the modern era, `initialize` in
//! the legacy one.

use std::str::FromStr as _;
use std::time::SystemTime;

use serde_json::json;

use super::classify::Asked;
use super::members::Members;
use super::message::{OutMessage, ResultWriter, ServerInfo};
use super::reject::Reject;
use super::session::Capabilities;
use super::{Mcp, Terms};
use crate::access::Caller;
use crate::revision::Revision;

/// How long a client may keep what `server/discover` says, which is the same for everybody.
const DISCOVER_TTL_MS: u32 = 60_000;

/// `server/discover`
pub(super) fn discover(mcp: &Mcp, asked: &Asked<'_>, terms: Terms) -> OutMessage {
    let settings = mcp.gateway.settings();
    let versions: Vec<&str> = settings.protocol_version.and_older().map(Revision::as_str).collect();
    let mut result = ResultWriter::new(asked.id, terms.revision, 300);
    result.value("supportedVersions", &versions);
    result.value("capabilities", &capabilities());
    result.cache(DISCOVER_TTL_MS, "public");
    result.finish(&settings)
}

/// `initialize`: the reply, and the id of the session that begins.
pub(super) fn initialize(
    mcp: &Mcp,
    caller: &Caller,
    asked: &Asked<'_>,
) -> Result<(OutMessage, Option<String>, Revision), Reject> {
    let settings = mcp.gateway.settings();
    let wanted = asked.params.required_text("protocolVersion").map_err(Reject::invalid_params)?;
    let newest = settings.protocol_version.min(Revision::NEWEST_LEGACY);
    let revision = Revision::from_str(&wanted).unwrap_or(newest).min(newest);
    let declared = Members::parse(asked.params.get("capabilities"))
        .map_err(|problem| Reject::invalid_params(format!("`capabilities` {problem}")))?;
    let declared = Capabilities::declared(&declared);
    let session = mcp.sessions.open(revision, declared, caller, SystemTime::now());
    let mut result = ResultWriter::new(asked.id, revision, 300);
    result.value("protocolVersion", &revision.as_str());
    result.value("capabilities", &capabilities());
    result.value("serverInfo", &ServerInfo::of(&settings));
    Ok((result.finish(&settings), session, revision))
}

/// The same in both eras.
fn capabilities() -> serde_json::Value {
    json!({"tools": {"listChanged": true}, "resources": {}, "prompts": {}, "logging": {}})
}
