//! Methods that a service lists by `system.listMethods`.
//!
//! `system.methodSignature` and `system.methodHelp` describe them, if the service has these. The convention
//! comes from XML-RPC: parameters are positional and have no names.

mod signature;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use callgate::forward::QueryError;
use callgate::jsonrpc::INVALID_PARAMS;
use callgate::model::ParamStyle;
use callgate_registry::MethodRow;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::hint::hinted;
use crate::limits::MAX_METHODS;
use crate::service::{Attempts, Service, is_unknown_method, shortened_message};
use crate::source::{Proposal, Refusal, Source};

const LIST: &str = "system.listMethods";
const SIGNATURE: &str = "system.methodSignature";
const HELP: &str = "system.methodHelp";

/// Methods that describe the other methods, or call them without an access check.
const NEVER_TOOLS: [&str; 7] = [
    LIST,
    SIGNATURE,
    HELP,
    "system.describe",
    "system.getCapabilities",
    "system.listNotifications",
    "system.multicall",
];

/// Maximum length of a help text in bytes; the rest is cut off.
const MAX_HELP: usize = 16 * 1024;
/// Maximum time for all requests together.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// Reads the methods of a service; `None` if it does not list them.
pub(crate) async fn read(
    service: &Service,
    upstream: &str,
    attempts: &mut Attempts,
) -> anyhow::Result<Option<Source>> {
    let Some(names) = names(service, attempts).await? else { return Ok(None) };
    let mut source = Source {
        notes: vec![format!("{} methods listed", names.len())],
        yields_to: &["OpenRPC "],
        ..Source::new("introspection", upstream)
    };
    match timeout(TIME_LIMIT, describe(service, names, &mut source)).await {
        Ok(described) => described.map(|()| Some(source)),
        Err(_) => Err(hinted(
            format!("{} takes more than {TIME_LIMIT:?} to describe its methods", service.target()),
            "write a manifest and import it",
        )),
    }
}

async fn names(service: &Service, attempts: &mut Attempts) -> anyhow::Result<Option<Vec<String>>> {
    let list = service.ask(LIST, &[]).await.map(|list| list.get().to_owned());
    let read =
        |list: String| serde_json::from_str(&list).map_err(|_| "the reply is not a list of names");
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

async fn describe(
    service: &Service,
    names: Vec<String>,
    source: &mut Source,
) -> anyhow::Result<()> {
    let has = |method: &str| names.iter().any(|name| name == method);
    // Some services do not list methods of `system.` that they have.
    let (has_signatures, has_help) = if has(LIST) {
        (has(SIGNATURE), has(HELP))
    } else {
        (answers(service, SIGNATURE, &names).await?, answers(service, HELP, &names).await?)
    };
    for name in names {
        if NEVER_TOOLS.contains(&name.as_str()) {
            let reason = "it describes or calls other methods, and is never a tool";
            source.add(Err(Refusal::new(name, reason)))?;
            continue;
        }
        let signature =
            if has_signatures { ask_about(service, SIGNATURE, &name).await? } else { None };
        let help = if has_help { ask_about(service, HELP, &name).await? } else { None };
        let row = MethodRow {
            rpc_method: name,
            description: help.and_then(help_text),
            exposed: Some("1".to_owned()),
            params_by: Some(ParamStyle::Positional.as_str().to_owned()),
            input_schema: Some(signature::input_schema(signature.as_ref()).to_string()),
            ..MethodRow::default()
        };
        source.add(Ok(Proposal::new(row, None)))?;
    }
    Ok(())
}

/// Returns `true` if the service has a method that it may not list.
async fn answers(service: &Service, method: &str, names: &[String]) -> anyhow::Result<bool> {
    match names.first() {
        Some(name) => Ok(ask_about(service, method, name).await?.is_some()),
        None => Ok(false),
    }
}

/// Calls `method` with a method's name; `None` if the service has no information about it.
async fn ask_about(service: &Service, method: &str, name: &str) -> anyhow::Result<Option<Value>> {
    match service.ask(method, &[json!(name)]).await {
        Ok(reply) => Ok(serde_json::from_str(reply.get()).ok()),
        Err(QueryError::Rpc(error))
            if error.code == INVALID_PARAMS || is_unknown_method(&error) =>
        {
            Ok(None)
        }
        // A temporary failure must not remove a known description.
        Err(QueryError::Rpc(error)) => Err(hinted(
            format!(
                "{}: {}",
                service.target(),
                shortened_message(&format!("{method} of `{name}`: {error}"))
            ),
            "try again; if the error persists, write a manifest and import it",
        )),
        Err(error @ QueryError::Failed { .. }) => {
            bail!("{}: {method} of `{name}`: {error}", service.target())
        }
    }
}

fn help_text(reply: Value) -> Option<String> {
    let Value::String(mut help) = reply else { return None };
    help.truncate(help.floor_char_boundary(MAX_HELP));
    Some(help.trim().to_owned()).filter(|help| !help.is_empty())
}
