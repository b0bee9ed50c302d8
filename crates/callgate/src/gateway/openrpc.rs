//! OpenRPC documents that describe the methods of a caller.
//!
//! A document is generated from the serialized tools, one tool at a time. The definitions in their schemas move to
//! `components.schemas`, see [`Components`].

mod components;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::catalog::listing::Listing;
use crate::catalog::{Catalog, Entry};
use crate::gateway::settings::Settings;
use crate::model::schema::REST_PARAM;
use crate::model::tool::{ToolFormat, json};
pub use components::{Components, SourceSchema};

/// Version of OpenRPC.
const VERSION: &str = "1.3.2";
/// Maximum number of methods of a document.
const MAX_METHODS: usize = 10_000;
/// Maximum size of the tools of a document, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The methods exceed the limits of a document.
///
/// Error of [`Gateway::open_rpc`](super::Gateway::open_rpc).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenRpcError {
    /// Too many methods.
    #[error(
        "{0} methods exceed the limit of {MAX_METHODS} per document; \
         use GET /mcp/tools/list"
    )]
    TooMany(usize),
    /// The tools are too large.
    #[error(
        "{0} bytes of tools exceed the limit of {MAX_BYTES} per document; \
         use GET /mcp/tools/list"
    )]
    TooLarge(usize),
}

/// Generates the document of a listing of this catalog.
pub(super) fn document(
    settings: &Settings,
    catalog: &Catalog,
    listing: &Listing,
) -> Result<Bytes, OpenRpcError> {
    let arena = catalog.arena(ToolFormat::Rest);
    let size = listing.ordinals.iter().map(|ordinal| arena.size(*ordinal)).sum();
    check_limits(listing.len(), size)?;
    let mut out = Vec::with_capacity(size * 2);
    let info = Info { title: &settings.server_name, version: &settings.server_version };
    out.extend_from_slice(b"{\"openrpc\":");
    json(&mut out, VERSION);
    out.extend_from_slice(b",\"info\":");
    json(&mut out, &info);
    out.extend_from_slice(b",\"methods\":[");
    let mut components = Components::default();
    for (number, ordinal) in listing.ordinals.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        let entry = catalog.entry(*ordinal);
        write_method(&arena.tool(*ordinal), entry, &mut components, &mut out);
    }
    out.push(b']');
    if let Some(schemas) = components.finish() {
        out.extend_from_slice(b",\"components\":{\"schemas\":");
        json(&mut out, &schemas);
        out.push(b'}');
    }
    out.push(b'}');
    out.shrink_to_fit();
    Ok(out.into())
}

fn check_limits(methods: usize, bytes: usize) -> Result<(), OpenRpcError> {
    if methods > MAX_METHODS {
        return Err(OpenRpcError::TooMany(methods));
    }
    if bytes > MAX_BYTES { Err(OpenRpcError::TooLarge(bytes)) } else { Ok(()) }
}

#[derive(Serialize)]
struct Info<'a> {
    title: &'a str,
    version: &'a str,
}

/// A tool in the REST format.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RestTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    description: Cow<'a, str>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
    #[serde(borrow)]
    output_schema: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MethodObject<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    params: Vec<ContentDescriptor<'a>>,
    result: ContentDescriptor<'a>,
    param_structure: &'static str,
    #[serde(rename = "x-title", skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(rename = "x-annotations")]
    annotations: Cow<'a, RawValue>,
}

/// A parameter or result of an OpenRPC method.
#[derive(Debug, Serialize)]
pub struct ContentDescriptor<'a> {
    /// Name of the parameter; `result` for results.
    pub name: &'a str,
    /// Description for people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// Whether the parameter is required; `None` for results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Schema, without the description.
    pub schema: Value,
}

/// Returns `true` if the items of a list are sent as separate positional parameters. An OpenRPC document cannot express
/// this.
fn is_variadic(entry: &Entry) -> bool {
    let mut parts = entry.check_schema.iter().flat_map(|check| check.windows(REST_PARAM.len()));
    parts.any(|part| part == REST_PARAM.as_bytes())
}

/// Appends a tool as a method object. Omits a guessed safety, because readers would take it for a declared one.
fn write_method(
    tool: &[u8],
    entry: Option<&Entry>,
    components: &mut Components,
    out: &mut Vec<u8>,
) {
    let Ok(tool) = serde_json::from_slice::<RestTool<'_>>(tool) else {
        return out.extend_from_slice(b"{}");
    };
    // If a schema is nested too deeply to be parsed, calls of the method fail. The document then allows any value.
    let source = |part: &str, schema: &RawValue| {
        let schema = serde_json::from_str(schema.get()).unwrap_or_else(|_| any_value_schema());
        SourceSchema::new(format!("{}.{part}", tool.name), schema)
    };
    let input = source("params", tool.input_schema);
    let mut params = components.params(&input);
    // OpenRPC requires that required parameters come first, but positions follow the order of the signature.
    let is_ordered = params.is_sorted_by_key(|param| param.required == Some(false));
    params.sort_by_key(|param| param.required == Some(false));
    let is_variadic = entry.is_some_and(is_variadic);
    let safety_is_guess = entry.is_some_and(|entry| entry.safety() != entry.call_safety());
    let output = tool.output_schema.map(|schema| components.result(&source("result", schema)));
    let schema = output.unwrap_or_else(any_value_schema);
    let (summary, has_more) = summary(&tool.description);
    let method = MethodObject {
        name: &tool.name,
        summary,
        description: has_more.then_some(&tool.description),
        params,
        result: ContentDescriptor { name: "result", description: None, required: None, schema },
        param_structure: if is_ordered && !is_variadic { "either" } else { "by-name" },
        title: tool.title.as_deref(),
        annotations: if safety_is_guess {
            without_safety(tool.annotations)
        } else {
            Cow::Borrowed(tool.annotations)
        },
    };
    json(out, &method);
}

fn without_safety(annotations: &RawValue) -> Cow<'_, RawValue> {
    let mut members: serde_json::Map<String, Value> =
        serde_json::from_str(annotations.get()).unwrap_or_default();
    members.retain(|hint, _| !matches!(hint.as_str(), "readOnlyHint" | "destructiveHint"));
    serde_json::value::to_raw_value(&members).map_or(Cow::Borrowed(annotations), Cow::Owned)
}

/// Returns the first paragraph as one line, and whether the description has more paragraphs.
fn summary(description: &str) -> (String, bool) {
    let mut lines = description.trim().lines().map(str::trim);
    let first: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    (first.join(" "), lines.next().is_some())
}

/// Returns a schema that accepts every value.
fn any_value_schema() -> Value {
    Value::Object(serde_json::Map::new())
}
