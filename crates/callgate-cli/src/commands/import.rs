//! `callgate import openrpc|introspect|drupal|php|festi|manifest`, and what is held back

mod approve;
pub(crate) mod drift;
mod watch;

use std::path::Path;

use anyhow::Context as _;
use callgate::LOCAL;
use callgate::forward::Target;
use callgate_registry::DEFAULT_UPSTREAM;

#[cfg(not(feature = "php"))]
use crate::cli::PhpOptions;
use crate::cli::{Import, ImportCommand, ImportOptions};
use crate::config::Config;
use crate::errors::hinted;
use crate::import::drupal;
use crate::import::openrpc::{Foreign, Reading, Way};
#[cfg(feature = "php")]
use crate::import::php::read as of_php;
use crate::import::{
    self, Attempts, Configured, Options, Service, ServiceOptions, Source, UpstreamKeys,
};
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(
    config: &Config,
    command: ImportCommand,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let import = match command {
        ImportCommand::From(import) => *import,
        ImportCommand::Pending { json } => return approve::pending(config, json, printer).await,
        ImportCommand::Approve { name } => return approve::approve(config, &name, printer).await,
    };
    if import.options().watch.is_some() && import.options().prune {
        return Err(hinted(
            "`--prune` does not go with `--watch`",
            "without it, what the source no longer has is hidden, and comes back with its sections; \
             `--prune` once deletes it",
        ));
    }
    let mut source = read_source(config, &import).await?;
    if source.methods.is_empty() && source.refused.is_empty() && source.unread.is_empty() {
        return Err(hinted(
            format!("{} has no methods, and nothing was changed", source.name),
            "is it the right one? `callgate method remove` removes methods",
        ));
    }
    let store = registry::open_own(config).await?;
    if !source.access.users.is_empty() {
        registry::refuse_users(config, &*store).await?;
    }
    let options = settled(import.options());
    let seen = import::import(&store, &mut source, &options, printer).await?;
    if let Some(keys) = &source.upstream_keys {
        super::upstream::add_keys(&store, keys, options.dry_run, printer).await?;
    }
    match import.options().watch {
        None => Ok(()),
        Some(seconds) => watch::run(config, &store, &import, seconds, seen, printer).await,
    }
}

/// Returns what the source has now.
pub(crate) async fn read_source(config: &Config, import: &Import) -> anyhow::Result<Source> {
    let mut source = read_methods(config, import).await?;
    source.settle_outputs(!import.options().no_output_schemas);
    Ok(source)
}

async fn read_methods(config: &Config, import: &Import) -> anyhow::Result<Source> {
    let upstream = || upstream(import.options());
    match import {
        Import::Openrpc { source, references, service, .. } => {
            let foreign: Vec<Foreign> =
                references.iter().map(Foreign::read).collect::<anyhow::Result<_>>()?;
            let upstream = upstream()?;
            let reading = Reading { upstream, foreign: &foreign };
            if let Some(file) = source.as_deref().filter(|source| !is_url(source)) {
                let file = Path::new(file);
                return import::openrpc::read(&import::read(file)?, reading)
                    .with_context(in_(file));
            }
            let target = source.as_deref().map(url).transpose()?;
            let service = ask(config, upstream, target, service).await?;
            of_document(&service, reading).await
        }
        Import::Introspect { url: given, service, .. } => {
            let target = given.as_deref().map(url).transpose()?;
            let service = ask(config, upstream()?, target, service).await?;
            of_introspection(&service, upstream()?).await
        }
        Import::Drupal { url: given, from, service, .. } => {
            let site = given.as_deref().map(url).transpose()?;
            let target = site.as_ref().map(drupal::endpoint).transpose()?;
            let service = ask(config, upstream()?, target, service).await?;
            of_drupal(&service, *from, upstream()?).await
        }
        Import::Php { directory, reading, .. } => of_php(directory, upstream()?, reading).await,
        Import::Festi { database_url, reading, .. } => {
            import::festi::read(database_url, upstream()?, reading).await
        }
        Import::Manifest { file, options } => {
            let text = import::read(file)?;
            import::manifest::read(&text, options.upstream.as_deref()).with_context(in_(file))
        }
    }
}

/// The service to be asked, as it is configured.
async fn ask(
    config: &Config,
    upstream: &str,
    target: Option<Target>,
    given: &ServiceOptions,
) -> anyhow::Result<Service> {
    let rows = registry::open_own(config).await?.upstreams().await?;
    Service::new(Configured { config, rows: &rows }, upstream, target, given)
}

async fn of_document(service: &Service, reading: Reading<'_>) -> anyhow::Result<Source> {
    let place = service.target();
    let mut attempts = Attempts::default();
    let Some((way, document)) = import::openrpc::document(service, &mut attempts).await? else {
        return Err(attempts.into_error(
            &format!("{place} gives no OpenRPC document"),
            "a document can also be a file",
        ));
    };
    let mut source =
        import::openrpc::read(&document, reading).with_context(|| format!("`{place}`"))?;
    if way == Way::Discover {
        source.notes.extend(service.notes(&[]));
    }
    Ok(source)
}

#[cfg(not(feature = "php"))]
#[expect(clippy::unused_async, reason = "it has the other's signature")]
async fn of_php(_: &Path, _: &str, _: &PhpOptions) -> anyhow::Result<Source> {
    Err(crate::errors::not_built("a reader of PHP", "php"))
}

async fn of_introspection(service: &Service, upstream: &str) -> anyhow::Result<Source> {
    let mut attempts = Attempts::default();
    let Some(listed) = import::introspect::ask(service, &mut attempts).await? else {
        return Err(attempts.into_error(
            &format!("{} does not list its methods", service.target()),
            "an OpenRPC document, or a manifest that you write, can be imported too",
        ));
    };
    let mut source = import::introspect::read(listed, upstream);
    source.notes.extend(service.notes(&[]));
    Ok(source)
}

async fn of_drupal(
    service: &Service,
    from: drupal::From,
    upstream: &str,
) -> anyhow::Result<Source> {
    let mut attempts = Attempts::default();
    let Some(found) = drupal::ask(service, from, &mut attempts).await? else {
        let (problem, hint) = match from {
            drupal::From::Tools => (
                "does not have the module `jsonrpc_mcp`",
                "is that the URL of the site? If it has the module `jsonrpc_discovery` alone, `--from \
                 discovery` reads all methods that the user who asks may use, marked as tools or not",
            ),
            drupal::From::Discovery => (
                "does not have the module `jsonrpc_discovery`",
                "it is a part of the module `jsonrpc`, and has to be enabled",
            ),
        };
        return Err(attempts.into_error(&format!("{} {problem}", service.target()), hint));
    };
    let mut source = drupal::read(&found, upstream);
    let keys = drupal::upstream_keys(service, from, &mut source.notes).await?;
    source.notes.extend(service.notes(&keys));
    source.upstream_keys =
        service.row_name().map(|name| UpstreamKeys { name: name.to_owned(), keys });
    Ok(source)
}

fn in_(file: &Path) -> impl Fn() -> String {
    move || format!("`{}`", file.display())
}

/// Whether it is meant as a place of a service, and not as a file.
fn is_url(text: &str) -> bool {
    text.contains("://") || text.starts_with("unix:")
}

fn url(text: &str) -> anyhow::Result<Target> {
    text.parse().context("the URL is not right")
}

fn settled(options: &ImportOptions) -> Options<'_> {
    Options {
        selection: &options.selection,
        sections: &options.sections,
        prune: options.prune,
        dry_run: options.dry_run,
        in_full: false,
        expected: None,
    }
}

/// What runs the methods of a source that does not say it.
fn upstream(options: &ImportOptions) -> anyhow::Result<&str> {
    let upstream = options.upstream.as_deref().unwrap_or(DEFAULT_UPSTREAM);
    if upstream != LOCAL {
        return Ok(upstream);
    }
    Err(hinted(
        "`local` is the upstream of functions in the program itself",
        "name another with `--upstream`",
    ))
}
