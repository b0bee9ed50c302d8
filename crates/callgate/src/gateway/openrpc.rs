//! The OpenRPC document of a caller's methods.
//!
//! It is made from the bytes of their tools, one after the other, so that only one of them is a tree
//! at a time. What their schemas define for themselves moves to the document's own definitions, see
//! [`Components`].

mod components;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::catalog::Catalog;
use crate::catalog::listing::{Listing, bounded_cache};
use crate::gateway::settings::Settings;
use crate::model::tool::{ToolFormat, json};
pub use components::{Components, SourceSchema};

/// The version of OpenRPC that the document is written in.
const VERSION: &str = "1.3.2";
/// A document has no more methods than this.
const MAX_METHODS: usize = 10_000;
/// Nor is it made from more bytes of tools.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// More methods than one document can hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenRpcError {
    /// By their number.
    #[error(
        "there are {0} methods for you, and one document has at most {MAX_METHODS}; \
         GET /mcp/tools/list has them in pages"
    )]
    TooMany(usize),
    /// By their size.
    #[error(
        "your methods take {0} bytes, and one document is made from at most {MAX_BYTES}; \
         GET /mcp/tools/list has them in pages"
    )]
    TooLarge(usize),
}

/// Documents by settings and listing. Callers with equal listings share one document.
#[derive(Debug)]
pub(crate) struct DocumentCache {
    /// With the listing, whose address tells it from others for as long as it is there.
    cache: Cache<(usize, Arc<Settings>), (Arc<Listing>, Bytes)>,
}

impl Default for DocumentCache {
    fn default() -> Self {
        Self { cache: bounded_cache(|_, (_, document): &(_, Bytes)| document.len()) }
    }
}

impl DocumentCache {
    /// The document of a listing. The catalog must be the one that the listing was made from.
    pub(crate) fn get(
        &self,
        settings: &Arc<Settings>,
        catalog: &Catalog,
        listing: Arc<Listing>,
    ) -> Result<Bytes, OpenRpcError> {
        let key = (Arc::as_ptr(&listing).addr(), Arc::clone(settings));
        if let Some((_, document)) = self.cache.get(&key) {
            return Ok(document);
        }
        let document = document(settings, catalog, &listing)?;
        self.cache.insert(key, (listing, document.clone()));
        Ok(document)
    }
}

/// The methods of a listing. The catalog must be the one that the listing was made from.
fn document(
    settings: &Settings,
    catalog: &Catalog,
    listing: &Listing,
) -> Result<Bytes, OpenRpcError> {
    let arena = catalog.arena(ToolFormat::Rest);
    let size = listing.ordinals.iter().map(|ordinal| arena.size(*ordinal)).sum();
    within_limits(listing.len(), size)?;
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
        write_method(&arena.tool(*ordinal), &mut components, &mut out);
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

fn within_limits(methods: usize, bytes: usize) -> Result<(), OpenRpcError> {
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

/// A tool as the REST face shows it.
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
    annotations: &'a RawValue,
}

/// A parameter or a result.
#[derive(Debug, Serialize)]
pub struct ContentDescriptor<'a> {
    /// Name of the parameter.
    pub name: &'a str,
    /// Description for people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// Whether a call must have it; not said of a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Schema, without the description.
    pub schema: Value,
}

/// Appends a tool as a method object; where its bytes are not a tool, which cannot be, an empty one.
fn write_method(tool: &[u8], components: &mut Components, out: &mut Vec<u8>) {
    let Ok(tool) = serde_json::from_slice::<RestTool<'_>>(tool) else {
        return out.extend_from_slice(b"{}");
    };
    // What is too deep to be read takes no call either.
    let source = |part: &str, schema: &RawValue| {
        let schema = serde_json::from_str(schema.get()).unwrap_or_else(|_| anything());
        SourceSchema::new(format!("{}.{part}", tool.name), schema)
    };
    let input = source("params", tool.input_schema);
    let mut params = components.params(&input);
    // Whoever counts wants the order of the signature, but OpenRPC wants what is required first.
    let is_ordered = params.is_sorted_by_key(|param| param.required == Some(false));
    params.sort_by_key(|param| param.required == Some(false));
    let output = tool.output_schema.map(|schema| components.result(&source("result", schema)));
    let schema = output.unwrap_or_else(anything);
    let (summary, has_more) = summary(&tool.description);
    let method = MethodObject {
        name: &tool.name,
        summary,
        description: has_more.then_some(&tool.description),
        params,
        result: ContentDescriptor { name: "result", description: None, required: None, schema },
        param_structure: if is_ordered { "either" } else { "by-name" },
        title: tool.title.as_deref(),
        annotations: tool.annotations,
    };
    json(out, &method);
}

/// The first paragraph on one line, and whether there are more.
fn summary(description: &str) -> (String, bool) {
    let mut lines = description.trim().lines().map(str::trim);
    let first: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    (first.join(" "), lines.next().is_some())
}

/// The schema of everything.
fn anything() -> Value {
    Value::Object(serde_json::Map::new())
}
