//! `callgate import openrpc|introspect|drupal|php|festi|manifest`, and what is held back

mod approve;
pub(crate) mod repeat;

use std::path::Path;

use anyhow::Context as _;
use callgate::forward::Target;
use callgate::model::LOCAL;
use callgate_registry::DEFAULT_UPSTREAM;

#[cfg(not(feature = "php"))]
use crate::cli::PhpOptions;
use crate::cli::{Import, ImportCommand};
use crate::config::Config;
use crate::errors::hinted;
use crate::import::drupal;
use crate::import::openrpc::{Foreign, Reading, Way};
#[cfg(feature = "php")]
use crate::import::php::read as of_php;
use crate::import::{self, Attempts, Configured, Description, Service, ServiceOptions, Source};
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
    let source = read_source(config, &import).await?;
    if source.methods.is_empty() && source.refused.is_empty() && source.unread.is_empty() {
        return Err(hinted(
            format!("{} has no methods, and nothing was changed", source.name),
            "is it the right one? `callgate method remove` removes methods",
        ));
    }
    let store = registry::open_own(config).await?;
    if !source.access.users.is_empty() {
        registry::refuse_users(config, &store).await?;
    }
    let options = import.options();
    let seen = if options.dry_run {
        source.preview(&store, options, false, printer).await?
    } else {
        source.write(&store, options, None, printer).await?
    };
    if let Some(keys) = &source.upstream_keys {
        super::upstream::add_keys(&store, keys, options.dry_run, printer).await?;
    }
    if let Some(seconds) = options.watch {
        repeat::watch(config, &store, &import, seconds, seen, printer).await;
    }
    Ok(())
}

/// Returns what the source has now.
async fn read_source(config: &Config, import: &Import) -> anyhow::Result<Source> {
    let mut source = read_methods(config, import).await?;
    source.settle(import.options());
    Ok(source)
}

async fn read_methods(config: &Config, import: &Import) -> anyhow::Result<Source> {
    let upstream = upstream(import);
    match import {
        Import::Openrpc { source, references, service, .. } => {
            let foreign: Vec<Foreign> =
                references.iter().map(Foreign::read).collect::<anyhow::Result<_>>()?;
            let reading = Reading { upstream: upstream?, foreign: &foreign };
            if let Some(file) = source.as_deref().filter(|source| !is_url(source)) {
                let file = Path::new(file);
                return import::openrpc::read(&import::read(file)?, reading)
                    .with_context(in_(file));
            }
            let target = source.as_deref().map(url).transpose()?;
            let service = ask(config, reading.upstream, target, service).await?;
            let all = Way::of(service.target()).map(Description::OpenRpc);
            of_service(&service, &all, reading).await
        }
        Import::Introspect { url: given, service, .. } => {
            let target = given.as_deref().map(url).transpose()?;
            let reading = Reading { upstream: upstream?, foreign: &[] };
            let service = ask(config, reading.upstream, target, service).await?;
            of_service(&service, &[Description::Introspection], reading).await
        }
        Import::Drupal { url: given, from, service, .. } => {
            let site = given.as_deref().map(url).transpose()?;
            let target = site.as_ref().map(drupal::endpoint).transpose()?;
            let reading = Reading { upstream: upstream?, foreign: &[] };
            let service = ask(config, reading.upstream, target, service).await?;
            of_service(&service, &[Description::Drupal(*from)], reading).await
        }
        Import::Php { directory, reading, .. } => of_php(directory, upstream?, reading).await,
        Import::Festi { database_url, reading, .. } => {
            import::festi::read(database_url, upstream?, reading).await
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

/// Reads the first of several descriptions that a service has.
async fn of_service(
    service: &Service,
    descriptions: &[Description],
    reading: Reading<'_>,
) -> anyhow::Result<Source> {
    let mut attempts = Attempts::default();
    let (mut problem, mut hint) = ("", "");
    for description in descriptions {
        if let Some(mut source) = description.read(service, reading, &mut attempts).await? {
            description.add_keys(service, &mut source).await?;
            return Ok(source);
        }
        (problem, hint) = description.absence();
    }
    Err(attempts.into_error(&format!("{} {problem}", service.target()), hint))
}

#[cfg(not(feature = "php"))]
#[expect(clippy::unused_async, reason = "it has the other's signature")]
async fn of_php(_: &Path, _: &str, _: &PhpOptions) -> anyhow::Result<Source> {
    Err(crate::errors::not_built("a reader of PHP", "php"))
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

/// What runs the methods of a source that does not say it.
fn upstream(import: &Import) -> anyhow::Result<&str> {
    let upstream = import.options().upstream.as_deref().unwrap_or(DEFAULT_UPSTREAM);
    if upstream != LOCAL {
        return Ok(upstream);
    }
    Err(hinted(
        "`local` is the upstream of functions in the program itself",
        "name another with `--upstream`",
    ))
}
