//! Opening the registry that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use callgate_registry::{ATTACHED, OpenError, PendingMigration, SqlStore, TableNames};

use crate::config::{Config, DEMO_FILE};
use crate::errors::hinted;

/// So many entries of an overlay are named in the log.
const MAX_NAMED: usize = 20;

/// A registry that must be there, with the Festi database that is attached to it, if one is.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Arc<SqlStore>> {
    attached(config, open_own(config).await?).await
}

/// A registry that must be there, by itself.
pub(crate) async fn open_own(config: &Config) -> anyhow::Result<Arc<SqlStore>> {
    let url = &config.database;
    // Beside a Festi database the names are not configured: they are as they were made.
    let tables = config.tables.as_ref().filter(|_| config.attach.is_none());
    let opened = SqlStore::open(url, &config.database_options, tables).await;
    if let Err(OpenError::Missing(place)) = &opened
        && Path::new(DEMO_FILE).exists()
    {
        return Err(hinted(
            format!("there is no registry at `{place}`"),
            format!("the demo's is `--database sqlite:{DEMO_FILE}`"),
        ));
    }
    let store = opened.with_context(|| format!("cannot open the registry `{url}`"))?;
    Ok(Arc::new(store))
}

/// A registry that is made or brought up to date, with the names of what was applied.
pub(crate) async fn migrate(config: &Config) -> anyhow::Result<(Arc<SqlStore>, Vec<&'static str>)> {
    let url = &config.database;
    let migrated = SqlStore::migrate(url, &config.database_options, tables(config).await).await;
    let (store, applied) =
        migrated.with_context(|| format!("cannot prepare the registry `{url}`"))?;
    if let Some(preset) = config.preset {
        store.add_missing_settings(preset.settings()).await?;
    }
    Ok((Arc::new(store), applied))
}

/// What [`migrate`] would apply. Nothing is made.
pub(crate) async fn pending(config: &Config) -> anyhow::Result<Vec<PendingMigration>> {
    let url = &config.database;
    let pending = SqlStore::pending(url, &config.database_options, tables(config).await).await;
    pending.with_context(|| format!("cannot look at the registry `{url}`"))
}

/// What the tables are to be called. Beside a Festi database a registry may have been made before, with
/// other names: those stay.
async fn tables(config: &Config) -> Option<&TableNames> {
    let tables = config.tables.as_ref();
    if config.attach.is_none() {
        return tables;
    }
    let looked = SqlStore::pending(&config.database, &config.database_options, tables).await;
    tables.filter(|_| !matches!(looked, Err(OpenError::OtherTables)))
}

/// The registry with the Festi database that is attached to it, if one is.
pub(crate) async fn attached(config: &Config, own: Arc<SqlStore>) -> anyhow::Result<Arc<SqlStore>> {
    let Some(attach) = &config.attach else {
        refuse_alone(config, &own).await?;
        return Ok(own);
    };
    let database = (&attach.database, &config.database_options);
    let options = attach.options()?;
    let store = own
        .attach(database, &attach.tables, options, attach.every)
        .await
        .with_context(|| format!("cannot attach `{}`", attach.database))?;
    for id in store.unused_overlays().await?.iter().take(MAX_NAMED) {
        tracing::warn!("the overlay says something of `{id}`, which Festi does not have");
    }
    Ok(Arc::new(store))
}

/// Refuses a registry that is beside a Festi database without that database: it may say more of methods, but
/// not who may call them, so they would be open.
async fn refuse_alone(config: &Config, own: &SqlStore) -> anyhow::Result<()> {
    if own.meta(ATTACHED).await?.is_none() {
        return Ok(());
    }
    Err(hinted(
        format!(
            "the registry `{}` is beside a Festi database, which says who may call what",
            config.database
        ),
        "name that database with `--preset festi --attach URL`; a registry by itself is another `--database`",
    ))
}

/// Refuses users of its own for a registry that is beside a Festi database: it could not be attached any
/// more.
pub(crate) async fn refuse_users(config: &Config, store: &SqlStore) -> anyhow::Result<()> {
    if config.attach.is_none() && store.meta(ATTACHED).await?.is_none() {
        return Ok(());
    }
    Err(hinted(
        format!(
            "the registry `{}` is beside a Festi database, which has the users",
            config.database
        ),
        "add them there, and name that database with `--preset festi --attach URL`; a registry with \
         users of its own is another `--database`",
    ))
}

/// The registry's file, where other users of this machine can read it.
pub(crate) fn readable_by_others(config: &Config) -> Option<PathBuf> {
    config.database.path().filter(|path| others_read(path)).map(Path::to_owned)
}

#[cfg(unix)]
fn others_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o044 != 0)
}

#[cfg(not(unix))]
fn others_read(_: &Path) -> bool {
    false
}
