//! `callgate migrate`

use anyhow::Context as _;
use callgate_registry::SqlStore;

use crate::cli::Migrate;
use crate::config::{Config, Preset};
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(
    config: &Config,
    options: &Migrate,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    if options.dry_run {
        return dry_run(config, printer).await;
    }
    let (_, applied) = registry::migrate(config).await?;
    if applied.is_empty() {
        printer.talk(format_args!("{} is up to date", config.database));
    }
    for name in applied {
        printer.talk(format_args!("{}: applied `{name}`", config.database));
    }
    Ok(())
}

/// The SQL is data: it can go into a file, and from there to the database's own tools.
async fn dry_run(config: &Config, printer: &mut Printer) -> anyhow::Result<()> {
    let url = &config.database;
    let pending = SqlStore::pending(url, &config.database_options, config.tables.as_ref())
        .await
        .with_context(|| format!("cannot look at the registry `{url}`"))?;
    if pending.is_empty() {
        printer.talk(format_args!("{url} is up to date: nothing to do"));
    }
    for one in &pending {
        printer.talk(format_args!("{url}: would apply {} `{}`", one.version, one.name));
        printer.data(&one.sql);
    }
    let settings = config.preset.map(Preset::settings).unwrap_or_default();
    for (key, value) in settings {
        printer.talk(format_args!("{url}: would set {key}={value} where it is absent"));
    }
    Ok(())
}
