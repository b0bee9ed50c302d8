//! Methods that a service lists by `system.listMethods`.
//!
//! `system.methodSignature` and `system.methodHelp` describe them, if the service has these. The convention
//! comes from XML-RPC: parameters are positional and have no names.

mod signature;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use callgate::forward::AskError;
use callgate::jsonrpc::{INVALID_PARAMS, RpcError};
use callgate::model::ParamStyle;
use callgate_registry::MethodRow;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::hint::hinted;
use crate::service::{Attempts, Service, is_unknown_method, shortened_message};
use crate::source::{Proposal, Refusal, Source};

const LIST: &str = "system.listMethods";
const SIGNATURE: &str = "system.methodSignature";
const HELP: &str = "system.methodHelp";

/// What describes the other methods, or calls them without asking whether one may.
const NEVER_TOOLS: [&str; 7] = [
    LIST,
    SIGNATURE,
    HELP,
    "system.describe",
    "system.getCapabilities",
    "system.listNotifications",
    "system.multicall",
];

/// Maximum number of methods of a service.
const MAX_METHODS: usize = 10_000;
/// Maximum length of a help text in bytes; the rest is cut off.
const MAX_HELP: usize = 16 * 1024;
/// Maximum time for all questions together.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// A method, and what the service says of it.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    name: String,
    signature: Option<Value>,
    help: Option<String>,
}

/// Asks a service for its methods; `None` where it lists none.
pub(crate) async fn ask(
    service: &Service,
    attempts: &mut Attempts,
) -> anyhow::Result<Option<Vec<Listed>>> {
    let Some(names) = names(service, attempts).await? else { return Ok(None) };
    let asked = timeout(TIME_LIMIT, describe(service, names)).await;
    let Ok(described) = asked else {
        return Err(hinted(
            format!("{} takes more than {TIME_LIMIT:?} to describe its methods", service.target()),
            "write a manifest, and import that",
        ));
    };
    described.map(Some)
}

async fn names(service: &Service, attempts: &mut Attempts) -> anyhow::Result<Option<Vec<String>>> {
    let list = service.ask(LIST, &[]).await.map(|list| list.get().to_owned());
    let read =
        |list: String| serde_json::from_str(&list).map_err(|_| "the answer is no list of names");
    let what = "POST system.listMethods";
    let names: Option<Vec<String>> = attempts.read(service.target(), what, list, None, read)?;
    let Some(mut names) = names else { return Ok(None) };
    if names.len() > MAX_METHODS {
        bail!("{} has {} methods, more than {MAX_METHODS}", service.target(), names.len());
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(Some(names))
}

async fn describe(service: &Service, names: Vec<String>) -> anyhow::Result<Vec<Listed>> {
    let has = |method: &str| names.iter().any(|name| name == method);
    // Some list none of what begins with `system.`, and have it all the same.
    let (signatures, helps) = if has(LIST) {
        (has(SIGNATURE), has(HELP))
    } else {
        (answers(service, SIGNATURE, &names).await?, answers(service, HELP, &names).await?)
    };
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let mut listed = Listed { name, ..Listed::default() };
        if !NEVER_TOOLS.contains(&listed.name.as_str()) {
            if signatures {
                listed.signature = said(service, SIGNATURE, &listed.name).await?;
            }
            if helps {
                listed.help = said(service, HELP, &listed.name).await?.and_then(help);
            }
        }
        all.push(listed);
    }
    Ok(all)
}

/// Whether a method is there that is not listed.
async fn answers(service: &Service, method: &str, names: &[String]) -> anyhow::Result<bool> {
    match names.first() {
        Some(name) => Ok(said(service, method, name).await?.is_some()),
        None => Ok(false),
    }
}

/// What a service says of a method; `None` where it says that it does not know.
async fn said(service: &Service, method: &str, of: &str) -> anyhow::Result<Option<Value>> {
    match service.ask(method, &[json!(of)]).await {
        Ok(said) => Ok(serde_json::from_str(said.get()).ok()),
        Err(AskError::Rpc(error)) if is_unknown(&error) => Ok(None),
        // Whatever is the matter may pass, and what was known of the method would be gone.
        Err(AskError::Rpc(error)) => Err(hinted(
            format!(
                "{}: {}",
                service.target(),
                shortened_message(&format!("{method} of `{of}`: {error}"))
            ),
            "try again; if it always says so, write a manifest, and import that",
        )),
        Err(error @ AskError::Failed { .. }) => {
            bail!("{}: {method} of `{of}`: {error}", service.target())
        }
    }
}

/// Returns `true` if a service says that it has no such method, or nothing to say about one.
fn is_unknown(error: &RpcError) -> bool {
    error.code == INVALID_PARAMS || is_unknown_method(error)
}

fn help(said: Value) -> Option<String> {
    let Value::String(mut help) = said else { return None };
    if let Some((at, _)) = help.char_indices().find(|(at, _)| *at >= MAX_HELP) {
        help.truncate(at);
    }
    Some(help.trim().to_owned()).filter(|help| !help.is_empty())
}

/// Makes methods of what a service said.
pub(crate) fn read(listed: Vec<Listed>, upstream: &str) -> Source {
    let mut source = Source {
        notes: vec![format!("it lists {} methods", listed.len())],
        yields_to: &["OpenRPC "],
        ..Source::new("introspection", upstream)
    };
    for Listed { name, signature, help } in listed {
        if NEVER_TOOLS.contains(&name.as_str()) {
            let reason = "it is about the other methods, and never a tool";
            source.add(Err(Refusal::new(name, reason)));
            continue;
        }
        let row = MethodRow {
            rpc_method: name,
            description: help,
            exposed: Some("1".to_owned()),
            params_by: Some(ParamStyle::Positional.as_str().to_owned()),
            input_schema: Some(signature::input_schema(signature.as_ref()).to_string()),
            ..MethodRow::default()
        };
        source.add(Ok(Proposal::new(row, None)));
    }
    source
}
