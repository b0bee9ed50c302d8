//! Methods that a service lists with `system.listMethods`.
//!
//! If the service has `system.methodSignature` and `system.methodHelp`, these describe the methods. The convention
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

use crate::hinted::hinted;
use crate::limits::MAX_METHODS;
use crate::service::{Attempts, Service, is_unknown_method, shortened_message};
use crate::source::{Proposal, Refusal, Source};
use crate::text::counted;

const LIST: &str = "system.listMethods";
const SIGNATURE: &str = "system.methodSignature";
const HELP: &str = "system.methodHelp";

/// Methods that are never tools: they describe other methods, or call them without an access check.
const NEVER_TOOLS: [&str; 7] = [
    LIST,
    SIGNATURE,
    HELP,
    "system.describe",
    "system.getCapabilities",
    "system.listNotifications",
    "system.multicall",
];

/// Maximum length of a help text, in bytes. The rest is cut off.
const MAX_HELP: usize = 16 * 1024;
/// Maximum time for all requests together.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// Reads the methods of a service. Returns `None` if the service does not list them.
pub(crate) async fn read(
    service: &Service,
    upstream: &str,
    attempts: &mut Attempts,
) -> anyhow::Result<Option<Source>> {
    let Some(names) = names(service, attempts).await? else { return Ok(None) };
    let mut source = Source {
        notes: vec![format!("{} listed", counted(names.len(), "method"))],
        preferred_sources: &["OpenRPC "],
        ..Source::new("introspection", upstream)
    };
    match timeout(TIME_LIMIT, describe(service, names, &mut source)).await {
        Ok(described) => described.map(|()| Some(source)),
        Err(_) => Err(hinted(
            format!(
                "{} takes more than {} minutes to describe its methods",
                service.target(),
                TIME_LIMIT.as_secs() / 60
            ),
            "write a manifest and import it",
        )),
    }
}

async fn names(service: &Service, attempts: &mut Attempts) -> anyhow::Result<Option<Vec<String>>> {
    let parse = |list: String| {
        serde_json::from_str::<Vec<String>>(&list).map_err(|_| "the reply is not a list of names")
    };
    let Some(mut names) = attempts.request(service, LIST, parse).await? else { return Ok(None) };
    if names.len() > MAX_METHODS {
        bail!("{} has {} methods, more than {MAX_METHODS}", service.target(), names.len());
    }
    let mut unique = BTreeSet::new();
    names.retain(|name| unique.insert(name.clone()));
    Ok(Some(names))
}

async fn describe(
    service: &Service,
    names: Vec<String>,
    source: &mut Source,
) -> anyhow::Result<()> {
    let mut signatures = Describer::new(SIGNATURE, &names);
    let mut help = Describer::new(HELP, &names);
    for name in names {
        if NEVER_TOOLS.contains(&name.as_str()) {
            let reason = "it describes or calls other methods, and is never a tool";
            source.add(Err(Refusal::new(name, reason)))?;
            continue;
        }
        let signature = signatures.describe(service, &name).await?;
        let text = help.describe(service, &name).await?;
        let mut unknown = Vec::new();
        if signature.is_refused {
            unknown.push("input_schema");
        }
        if text.is_refused {
            // The safety is guessed from the description.
            unknown.extend(["description", "safety"]);
        }
        let row = MethodRow {
            rpc_method: name,
            description: text.reply.and_then(help_text),
            exposed: Some("1".to_owned()),
            params_by: Some(ParamStyle::Positional.as_str().to_owned()),
            input_schema: Some(signature::input_schema(signature.reply.as_ref()).to_string()),
            ..MethodRow::default()
        };
        source.add(Ok(Proposal { unknown, ..Proposal::new(row, None) }))?;
    }
    source.notes.extend(signatures.note("signature"));
    source.notes.extend(help.note("help"));
    Ok(())
}

/// A method that describes other methods.
#[derive(Debug)]
struct Describer {
    method: &'static str,
    /// Whether the service lists this method. Some services have methods of `system.` that they do not list.
    is_listed: bool,
    /// Whether the service may have this method.
    is_offered: bool,
    described: usize,
    refused: usize,
    /// Reason of the first refusal.
    refusal: String,
}

/// A description of a method.
#[derive(Debug, Default)]
struct MethodDescription {
    /// The reply; `None` if the service refused the request or has no information about the method.
    reply: Option<Value>,
    is_refused: bool,
}

impl Describer {
    fn new(method: &'static str, names: &[String]) -> Self {
        let has = |method: &str| names.iter().any(|name| name == method);
        Self {
            method,
            is_listed: has(method),
            is_offered: has(method) || !has(LIST),
            described: 0,
            refused: 0,
            refusal: String::new(),
        }
    }

    /// Requests a description. If the service refused the first request, does not send further ones.
    async fn describe(
        &mut self,
        service: &Service,
        name: &str,
    ) -> anyhow::Result<MethodDescription> {
        if !self.is_offered {
            return Ok(MethodDescription::default());
        }
        if self.refused > 0 && self.described == 0 {
            self.refused += 1;
            return Ok(MethodDescription { is_refused: true, ..MethodDescription::default() });
        }
        match service.call(self.method, &[json!(name)]).await {
            Ok(reply) => {
                self.described += 1;
                let reply = serde_json::from_str(reply.get()).ok();
                Ok(MethodDescription { reply, is_refused: false })
            }
            Err(QueryError::Rpc(error))
                if error.code == INVALID_PARAMS || is_unknown_method(&error) =>
            {
                self.is_offered = self.is_listed || self.described > 0;
                Ok(MethodDescription::default())
            }
            Err(error @ (QueryError::Rpc(_) | QueryError::Failed { status: Some(_), .. })) => {
                if self.refused == 0 {
                    self.refusal = shortened_message(&error.to_string());
                }
                self.refused += 1;
                Ok(MethodDescription { is_refused: true, ..MethodDescription::default() })
            }
            Err(error) => bail!("{}: {} of `{name}`: {error}", service.target(), self.method),
        }
    }

    fn note(&self, subject: &str) -> Option<String> {
        (self.refused > 0).then(|| {
            format!(
                "note: the service refused `{}` for {}: {}. New methods are imported without {subject}; \
                 methods that were imported before keep their {subject}",
                self.method,
                counted(self.refused, "method"),
                self.refusal
            )
        })
    }
}

fn help_text(reply: Value) -> Option<String> {
    let Value::String(mut help) = reply else { return None };
    help.truncate(help.floor_char_boundary(MAX_HELP));
    Some(help.trim().to_owned()).filter(|help| !help.is_empty())
}
