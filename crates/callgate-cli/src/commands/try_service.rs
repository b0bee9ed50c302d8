//! `callgate try`: a service as tools, with no configuration and nothing written.

use anyhow::Context as _;
use callgate::catalog::Catalog;
use callgate::forward::{Forward, Target};
use callgate::model::Prefix;
use callgate::{Callgate, http};
use callgate_import::openrpc::{DocumentRequest, ReadOptions};
use callgate_import::{
    Added, Attempts, Description, ImportOptions, Plan, Refusal, Service, Source, drupal,
};
use callgate_registry::{Assembly, CatalogRows, DEFAULT_UPSTREAM, Exposure, MethodRow, assemble};
use serde_json::json;
use tokio::net::TcpListener;

use super::serve::pasted;
use super::service::ServiceOptions;
use crate::cli::Try;
use crate::config::Config;
use crate::errors::hinted;
use crate::logging;
use crate::printer::{Printer, one_line};

/// So many tools are shown.
const MAX_SHOWN: usize = 200;
/// And so much of what each does.
const MAX_WIDTH: usize = 80;

/// A service, what it has, and how it says that.
struct Found {
    service: Service,
    source: Source,
    by: Description,
}

pub(crate) async fn run(config: &Config, given: &Try, printer: &mut Printer) -> anyhow::Result<()> {
    logging::start(&config.log, config.log_format)?;
    if !config.listen.ip().is_loopback() {
        return Err(hinted(
            format!("{} can be reached from other machines", config.listen),
            "`try` serves this machine alone; for others, import the methods and `callgate serve`",
        ));
    }
    let target: Target = given.url.parse().context("the URL is not right")?;
    let mut found = find(config, given, target).await?;
    let options = ImportOptions::default();
    found.source.apply_options(&options);
    let plan = Plan::new(&found.source, &CatalogRows::default(), &[], &options);
    let forward = Forward::new(DEFAULT_UPSTREAM, found.service.options().clone())?;
    let options = http::HttpOptions { require_auth: false, ..config.http.clone() };
    let gateway = Callgate::builder()
        .upstream(DEFAULT_UPSTREAM, forward)
        .call_timeout(config.call_timeout)
        .http_options(options)
        .build()?;
    let catalog = catalog(&plan.added);
    if catalog.is_empty() {
        let (place, (by, command)) = (found.service.target(), found.by.words());
        return Err(hinted(
            format!("{place} says what it has by {by}, and nothing of it can be a tool"),
            format!("`callgate import {command} {place} --dry-run` says why"),
        ));
    }
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let stopping = http::shutdown_signal();
    let address = listener.local_addr().context("cannot tell the address")?;
    let url = format!("http://{address}");
    if given.json {
        let line = json!({
            "address": address.to_string(),
            "url": url,
            "mcp": format!("{url}/mcp"),
            "service": found.service.target().to_string(),
            "found_by": found.by.words().0,
            "tools": catalog.len(),
            "hidden": plan.hidden.len(),
            "refused": plan.refused.len(),
        });
        printer.data(line);
    } else {
        tell(&found, &catalog, &plan, printer);
        suggest(&found, &given.service, &url, printer)?;
    }
    gateway.gateway().set_catalog(std::sync::Arc::new(catalog));
    gateway.serve_on(listener, stopping).await?;
    Ok(())
}

/// Finds out how a service describes itself.
async fn find(config: &Config, given: &Try, target: Target) -> anyhow::Result<Found> {
    let mut attempts = Attempts::searching();
    let options = ReadOptions { upstream: DEFAULT_UPSTREAM, external: &[] };
    let service = given.service.service(config, target)?;
    for by in [
        Description::OpenRpc(DocumentRequest::Discover),
        Description::Introspection,
        Description::OpenRpc(DocumentRequest::Get),
    ] {
        if let Some(source) = by.read(&service, options, &mut attempts).await? {
            return Ok(Found { service, source, by });
        }
    }
    let site = drupal::endpoint(service.target())?;
    let mut site = given.service.service(config, site)?;
    let module = given.from.into();
    let by = Description::Drupal(module);
    if let Some(source) = by.read(&site, options, &mut attempts).await? {
        drupal::set_options(&mut site, module).await?;
        return Ok(Found { service: site, source, by });
    }
    Err(attempts.into_error(
        &format!("{} does not describe its methods", service.target()),
        "write a manifest, `callgate import manifest FILE`; for PHP, `callgate import php DIR` reads \
         the source; for Drupal without `jsonrpc_mcp`, `--from discovery` reads all methods",
    ))
}

/// Every method is a tool here that is not hidden. There are no users, so sections do not count: whoever
/// runs this asks the service with their own credential.
fn catalog(added: &[Added]) -> Catalog {
    let methods =
        added.iter().map(|added| MethodRow { sections: None, ..added.row.clone() }).collect();
    let rows = CatalogRows { methods, ..CatalogRows::default() };
    let assembly = Assembly {
        code: &[],
        exposure: Exposure::All,
        prefix: Prefix::default(),
        upstreams: vec![DEFAULT_UPSTREAM],
        previous: None,
    };
    assemble(&rows, assembly).catalog
}

fn tell(found: &Found, catalog: &Catalog, plan: &Plan, printer: &mut Printer) {
    let place = found.service.target();
    printer.data(format_args!("{place} says what it has by {}", found.by.words().0));
    let shown = catalog.entries().iter().take(MAX_SHOWN).map(|entry| {
        let method = plan.added.iter().find(|added| added.row.rpc_method == entry.id().as_str());
        let safety = entry.safety().as_str();
        let safety = match method {
            Some(added) if added.safety_is_guess => format!("{safety} (guessed)"),
            Some(added) if added.row.safety.is_none() => format!("{safety} (unknown)"),
            _ => safety.to_owned(),
        };
        let words = method.and_then(|added| added.row.description.as_deref()).unwrap_or_default();
        let words = words.lines().next().unwrap_or_default().chars().take(MAX_WIDTH).collect();
        vec![entry.name().to_string(), safety, words]
    });
    printer.table(&["TOOL", "SAFETY", "DESCRIPTION"], &shown.collect::<Vec<_>>());
    if let Some(more) = catalog.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        printer.data(format_args!("… and {more} more"));
    }
    let mut line = |what: &str, id: &str, why: &str| {
        printer.data(format_args!("{what:<8} {}: {}", one_line(id), one_line(why)));
    };
    plan.hidden.iter().for_each(|Refusal { id, reason, .. }| line("hidden", id, reason));
    plan.refused.iter().for_each(|Refusal { id, reason, .. }| line("refused", id, reason));
    for quarantined in catalog.quarantined() {
        line("refused", &quarantined.id, &quarantined.reason.to_string());
    }
}

fn suggest(
    found: &Found,
    given: &ServiceOptions,
    url: &str,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    printer.data(format_args!("\nMCP is at {url}/mcp, for this machine, until Ctrl-C"));
    printer.data("\nPaste into Claude Desktop's configuration:");
    printer.data(pasted("callgate-try", url, None)?);
    let command = vec![found.by.words().1.to_owned(), found.service.target().to_string()];
    let command = [command, given.arguments()];
    printer.talk(format_args!(
        "\nTo keep it, with users and rights: callgate import {}",
        command.concat().join(" ")
    ));
    Ok(())
}
