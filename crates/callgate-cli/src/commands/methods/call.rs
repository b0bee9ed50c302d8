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
use callgate::local::Local;
use callgate::model::LOCAL;
use callgate::stdio::{self, StdioOptions};
use callgate::upstream::CallError;
use callgate::{Caller, Secret};
use callgate_registry::Registry;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::CallArgs;
use crate::commands::caller_named;
use crate::commands::serve::{self, TokenCaller};
use crate::config::{Config, TOKEN_VARIABLE};
use crate::error_hints::{hinted, nearest};
use crate::{logging, printer, registry};
use client::ToolCall;

/// Maximum time to finish the call after the input has ended. It is long, because calls have a separate time limit.
const END_TIMEOUT: Duration = Duration::from_hours(24);
/// Time for which the bridge waits for a server that does not answer. It is shorter than the default of `callgate
/// bridge`, because a person waits.
const FIRST_REQUEST_WAIT: Duration = Duration::from_secs(2);
/// Maximum length of a message without its arguments, in bytes.
const MAX_ENVELOPE: usize = 4096;

pub(crate) async fn run(config: &Config, args: &CallArgs) -> Result<()> {
    // The cause of an upstream's failure is reported only in the log.
    logging::start("error", config.log_format)?;
    let arguments = arguments(&args.arguments, config.http.max_body_bytes)?;
    if let Some(url) = &args.url {
        let call = ToolCall { name: &args.tool, arguments: arguments.get() };
        let reply = call_remote(config, url, call).await?;
        return print(&reply, args.json).map_err(anyhow::Error::msg);
    }
    let registry = serve::build_registry(config, registry::open(config).await?);
    let gateway = serve::builder(config, &registry, Local::default()).await?.build()?;
    let following = registry.follow(&gateway).await.context("cannot read the registry")?;
    let caller = match &args.user {
        Some(name) => caller_named(&registry.store().access_rows().await?, name)?,
        None => {
            let hint = "use `--user USER`, or create a token with `callgate token add USER`";
            TokenCaller::new(config, &registry, &gateway, hint).caller().await?
        }
    };
    let catalog = gateway.gateway().catalog();
    let found = catalog.by_id(&args.tool).or_else(|| catalog.by_name(&args.tool));
    let Some(entry) = found else {
        return Err(unknown_tool(&registry, &catalog, &caller, &args.tool).await?);
    };
    check_access(&catalog, entry, &caller)?;
    let caller = check_visibility(gateway.gateway(), entry, caller).await?;
    let call = ToolCall { name: entry.name().as_str(), arguments: arguments.get() };
    let max_line_bytes = arguments.get().len() + MAX_ENVELOPE;
    let options = StdioOptions { max_line_bytes, end_timeout: END_TIMEOUT };
    let (mcp, identity) = (Arc::clone(gateway.mcp()), Arc::new(caller.clone()));
    let reply = call
        .send(async |input, output| stdio::serve(mcp, identity, input, output, options).await)
        .await?;
    following.end().await;
    print(&reply, args.json).map_err(|message| {
        let id = entry.id().as_str();
        match gateway.gateway().check_arguments(&caller, id, Some(&arguments)) {
            Err(CallError::Arguments(_)) => hinted(message, describe_arguments(&catalog, entry)),
            _ => anyhow::Error::msg(message),
        }
    })
}

/// Returns the arguments as JSON on one line. Keeps their text, so that the arguments are checked
/// exactly as they were given.
fn arguments(text: &str, max_bytes: usize) -> Result<Box<RawValue>> {
    let mut input = String::new();
    let text = if text == "-" {
        let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        let read = std::io::stdin().take(limit).read_to_string(&mut input);
        read.context("cannot read standard input")?;
        input.as_str()
    } else {
        text
    };
    let example = "example: '{\"id\": 1}'";
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|error| hinted(format!("the arguments are not JSON: {error}"), example))?;
    if !raw.get().starts_with('{') {
        return Err(hinted("the arguments must be a JSON object", example));
    }
    // Valid JSON has line breaks only between tokens.
    Ok(RawValue::from_string(raw.get().replace(['\n', '\r'], " "))?)
}

/// Checks the caller's grants. If access is denied, reports the reason, which clients do not get.
fn check_access(catalog: &Catalog, entry: &Entry, caller: &Caller) -> Result<()> {
    let decision = catalog.requirement(entry).decide(&caller.grants);
    if decision.is_allowed() {
        return Ok(());
    }
    Err(hinted(
        format!("access of {} to `{}` is {decision}", caller.name(), entry.id()),
        "use `--user USER` to call as another user, or `callgate grant set` to change access",
    ))
}

/// Checks that the upstream lists the method for the caller, if the upstream restricts which methods callers see.
async fn check_visibility(gateway: &Gateway, entry: &Entry, caller: Caller) -> Result<Caller> {
    let caller = gateway.prepare(caller).await;
    if gateway.describe(&caller, entry.id().as_str()).is_ok() {
        return Ok(caller);
    }
    let (name, id, upstream) = (caller.name(), entry.id(), entry.upstream());
    Err(hinted(
        format!(
            "{name} may not call `{id}`: the service `{upstream}` does not list the method for this caller"
        ),
        if caller.user.is_none() {
            "use `--user USER` to call with the credential of a user".to_owned()
        } else {
            format!("`callgate method show {id} --user {name}` asks the service for the reason")
        },
    ))
}

async fn unknown_tool(
    registry: &Registry,
    catalog: &Catalog,
    caller: &Caller,
    tool: &str,
) -> Result<anyhow::Error> {
    let escaped_name = tool.escape_debug().to_string();
    if let Some(method) = catalog.quarantined().iter().find(|method| method.id == escaped_name) {
        return Ok(anyhow::anyhow!("method `{escaped_name}` is quarantined: {}", method.reason));
    }
    let rows = registry.store().catalog_rows().await?.methods;
    if let Some(row) = rows.iter().find(|row| row.rpc_method == tool) {
        return Ok(if row.upstream_name() == LOCAL {
            anyhow::anyhow!(
                "`{escaped_name}` is defined by the program that serves it; call it with `--url` and the URL of that program"
            )
        } else {
            let hint = format!("`callgate method set {escaped_name} --exposed` makes it a tool");
            hinted(format!("method `{escaped_name}` is not a tool"), hint)
        });
    }
    let entries = catalog.entries();
    let allowed = entries.filter(|entry| catalog.requirement(entry).allows(&caller.grants));
    let names = allowed.flat_map(|entry| [entry.id().as_str(), entry.name().as_str()]);
    let hint = match nearest(tool, names) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "`callgate method list` shows the methods".to_owned(),
    };
    Ok(hinted(format!("there is no tool `{escaped_name}`"), hint))
}

/// Calls a tool of a running server through the bridge. Returns the JSON-RPC reply.
async fn call_remote(config: &Config, url: &str, call: ToolCall<'_>) -> Result<Value> {
    let limits = Limits { first_request_wait: FIRST_REQUEST_WAIT, ..Limits::default() };
    let endpoint = url.parse().context("`--url` is not valid")?;
    let mut options = Options::new(endpoint).limits(limits);
    if let Some(token) = config.token.as_ref().map(Secret::expose) {
        let context = || format!("`{TOKEN_VARIABLE}` is not valid");
        options = options.token_from(TOKEN_VARIABLE, token).with_context(context)?;
    }
    // When its input ends, the bridge ends its session and stops.
    call.send(async |input, output| bridge::run(&options, input, output, pending()).await).await
}

/// Describes the arguments of a tool as one line.
fn describe_arguments(catalog: &Catalog, entry: &Entry) -> String {
    let tool: Value = serde_json::from_slice(&catalog.tool(entry)).unwrap_or_default();
    let schema = tool.get("inputSchema");
    let member = |name: &str| schema.and_then(|schema| schema.get(name));
    let required = member("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    let properties = member("properties").and_then(Value::as_object).into_iter().flatten();
    let descriptions: Vec<String> = properties
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
    if descriptions.is_empty() {
        return "the tool takes no arguments".to_owned();
    }
    format!(
        "the tool takes {}; `callgate method show {}` shows its schema",
        descriptions.join(", "),
        entry.id()
    )
}

/// Prints the result of a call, or returns the message of its error.
fn print(reply: &Value, as_json: bool) -> Result<(), String> {
    if let Some(error) = reply.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("the call failed");
        // The prefix shows that the bridge sent the request, which does not matter to the user.
        return Err(message.strip_prefix("callgate bridge: ").unwrap_or(message).to_owned());
    }
    let result = reply.get("result").ok_or("the reply has no result")?;
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let parts: Vec<String> = content
        .map(|part| match part.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => part.to_string(),
        })
        .collect();
    if as_json {
        printer::json(result);
    }
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(parts.join("\n"));
    }
    if !as_json {
        for part in &parts {
            printer::exact(part);
        }
    }
    Ok(())
}
