//! `callgate import openrpc|introspect|drupal|php|festi|manifest`, and imports that are repeated.

mod approve;
pub(crate) mod process;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use callgate::forward::Target;
use callgate::http;
use callgate::model::LOCAL;
use callgate_import::festi::{self, Users};
use callgate_import::openrpc::{self, ExternalFile, ReadOptions};
use callgate_import::watch::{self, Event, Policy, RepeatedImport};
use callgate_import::{
    Description, Detail, Guess, ImportOptions, Importer, Source, drupal, manifest, read_file,
    shortened,
};
use callgate_registry::{DEFAULT_UPSTREAM, DatabaseUrl, SqlStore, UpstreamRow};

use super::service::{ServiceConfiguration, ServiceOptions, parse_url, service, upstream_names};
use crate::cli::{GlobalArgs, Import, ImportCommand, Review};
use crate::config::{Config, password_in_file};
use crate::error_hints::{hinted, nearest};
use crate::{printer, registry};

/// Maximum width of a description in a table, in characters.
const MAX_WIDTH: usize = 80;

pub(crate) async fn run(config: &Config, command: ImportCommand) -> anyhow::Result<()> {
    let import = match command {
        ImportCommand::From(import) => *import,
        ImportCommand::Pending { json } => return approve::pending(config, json).await,
        ImportCommand::Approve { name, digest } => {
            return approve::approve(config, &name, &digest).await;
        }
        // `commands::run` has already run this command.
        ImportCommand::Process => return Ok(()),
    };
    let args = import.options();
    if args.watch.is_some() && args.prune {
        return Err(hinted(
            "`--prune` cannot be used with `--watch`",
            "without `--prune`, methods that the source no longer has are hidden and keep their sections; a \
             single import with `--prune` deletes such methods",
        ));
    }
    let (mut source, mut options) = read_source(config, &import).await?;
    if source.is_empty() {
        return Err(hinted(
            format!("{} has no methods, and nothing was changed", source.name),
            "check the source; `callgate method remove` removes methods",
        ));
    }
    let store = registry::open_without_festi(config).await?;
    if source.has_users() {
        registry::refuse_users(config, &store).await?;
    }
    let rows = store.upstreams().await?;
    source.notes.extend(unconfigured(&source, (config, &rows)));
    let upstreams = upstream_names((config, &rows)).chain([LOCAL]).map(ToOwned::to_owned);
    options.upstreams = Some(upstreams.collect());
    let importer = Importer { source: &source, store: &store, options: &options };
    if let Some(review) = args.review {
        let guesses = importer.review().await?;
        print_guesses(&guesses, review);
        if review == Review::List {
            return Ok(());
        }
    }
    let report = if args.dry_run {
        importer.preview(Detail::Brief).await?
    } else {
        importer.write(None).await?
    };
    printer::report(&report);
    if let Some(keys) = &source.upstream_keys {
        let upstream = upstream(&import)?;
        let upstreams_and_store = (&config.upstreams, &store);
        super::upstream::add_keys(upstreams_and_store, upstream, keys, args.dry_run).await?;
    }
    if let Some(seconds) = args.watch {
        watch(config, &store, &import, seconds, report.digest).await;
    }
    Ok(())
}

/// Returns notes about upstreams that are not configured. Their names may be misspelled.
fn unconfigured(source: &Source, configuration: (&Config, &[UpstreamRow])) -> Vec<String> {
    let is_unknown =
        |name: &&String| upstream_names(configuration).chain([LOCAL]).all(|known| known != **name);
    // For a running service, another note says what to configure.
    let has_table = source.notes.iter().any(|note| note.starts_with("[upstreams."));
    let note = |name: &String| match nearest(name, upstream_names(configuration)) {
        Some(nearest) => Some(format!("; did you mean `{nearest}`?")),
        None if has_table => None,
        None => Some(format!(
            ", so its methods cannot be called; configure it with `callgate upstream set {name} \
             url=URL`"
        )),
    };
    let notes = source.upstreams.iter().filter(is_unknown).filter_map(|name| {
        Some(format!("note: upstream `{name}` is not configured{}", note(name)?))
    });
    notes.collect()
}

fn print_guesses(guesses: &[Guess], review: Review) {
    if guesses.is_empty() {
        return printer::message("the safety of all methods is declared");
    }
    let row = |guess: &Guess| {
        let description = shortened(&guess.description, MAX_WIDTH);
        let safety = guess.safety.as_deref().unwrap_or("unknown").to_owned();
        vec![guess.id.clone(), safety, description]
    };
    let rows: Vec<Vec<String>> = guesses.iter().map(row).collect();
    printer::table(&["METHOD", "GUESS", "DESCRIPTION"], &rows);
    let action = match review {
        Review::List => "`--review=approve` approves these guesses",
        Review::Approve => "these guesses are now approved",
    };
    printer::message(format_args!(
        "note: {action}; `callgate method set ID` with `--read-only` or `--destructive` corrects a guess, or sets an \
         unknown safety"
    ));
}

/// Repeats an import until the program is stopped. Does not print the change with the digest `last` again.
async fn watch(
    config: &Config,
    store: &Arc<SqlStore>,
    import: &Import,
    seconds: u32,
    last_digest: Option<String>,
) {
    let policy = if import.options().dry_run { Policy::Show } else { Policy::Apply };
    let run = async || {
        let (source, options) = &read_source(config, import).await?;
        Importer { source, store, options }.run("", policy).await
    };
    let interval = Duration::from_secs(seconds.into());
    printer::message(format_args!("reading the source every {seconds} s until Ctrl-C"));
    let on_event = |event: Event<'_>| match event {
        Event::Changed(change) => printer::data(&change.text),
        Event::Failed(error) => {
            printer::error(error);
            printer::message("methods are unchanged");
        }
        Event::Recovered => printer::message("the source can be read again"),
    };
    tokio::select! {
        () = watch::watch(run, interval, last_digest, on_event) => {}
        () = http::shutdown_signal() => {}
    }
}

/// Repeats the imports of the configuration in separate processes, until the future is dropped.
pub(crate) async fn watch_all(config: Arc<Config>, global: GlobalArgs) {
    let imports = config.imports.iter().map(|(name, import)| RepeatedImport {
        name,
        run: || process::start(&config, &global, name),
        interval: import.interval,
        policy: import.policy,
    });
    watch::serve(imports.collect()).await;
}

/// Reads the source and applies the options of the import. Returns the source and the options.
async fn read_source(config: &Config, import: &Import) -> anyhow::Result<(Source, ImportOptions)> {
    let mut source = read_methods(config, import).await?;
    let options = import.options().to_import();
    source.apply_options(&options);
    Ok((source, options))
}

async fn read_methods(config: &Config, import: &Import) -> anyhow::Result<Source> {
    let upstream = upstream(import);
    match import {
        Import::Openrpc { source, references, name, service, .. } => {
            let external: Vec<ExternalFile> =
                references.iter().map(ExternalFile::read).collect::<anyhow::Result<_>>()?;
            let name = name.as_deref();
            let options = ReadOptions { upstream: upstream?, external: &external, name };
            if let Some(file) = source.as_deref().filter(|source| !is_url(source)) {
                let file = Path::new(file);
                return openrpc::read(&read_file(file)?, options).with_context(file_context(file));
            }
            let target = source.as_deref().map(parse_url).transpose()?;
            let descriptions = |target: &Target| Description::openrpc(target).to_vec();
            read_service(config, target, service, options, descriptions).await
        }
        Import::Introspect { url, service, .. } => {
            let target = url.as_deref().map(parse_url).transpose()?;
            let options = ReadOptions { upstream: upstream?, external: &[], name: None };
            read_service(config, target, service, options, |_| vec![Description::Introspection])
                .await
        }
        Import::Drupal { url, from, service, .. } => {
            let site = url.as_deref().map(parse_url).transpose()?;
            let target = site.as_ref().map(drupal::endpoint).transpose()?;
            let options = ReadOptions { upstream: upstream?, external: &[], name: None };
            let description = Description::Drupal(*from);
            read_service(config, target, service, options, |_| vec![description]).await
        }
        #[cfg(feature = "php")]
        Import::Php { directory, name, vendor, skip, .. } => {
            let (name, skip) = (name.clone(), skip.clone());
            let options = callgate_import::php::PhpOptions { name, vendor: *vendor, skip };
            callgate_import::php::read(directory.clone(), upstream?.to_owned(), options).await
        }
        #[cfg(not(feature = "php"))]
        Import::Php { directory, name, vendor, skip, .. } => {
            let _ = (directory, name, vendor, skip);
            Err(crate::error_hints::not_built("support for PHP", "php"))
        }
        Import::Festi { database_url, password_file, table_prefix, users, .. } => {
            let mut url: DatabaseUrl = database_url.parse()?;
            if let Some(file) = password_file {
                url = password_in_file(url, "--password-file", file)?;
            }
            let users = if *users { Users::All } else { Users::None };
            festi::read(&url, table_prefix, users, upstream?).await
        }
        Import::Manifest { file, name, options } => {
            let (text, upstream) = (read_file(file)?, options.upstream.as_deref());
            manifest::read(&text, upstream, name.as_deref()).with_context(file_context(file))
        }
    }
}

/// Reads the methods from the first of `descriptions` that the service has.
async fn read_service(
    config: &Config,
    target: Option<Target>,
    args: &ServiceOptions,
    options: ReadOptions<'_>,
    descriptions: impl FnOnce(&Target) -> Vec<Description>,
) -> anyhow::Result<Source> {
    let rows = registry::open_without_festi(config).await?.upstreams().await?;
    let (service, configuration) = service((config, &rows), options.upstream, target, args)?;
    let descriptions = descriptions(service.target());
    let mut source = Description::read_first(&descriptions, &service, options).await?;
    if let Some(keys) = &source.upstream_keys {
        source.notes.extend(configuration.notes(options.upstream, keys));
    }
    if configuration != ServiceConfiguration::Registry {
        source.upstream_keys = None;
    }
    Ok(source)
}

fn file_context(file: &Path) -> impl Fn() -> String {
    move || format!("`{}`", file.display())
}

/// Returns `true` for a URL, even without a scheme, and `false` for a file.
fn is_url(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    text.contains("://") || text.starts_with("unix:") || (has_port && !Path::new(text).exists())
}

/// Returns the upstream for methods that name none.
fn upstream(import: &Import) -> anyhow::Result<&str> {
    let upstream = import.options().upstream.as_deref().unwrap_or(DEFAULT_UPSTREAM);
    if upstream != LOCAL {
        return Ok(upstream);
    }
    Err(hinted(
        "`local` is the upstream of functions in the program itself",
        "name another upstream with `--upstream`",
    ))
}
