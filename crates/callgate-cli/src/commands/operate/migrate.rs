//! `callgate migrate`

use crate::cli::MigrateArgs;
use crate::config::{Config, Preset};
use crate::{printer, registry};
use anyhow::Result;

pub(crate) async fn run(config: &Config, options: &MigrateArgs) -> Result<()> {
    if options.dry_run {
        return dry_run(config).await;
    }
    let (_, applied) = registry::migrate(config).await?;
    if applied.is_empty() {
        printer::message(format_args!("{} is up to date", config.database));
    }
    for name in applied {
        printer::message(format_args!("{}: applied `{name}`", config.database));
    }
    // While a registry is open, its database has additional files.
    registry::wait_until_closed().await;
    if let Some(warning) = registry::file_warning(config) {
        printer::message(format_args!("warning: {warning}"));
    }
    Ok(())
}

/// Prints the SQL to stdout, for the database's own tools.
async fn dry_run(config: &Config) -> Result<()> {
    let url = &config.database;
    let pending = registry::pending(config).await?;
    let settings = missing_settings(config, pending.is_empty()).await?;
    if pending.is_empty() && settings.is_empty() {
        printer::message(format_args!("{url} is up to date: nothing to do"));
    }
    for migration in &pending {
        printer::message(format_args!(
            "{url}: would apply {} `{}`",
            migration.version, migration.name
        ));
        printer::exact(&migration.sql);
    }
    for (key, value) in settings {
        printer::message(format_args!("{url}: would set {key}={value}"));
    }
    Ok(())
}

/// Returns the settings of the preset that the registry does not have. If the registry does not exist yet, returns all
/// of them.
async fn missing_settings(
    config: &Config,
    exists: bool,
) -> Result<Vec<(&'static str, &'static str)>> {
    let mut settings = config.preset.map(Preset::settings).unwrap_or_default().to_vec();
    if exists && !settings.is_empty() {
        let stored = registry::open_without_festi(config).await?.settings().await?;
        settings.retain(|(key, _)| stored.iter().all(|row| row.name != *key));
    }
    Ok(settings)
}
