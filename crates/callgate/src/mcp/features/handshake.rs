//! `server/discover` in the modern era, `initialize` in the legacy one.

use std::str::FromStr as _;
use std::time::SystemTime;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::gateway::Settings;
use crate::mcp::{
    InboundKind, Mcp, McpError, McpResponse, RequestContext, ResultWriter, ServerInfo,
};
use crate::upstream::client::{Capabilities, TASKS_EXTENSION};
use crate::wire::{Revision, shortened, strict_json};

/// Key in `_meta` for the name and version of the client.
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// Time for which clients may cache the result of `server/discover`, in milliseconds.
const DISCOVER_TTL_MS: u32 = 60_000;

/// `server/discover`
pub(crate) fn discover(request: &RequestContext<'_>) -> McpResponse {
    let settings = request.mcp.gateway.settings();
    let versions: Vec<&str> = settings.protocol_version.and_older().map(Revision::as_str).collect();
    let mut result = request.result(300);
    result.value("supportedVersions", &versions);
    let mut capabilities = capabilities(request.mcp);
    if request.mcp.tasks.is_some() {
        capabilities.insert("extensions".to_owned(), json!({TASKS_EXTENSION: {}}));
    }
    result.value("capabilities", &capabilities);
    let (instructions, scope) = instructions(request, &settings);
    result.value("instructions", &instructions);
    result.cache(DISCOVER_TTL_MS, scope);
    log_client(request, request.request.meta.get(META_CLIENT), request.negotiated.revision);
    McpResponse::Message(result.finish(&settings))
}

/// `initialize`
pub(crate) fn initialize(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let RequestContext { mcp, inbound, request, .. } = *context;
    let settings = mcp.gateway.settings();
    let requested = request.params.required_text("protocolVersion")?;
    let newest = settings.protocol_version.min(Revision::NEWEST_LEGACY);
    let revision = Revision::from_str(&requested).unwrap_or(newest).min(newest);
    let declared = request.params.get("capabilities").map(Capabilities::declared).transpose();
    let declared = declared.map_err(|error| {
        let problem = strict_json::problem(&error);
        McpError::invalid_params(format!("`capabilities` is not valid: {problem}"))
    })?;
    let declared = declared.unwrap_or_default();
    let mut result = ResultWriter::new(request.id, revision, 300);
    result.value("protocolVersion", &revision.as_str());
    result.value("capabilities", &capabilities(mcp));
    result.value("serverInfo", &ServerInfo::of(&settings));
    result.value("instructions", &instructions(context, &settings).0);
    log_client(context, request.params.get("clientInfo"), revision);
    let message = result.finish(&settings);
    if let Some(connection) = inbound.connection {
        connection.update(|state| {
            state.revision = Some(revision);
            state.capabilities = declared;
        });
    }
    let is_http = inbound.connection.is_none() && inbound.kind != InboundKind::RawRequest;
    let open = || mcp.sessions.open(revision, declared, inbound.caller, SystemTime::now());
    Ok(McpResponse::SessionOpened { message, session: if is_http { open() } else { None } })
}

/// Returns the instructions for the model, and their cache scope, which says who may share the cached instructions. If
/// the instructions include a summary of the tools, the summary covers only tools and sections that the caller may see.
fn instructions(request: &RequestContext<'_>, settings: &Settings) -> (String, &'static str) {
    if !settings.instructions.is_empty() {
        return (settings.instructions.clone(), "public");
    }
    let summary = request.mcp.gateway.tools_summary(request.inbound.caller);
    (format!("{}: {summary}", settings.server_name), "private")
}

/// Logs the name and version of the client at level debug.
fn log_client(request: &RequestContext<'_>, info: Option<&RawValue>, revision: Revision) {
    #[derive(Default, serde::Deserialize)]
    struct ClientInfo {
        name: Option<String>,
        version: Option<String>,
    }
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let info = info.and_then(|info| strict_json::deserialize_short(info).ok());
    let ClientInfo { name, version } = info.unwrap_or_default();
    let user = request.inbound.caller.user.as_ref().map(|user| &*user.name);
    let shorten = |text: Option<String>| shortened(text.unwrap_or_default());
    let (client, version) = (shorten(name), shorten(version));
    tracing::debug!(client, version, %revision, user, "client connected");
}

/// Returns the capabilities that the server declares in the results of `initialize` and `server/discover`. The result
/// of `server/discover` also has extensions.
fn capabilities(mcp: &Mcp) -> Map<String, Value> {
    let resources = match (mcp.services.resources.is_some(), mcp.can_subscribe()) {
        (true, true) => json!({"subscribe": true, "listChanged": true}),
        (true, false) => json!({"listChanged": true}),
        (false, _) => json!({}),
    };
    let prompts =
        if mcp.services.prompts.is_some() { json!({"listChanged": true}) } else { json!({}) };
    let mut capabilities = Map::new();
    capabilities.insert("tools".to_owned(), json!({"listChanged": true}));
    capabilities.insert("resources".to_owned(), resources);
    capabilities.insert("prompts".to_owned(), prompts);
    capabilities.insert("logging".to_owned(), json!({}));
    if mcp.services.completion.is_some() {
        capabilities.insert("completions".to_owned(), json!({}));
    }
    capabilities
}
