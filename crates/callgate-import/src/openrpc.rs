//! Methods from an OpenRPC document, of any version.
//!
//! Nothing outside of the document is read, except files that [`ExternalFile`] names. A method that refers to anything
//! else is refused.

mod references;

mod bundle;
mod external;

mod method;

#[cfg(test)]
mod tests;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::hinted::hinted;
use crate::source::{Refusal, Source};
use crate::text::counted;
use crate::yaml;
use references::Document;

pub use external::{ExternalFile, Reference, parse_reference};

/// How to read a document.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Upstream of the methods.
    pub upstream: &'a str,
    /// Files that external references point to.
    pub external: &'a [ExternalFile],
    /// Name of the document among the documents of the upstream. Defaults to the title of the document.
    pub name: Option<&'a str>,
}

/// Parses a document as JSON, or as YAML if it does not begin like JSON.
fn parse(text: &str) -> anyhow::Result<Value> {
    let text = text.trim_start_matches('\u{feff}');
    match text.trim_start().chars().next() {
        None | Some('{' | '[') => serde_json::from_str(text).context("the document is not JSON"),
        Some('<') => bail!("the document is HTML or XML; expected JSON or YAML"),
        Some(_) => yaml::parse(text).context("the document is not valid YAML"),
    }
}

/// Returns the version of OpenRPC. In YAML, an unquoted `1.0` is a number.
fn version(document: &Value) -> anyhow::Result<String> {
    if let Some(version @ (Value::String(_) | Value::Number(_))) = document.get("openrpc") {
        return Ok(text_or_number(version));
    }
    if is_openapi(document) {
        return Err(hinted(
            "the document is an OpenAPI document, which describes HTTP resources and no JSON-RPC methods",
            "import an OpenRPC document of the service, or write a manifest for `callgate import manifest FILE`",
        ));
    }
    Err(hinted(
        "the document has no `openrpc` with a version",
        "an OpenRPC document begins with `{\"openrpc\": \"1.3.2\", \"info\": …`",
    ))
}

fn is_openapi(document: &Value) -> bool {
    ["openapi", "swagger"].iter().any(|key| document.get(key).is_some())
}

/// Returns a text, or a number as text.
fn text_or_number(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Checks that the reply of a service is an OpenRPC document.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "openrpc")]
        _version: String,
    }
    let text = text.trim_start_matches('\u{feff}');
    if serde_json::from_str::<Head>(text).is_ok() {
        return Ok(());
    }
    let document = parse(text).unwrap_or_default();
    // The reader reports an OpenAPI document with an explanation.
    if version(&document).is_ok() || is_openapi(&document) {
        return Ok(());
    }
    Err(if serde_json::from_str::<IgnoredAny>(text).is_ok() {
        "the reply is JSON, but not an OpenRPC document"
    } else {
        "the reply is not JSON"
    })
}

/// Reads a document.
pub fn read(text: &str, options: ReadOptions<'_>) -> anyhow::Result<Source> {
    let mut document = parse(text)?;
    let unused = external::embed(&mut document, options.external);
    let version = version(&document)?;
    let methods = match document.get("methods") {
        Some(Value::Array(methods)) => methods,
        Some(other) => bail!("`methods`: expected a list, found {}", type_name(other)),
        None => bail!("the document has no `methods`"),
    };
    let info = |key: &str| document.pointer(&format!("/info/{key}")).map(text_or_number);
    let title = options.name.map(ToOwned::to_owned).or_else(|| info("title"));
    let title = title.unwrap_or_else(|| "untitled".to_owned());
    let mut source = Source::new(format!("OpenRPC document `{title}`"), options.upstream);
    source.notes.push(format!(
        "version {}, {}, OpenRPC {version}",
        info("version").as_deref().unwrap_or("unknown"),
        counted(methods.len(), "method")
    ));
    source.notes.extend(servers(&document));
    let note = |name: &str| format!("note: no `$ref` refers to `{name}` of `--reference`");
    source.notes.extend(unused.into_iter().map(note));
    let document = Document(&document);
    for (number, method) in methods.iter().enumerate() {
        // This method is the service's own description, which Callgate replaces with one of its own.
        if document.name(method).as_deref() == Some("rpc.discover") {
            continue;
        }
        let proposal = document.read(method).map(|(proposal, note)| {
            source.notes.extend(note);
            proposal
        });
        source.add(proposal.map_err(|reason| {
            let id = document.name(method).unwrap_or_else(|| format!("methods[{number}]"));
            Refusal::new(id, format!("{reason:#}"))
        }))?;
    }
    Ok(source)
}

fn servers(document: &Value) -> Vec<String> {
    let servers = document.get("servers").and_then(Value::as_array).into_iter().flatten();
    let server = |server: &Value| {
        let text = |key: &str| server.get(key).and_then(Value::as_str);
        let name = text("name").or_else(|| text("summary"));
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        Some(format!("server: {}{name}", text("url")?))
    };
    servers.filter_map(server).collect()
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
