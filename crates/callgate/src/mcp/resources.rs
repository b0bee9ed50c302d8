//! `resources/*` and `prompts/*`: the caller's tools as one resource, and no prompts.

use serde_json::json;

use super::classify::Asked;
use super::message::{OutMessage, ResultWriter, write_json};
use super::reject::Reject;
use super::{Mcp, Terms};
use crate::access::Caller;
use crate::listing::PageLimit;

/// The resource.
const TOOLS_URI: &str = "callgate://tools";
/// The resource shows no more than this of the tools; `tools/list` has the rest.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// What legacy revisions say of a resource that is not there.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// `resources/list`
pub(super) fn list(mcp: &Mcp, asked: &Asked<'_>, terms: Terms) -> Result<OutMessage, Reject> {
    let resource = json!({
        "uri": TOOLS_URI,
        "name": "tools",
        "description": "The tools that you may use, as JSON.",
        "mimeType": "application/json",
    });
    one_page(mcp, asked, terms, "resources", &json!([resource]))
}

/// `resources/templates/list`
pub(super) fn list_templates(
    mcp: &Mcp,
    asked: &Asked<'_>,
    terms: Terms,
) -> Result<OutMessage, Reject> {
    one_page(mcp, asked, terms, "resourceTemplates", &json!([]))
}

/// `prompts/list`
pub(super) fn list_prompts(
    mcp: &Mcp,
    asked: &Asked<'_>,
    terms: Terms,
) -> Result<OutMessage, Reject> {
    one_page(mcp, asked, terms, "prompts", &json!([]))
}

/// `prompts/get`
pub(super) fn get_prompt(asked: &Asked<'_>) -> Result<OutMessage, Reject> {
    let name = asked.params.required_text("name").map_err(Reject::invalid_params)?;
    let name: String = name.chars().take(200).collect();
    Err(Reject::invalid_params(format!("Prompt '{name}' not found")))
}

/// There is one page, so no cursor was given out.
fn one_page(
    mcp: &Mcp,
    asked: &Asked<'_>,
    terms: Terms,
    member: &str,
    items: &serde_json::Value,
) -> Result<OutMessage, Reject> {
    let cursor = asked.params.text("cursor").map_err(Reject::invalid_params)?;
    if cursor.is_some_and(|cursor| !cursor.is_empty()) {
        let problem = "`cursor`: the cursor is not one that this server gave out";
        return Err(Reject::invalid_params(problem));
    }
    let settings = mcp.gateway.settings();
    let mut result = ResultWriter::new(asked.id, terms.revision, 200);
    result.value(member, items);
    result.cache(settings.list_ttl_ms, "private");
    Ok(result.finish(&settings))
}

/// `resources/read`
pub(super) fn read(
    mcp: &Mcp,
    caller: &Caller,
    asked: &Asked<'_>,
    terms: Terms,
) -> Result<OutMessage, Reject> {
    let uri = asked.params.required_text("uri").map_err(Reject::invalid_params)?;
    if uri != TOOLS_URI {
        let uri: String = uri.chars().take(200).collect();
        let message = format!("Resource '{uri}' not found");
        return Err(if terms.revision.is_modern() {
            Reject::invalid_params(message)
        } else {
            Reject::with_status(200, RESOURCE_NOT_FOUND, message)
        });
    }
    let limit = PageLimit { tools: usize::MAX, bytes: MAX_BYTES };
    let (tools, more) = mcp.gateway.list_after(caller, terms.revision.shape(), None, limit);
    let mut text = b"{\"tools\":[".to_vec();
    text.extend(tools.iter().flatten());
    text.extend_from_slice(if more.is_some() { b"],\"more\":true}" } else { b"]}" });
    let settings = mcp.gateway.settings();
    let mut result = ResultWriter::new(asked.id, terms.revision, text.len() + text.len() / 8);
    let out = result.member("contents");
    out.extend_from_slice(b"[{\"uri\":");
    write_json(out, TOOLS_URI);
    out.extend_from_slice(b",\"mimeType\":\"application/json\",\"text\":");
    write_json(out, &String::from_utf8_lossy(&text));
    out.extend_from_slice(b"}]");
    result.cache(settings.list_ttl_ms, "private");
    Ok(result.finish(&settings))
}
