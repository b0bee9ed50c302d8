//! `callgate call`

mod client;

use std::future::pending;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use callgate::bridge::{self, Limits, Options};
use callgate::catalog::{Catalog, Entry};
use callgate::gateway::Gateway;
use callgate::http::AuthenticateError;
use callgate::local::Local;
use callgate::model::LOCAL;
use callgate::stdio::{self, StdioOptions};
use callgate::{Caller, Secret};
use callgate_registry::Registry;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{caller_named, serve};
use crate::cli::Call;
use crate::config::{Config, TOKEN_VARIABLE};
use crate::errors::hinted;
use crate::printer::Printer;
use crate::{logging, registry};
use client::Request;

/// The gateway itself says how long a call may take.
const NO_LIMIT: Duration = Duration::from_hours(24);
/// Names that are less alike are not proposed.
const ALIKE: f64 = 0.75;
/// Of another server's tools nothing is known here.
const REMOTE: &str = "the server's list says what its tools take";
/// Somebody waits for it: a server that is not up is told of soon.
const HOLD: Duration = Duration::from_secs(2);
/// Maximum length of a message without the arguments.
const MAX_ENVELOPE: usize = 4096;

pub(super) async fn run(config: &Config, call: &Call, printer: &mut Printer) -> Result<()> {
    // What went wrong in an upstream is only in the log.
    logging::start("error", config.log_format)?;
    let arguments = arguments(&call.arguments, config.http.max_body_bytes)?;
    if let Some(url) = &call.url {
        let request = Request { name: &call.tool, arguments: &arguments };
        let reply = call_remote(config, url, request).await?;
        return show(&reply, REMOTE, call, printer);
    }
    let registry = serve::registry_of(config, registry::open(config).await?);
    let gateway = serve::builder(config, &registry, Local::default()).await?.build()?;
    let following = registry.follow(&gateway).await.context("cannot read the registry")?;
    let caller = caller(config, call, &registry).await?;
    let token = config.token.as_ref().filter(|_| call.user.is_none()).map(Secret::expose);
    let caller = gateway.gateway().with_token(caller, token);
    let catalog = gateway.gateway().catalog();
    let Some(entry) = find(&catalog, &call.tool) else {
        return Err(unknown(&registry, &catalog, &caller, &call.tool).await?);
    };
    allow(&catalog, entry, &caller)?;
    listed(gateway.gateway(), entry, &caller).await?;
    let request = Request { name: entry.name().as_str(), arguments: &arguments };
    let max_line_bytes = arguments.len() + MAX_ENVELOPE;
    let options = StdioOptions { max_line_bytes, end_timeout: NO_LIMIT };
    let (mcp, caller) = (Arc::clone(gateway.mcp()), Arc::new(caller));
    let reply = request
        .send(async |input, output| stdio::serve(mcp, caller, input, output, options).await)
        .await?;
    following.end().await;
    show(&reply, &takes(&catalog, entry), call, printer)
}

/// The arguments, on one line. They are not parsed here: the gateway is to see all of what came.
fn arguments(text: &str, most: usize) -> Result<String> {
    let mut read = String::new();
    let text = if text == "-" {
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        std::io::stdin()
            .take(limit)
            .read_to_string(&mut read)
            .context("cannot read standard input")?;
        read.as_str()
    } else {
        text
    };
    let example = "such as '{\"id\": 1}'";
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|error| hinted(format!("the arguments are not JSON: {error}"), example))?;
    if !raw.get().starts_with('{') {
        return Err(hinted("the arguments must be a JSON object", example));
    }
    // In JSON, line breaks are only between things.
    Ok(raw.get().replace(['\n', '\r'], " "))
}

async fn caller(config: &Config, call: &Call, registry: &Registry) -> Result<Caller> {
    if let Some(name) = &call.user {
        return Ok(caller_named(&registry.store().access_rows().await?, name)?);
    }
    let hint =
        "say who calls with `--user NAME`, or make a token with `callgate token create USER`";
    let token = config.token.as_ref().map(Secret::expose);
    if token.is_none() && config.http.require_auth {
        return Err(hinted("callers need a token here", hint));
    }
    registry.authenticator().caller_of(token).await.map_err(|error| match error {
        AuthenticateError::Unavailable(_) => error.into(),
        _ => {
            let problem = format!("the token in `{TOKEN_VARIABLE}` is unknown, revoked or expired");
            hinted(problem, hint)
        }
    })
}

fn find<'a>(catalog: &'a Catalog, tool: &str) -> Option<&'a Entry> {
    catalog.by_id(tool).or_else(|| catalog.by_name(tool))
}

/// Callers are not told why, those at the command line are.
fn allow(catalog: &Catalog, entry: &Entry, caller: &Caller) -> Result<()> {
    let decision = catalog.requirement(entry).decide(&caller.grants);
    if decision.is_allowed() {
        return Ok(());
    }
    Err(hinted(
        format!("{} may not call `{}`, {decision}", caller.name(), entry.id()),
        "`--user NAME` says who calls, `callgate grant` what they may do",
    ))
}

/// The same where the service has a say in what the caller sees.
async fn listed(gateway: &Gateway, entry: &Entry, caller: &Caller) -> Result<()> {
    let caller = gateway.prepare(caller.clone()).await;
    if gateway.describe(&caller, entry.id().as_str()).is_ok() {
        return Ok(());
    }
    let (name, id, upstream) = (caller.name(), entry.id(), entry.upstream());
    Err(hinted(
        format!("{name} may not call `{id}`: the service `{upstream}` does not list it for them"),
        if caller.user.is_none() {
            "`--user NAME` calls it as a user, with their credential".to_owned()
        } else {
            format!("`callgate method show {id} --caller {name}` asks the service, and says why")
        },
    ))
}

/// Why there is no such tool.
async fn unknown(
    registry: &Registry,
    catalog: &Catalog,
    caller: &Caller,
    tool: &str,
) -> Result<anyhow::Error> {
    let shown = tool.escape_debug().to_string();
    if let Some(one) = catalog.quarantined().iter().find(|one| one.id == shown) {
        return Ok(anyhow::anyhow!("method `{shown}` is quarantined: {}", one.reason));
    }
    let rows = registry.store().catalog_rows().await?.methods;
    if let Some(row) = rows.iter().find(|row| row.rpc_method == tool) {
        return Ok(if row.upstream_name() == LOCAL {
            anyhow::anyhow!("`{shown}` is defined by the program that serves it; call it there")
        } else {
            let hint = format!("`callgate method edit {shown} --exposed` makes it a tool");
            hinted(format!("method `{shown}` is not a tool"), hint)
        });
    }
    let listing = catalog.entries().iter();
    let seen = listing.filter(|entry| catalog.requirement(entry).allows(&caller.grants));
    let names = seen.flat_map(|entry| [entry.id().as_str(), entry.name().as_str()]);
    let likeness = |name: &str| strsim::jaro_winkler(name, tool);
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = match nearest.filter(|name| likeness(name) >= ALIKE) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "`callgate method list` shows the methods".to_owned(),
    };
    Ok(hinted(format!("there is no tool `{shown}`"), hint))
}

/// Calls a tool of a server that is running, through the bridge. Returns the whole reply.
async fn call_remote(config: &Config, url: &str, request: Request<'_>) -> Result<Value> {
    let limits = Limits { hold: HOLD, ..Limits::default() };
    let endpoint = url.parse().context("`--url` is not right")?;
    let mut options = Options::new(endpoint).limits(limits);
    if let Some(token) = config.token.as_ref().map(Secret::expose) {
        let context = || format!("`{TOKEN_VARIABLE}` is not right");
        options = options.token_from(TOKEN_VARIABLE, token).with_context(context)?;
    }
    // The bridge ends when nobody talks to it any more, and ends the session.
    request.send(async |input, output| bridge::run(&options, input, output, pending()).await).await
}

/// The arguments in words.
fn takes(catalog: &Catalog, entry: &Entry) -> String {
    let tool: Value = serde_json::from_slice(&catalog.tool(entry)).unwrap_or_default();
    let schema = tool.get("inputSchema");
    let member = |name: &str| schema.and_then(|schema| schema.get(name));
    let required = member("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let properties = member("properties").and_then(Value::as_object).into_iter().flatten();
    let described: Vec<String> = properties
        .map(|(name, property)| {
            let kind = match property.get("type") {
                Some(Value::String(kind)) => kind.clone(),
                Some(Value::Array(kinds)) => {
                    kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
                }
                _ => "any".to_owned(),
            };
            let optional = if is_required(name) { "" } else { ", optional" };
            format!("`{name}` ({kind}{optional})")
        })
        .collect();
    if described.is_empty() {
        return "it takes no arguments".to_owned();
    }
    format!("it takes {}; `callgate method show {}` says more", described.join(", "), entry.id())
}

fn show(reply: &Value, takes: &str, call: &Call, printer: &mut Printer) -> Result<()> {
    if let Some(error) = reply.get("error") {
        let message = error.get("message").and_then(Value::as_str);
        anyhow::bail!("{}", message.unwrap_or("the call failed"));
    }
    let result = reply.get("result").context("there was no result")?;
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let parts: Vec<String> = content
        .map(|part| match part.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => part.to_string(),
        })
        .collect();
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    if call.json {
        printer.data(result);
    } else if !is_error {
        for part in &parts {
            printer.data(part);
        }
    }
    if !is_error {
        return Ok(());
    }
    let words = parts.join("\n");
    // The gateway's own words about arguments begin so.
    if ["argument", "unknown argument"].iter().any(|start| words.starts_with(start)) {
        return Err(hinted(words, takes));
    }
    Err(anyhow::Error::msg(words))
}
