//! `callgate try`

use callgate::catalog::Catalog;
use callgate::forward::{Forward, Target};
use callgate::{Callgate, http};
use callgate_import::openrpc::ReadOptions;
use callgate_import::{
    Added, Attempts, Description, ImportOptions, Plan, Refusal, Service, Source, drupal,
};
use callgate_registry::{Assembly, CatalogRows, DEFAULT_UPSTREAM, MethodRow, assemble};
use serde_json::json;

use super::client_configuration::client_configuration;
use super::listen;
use crate::cli::TryArgs;
use crate::commands::{ServiceOptions, parse_url};
use crate::config::Config;
use crate::error_hints::hinted;
use crate::logging;
use crate::printer::{self, one_line};

/// Maximum number of tools that are printed.
const MAX_SHOWN: usize = 200;
/// Maximum number of characters of a tool's description that are printed.
const MAX_WIDTH: usize = 80;

/// A service, its methods, and the description from which they were read.
struct DescribedService {
    service: Service,
    source: Source,
    description: Description,
}

pub(crate) async fn run(config: &Config, args: &TryArgs) -> anyhow::Result<()> {
    logging::start(&config.log, config.log_format)?;
    if !config.listen.ip().is_loopback() {
        return Err(hinted(
            format!("the listen address {} is not a loopback address", config.listen),
            "`callgate try` serves only this machine: listen on 127.0.0.1, or import the methods and use `callgate serve`",
        ));
    }
    let target = parse_url(&args.url)?;
    let mut described = find(config, args, target).await?;
    let options = ImportOptions::default();
    described.source.apply_options(&options);
    let plan = Plan::new(&described.source, &CatalogRows::default(), &[], &options);
    described.service.options.trust_errors = true;
    let forward = Forward::new(DEFAULT_UPSTREAM, described.service.options.clone())?;
    let options = http::HttpOptions { require_auth: false, ..config.http.clone() };
    let gateway = Callgate::builder()
        .upstream(DEFAULT_UPSTREAM, forward)
        .call_timeout(config.call_timeout)
        .http_options(options)
        .build()?;
    let catalog = catalog(&plan.added);
    if catalog.is_empty() {
        let (target, (mechanism, command)) =
            (described.service.target(), described.description.name_and_arguments());
        return Err(hinted(
            format!(
                "{target} describes its methods with {mechanism}, but none of them can be served as a tool"
            ),
            format!("`callgate import {command} {target} --dry-run` shows why"),
        ));
    }
    let listener = listen(config.listen).await?;
    let shutdown = http::shutdown_signal();
    let address = listener.local_addr()?;
    let url = format!("http://{address}");
    if args.json {
        let line = json!({
            "address": address.to_string(),
            "url": url,
            "mcp": format!("{url}/mcp"),
            "service": described.service.target().to_string(),
            "found_by": described.description.name_and_arguments().0,
            "tools": catalog.len(),
            "hidden": plan.hidden.len(),
            "refused": plan.refused.len(),
        });
        printer::json(line);
    } else {
        print_tools(&described, &catalog, &plan);
        print_next_steps(&described, &args.service, &url)?;
    }
    gateway.gateway().set_catalog(std::sync::Arc::new(catalog));
    gateway.serve_on(listener, shutdown).await?;
    Ok(())
}

/// Reads the methods from the first kind of description that the service has.
async fn find(config: &Config, args: &TryArgs, target: Target) -> anyhow::Result<DescribedService> {
    let mut attempts = Attempts::searching();
    let options = ReadOptions { upstream: DEFAULT_UPSTREAM, external: &[], name: None };
    let service = args.service.service(config, target)?;
    let http_only = (!service.target().is_websocket()).then_some(Description::Document);
    let any_transport = [Description::Discover, Description::Introspection];
    for description in any_transport.into_iter().chain(http_only) {
        if attempts.is_page() && description == Description::Introspection {
            continue;
        }
        if let Some(source) = description.read(&service, options, &mut attempts).await? {
            return Ok(DescribedService { service, source, description });
        }
    }
    if http_only.is_some() {
        let site = drupal::endpoint(service.target())?;
        let mut site = args.service.service(config, site)?;
        let module = args.from;
        let description = Description::Drupal(module);
        if let Some(source) = description.read(&site, options, &mut attempts).await? {
            drupal::set_options(&mut site, module).await?;
            return Ok(DescribedService { service: site, source, description });
        }
    }
    let (problem, hint) = if attempts.is_page() {
        (
            "does not respond with JSON-RPC",
            "check the path of the URL, such as `/rpc` or `/jsonrpc`; for Drupal without `jsonrpc_mcp`, \
             `--from discovery` reads all methods",
        )
    } else {
        (
            "does not describe its methods",
            "write a manifest for `callgate import manifest FILE`; for PHP, `callgate import php DIR` reads \
             the source; for Drupal without `jsonrpc_mcp`, `--from discovery` reads all methods",
        )
    };
    Err(attempts.into_error(&format!("{} {problem}", service.target()), hint))
}

/// Builds the catalog without sections, because there are no users, and calls use the operator's own credential.
fn catalog(added: &[Added]) -> Catalog {
    let methods =
        added.iter().map(|added| MethodRow { sections: None, ..added.row.clone() }).collect();
    let rows = CatalogRows { methods, ..CatalogRows::default() };
    let assembly = Assembly { upstreams: vec![DEFAULT_UPSTREAM], ..Assembly::default() };
    assemble(&rows, assembly).catalog
}

fn print_tools(described: &DescribedService, catalog: &Catalog, plan: &Plan) {
    let target = described.service.target();
    printer::data(format_args!(
        "{target} describes its methods with {}",
        described.description.name_and_arguments().0
    ));
    let rows = catalog.entries().take(MAX_SHOWN).map(|entry| {
        let method = plan.added.iter().find(|added| added.row.rpc_method == entry.id().as_str());
        let safety = entry.safety().as_str();
        let safety = match method {
            Some(added) if added.row.safety_or_guess().1 => format!("{safety} (guessed)"),
            Some(added) if added.row.safety.is_none() => format!("{safety} (unknown)"),
            _ => safety.to_owned(),
        };
        let summary = method.and_then(|added| added.row.description.as_deref()).unwrap_or_default();
        let summary = summary.lines().next().unwrap_or_default().chars().take(MAX_WIDTH).collect();
        vec![entry.name().to_string(), safety, summary]
    });
    printer::table(&["TOOL", "SAFETY", "DESCRIPTION"], &rows.collect::<Vec<_>>());
    if let Some(rest) = catalog.len().checked_sub(MAX_SHOWN).filter(|rest| *rest > 0) {
        printer::data(format_args!("… and {rest} more"));
    }
    let line = |state: &str, id: &str, reason: &str| {
        printer::data(format_args!("{state:<8} {}: {}", one_line(id), one_line(reason)));
    };
    plan.hidden.iter().for_each(|Refusal { id, reason, .. }| line("hidden", id, reason));
    plan.refused.iter().for_each(|Refusal { id, reason, .. }| line("refused", id, reason));
    for quarantined in catalog.quarantined() {
        line("refused", &quarantined.id, &quarantined.reason.to_string());
    }
}

fn print_next_steps(
    described: &DescribedService,
    service: &ServiceOptions,
    url: &str,
) -> anyhow::Result<()> {
    printer::data(format_args!("\nMCP is at {url}/mcp, for this machine, until Ctrl-C"));
    printer::data("\nPaste into Claude Desktop's configuration:");
    printer::data(client_configuration("callgate-try", url, None)?);
    let target = described.service.target().to_string();
    let mut commands = service.setup_commands(DEFAULT_UPSTREAM, &target)?;
    commands
        .push(format!("callgate import {} {target}", described.description.name_and_arguments().1));
    commands.push("callgate serve".to_owned());
    printer::message(
        "\nTo keep these tools, with users and access control, run in an empty directory:",
    );
    for command in commands {
        printer::message(format_args!("  {command}"));
    }
    if described.service.target().has_query() {
        printer::message("Add the query to the URL: the query is not shown here");
    }
    Ok(())
}
