//! Opens the registry that is configured.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use callgate_registry::{
    ATTACHED, OpenError, PendingMigration, SqlStore, TableNames, wait_for_closed_files,
};

use crate::config::{Config, DEMO_FILE};
use crate::error_hints::hinted;

/// Maximum number of unused entries of an overlay that are logged.
const MAX_LOGGED: usize = 20;

/// Maximum time to wait until the files of SQLite databases are closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens an existing registry, with the attached Festi database if there is one.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Arc<SqlStore>> {
    attach_festi(config, open_without_festi(config).await?).await
}

/// Opens an existing registry without the attached database.
pub(crate) async fn open_without_festi(config: &Config) -> anyhow::Result<Arc<SqlStore>> {
    let url = &config.database;
    // With an attached database, the configured names are those of Festi. The registry stores its own names.
    let tables = config.tables.as_ref().filter(|_| config.attach.is_none());
    let opened = SqlStore::open(url, &config.database_options, tables).await;
    if let Err(OpenError::Missing(place)) = &opened
        && Path::new(DEMO_FILE).exists()
    {
        return Err(hinted(
            format!("there is no registry at `{place}`"),
            format!("use `--database sqlite:{DEMO_FILE}` for the registry of the demo"),
        ));
    }
    let store = opened.with_context(|| format!("cannot open the registry `{url}`"))?;
    Ok(Arc::new(store))
}

/// Creates or upgrades the registry. Returns it with the names of the migrations that were applied.
pub(crate) async fn migrate(config: &Config) -> anyhow::Result<(Arc<SqlStore>, Vec<&'static str>)> {
    let url = &config.database;
    let migrated = SqlStore::migrate(url, &config.database_options, tables(config).await).await;
    let (store, applied) =
        migrated.with_context(|| format!("cannot migrate the registry `{url}`"))?;
    if let Some(preset) = config.preset {
        store.add_missing_settings(preset.settings()).await?;
    }
    Ok((Arc::new(store), applied))
}

/// Returns the migrations that [`migrate`] would apply, without changing anything.
pub(crate) async fn pending(config: &Config) -> anyhow::Result<Vec<PendingMigration>> {
    let url = &config.database;
    let pending = SqlStore::pending(url, &config.database_options, tables(config).await).await;
    pending.with_context(|| format!("cannot read the registry `{url}`"))
}

/// Returns the names for new tables. An existing registry with an attached database keeps its own names.
async fn tables(config: &Config) -> Option<&TableNames> {
    let tables = config.tables.as_ref();
    if config.attach.is_none() {
        return tables;
    }
    let pending = SqlStore::pending(&config.database, &config.database_options, tables).await;
    tables.filter(|_| !matches!(pending, Err(OpenError::OtherTables)))
}

/// Attaches the Festi database of the configuration, if there is one.
pub(crate) async fn attach_festi(
    config: &Config,
    registry: Arc<SqlStore>,
) -> anyhow::Result<Arc<SqlStore>> {
    let Some(attach) = &config.attach else {
        refuse_unattached(config, &registry).await?;
        return Ok(registry);
    };
    let database = (&attach.database, &config.database_options);
    let options = attach.options()?;
    let store = registry
        .attach(database, &attach.tables, options, attach.intervals)
        .await
        .with_context(|| format!("cannot attach `{}`", attach.database))?;
    for id in store.unused_overlays().await?.iter().take(MAX_LOGGED) {
        tracing::warn!(
            "the overlay has an entry for method `{id}`, which does not exist in the Festi database"
        );
    }
    Ok(Arc::new(store))
}

/// Refuses a registry that belongs to a Festi database, if that database is not attached. The Festi
/// database defines access to the methods. Without this database, every caller could call the
/// methods.
async fn refuse_unattached(config: &Config, store: &SqlStore) -> anyhow::Result<()> {
    if store.meta(ATTACHED).await?.is_none() {
        return Ok(());
    }
    Err(hinted(
        format!(
            "the registry `{}` belongs to a Festi database, which defines access to the methods",
            config.database
        ),
        "add `--preset festi --attach URL` with the URL of that database, or use another registry with `--database`",
    ))
}

/// Refuses to add users to a registry that belongs to a Festi database. With users in the registry, the Festi database
/// could no longer be attached.
pub(crate) async fn refuse_users(config: &Config, store: &SqlStore) -> anyhow::Result<()> {
    if config.attach.is_none() && store.meta(ATTACHED).await?.is_none() {
        return Ok(());
    }
    Err(hinted(
        format!(
            "the registry `{}` belongs to a Festi database, which contains the users",
            config.database
        ),
        "add users to that database and use `--preset festi --attach URL`, or use another registry with `--database`",
    ))
}

/// Waits until the files of registries that are no longer used are closed.
pub(crate) async fn wait_until_closed() {
    wait_for_closed_files(CLOSE_TIMEOUT).await;
}

/// Returns a warning if other users of this machine can read or change the files of the registry.
pub(crate) fn file_warning(config: &Config) -> Option<String> {
    let path = config.database.path()?;
    let files = ["", "-wal", "-shm"].map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        PathBuf::from(file)
    });
    let accessible = files.iter().filter(|file| is_accessible_to_other_users(file));
    let accessible: Vec<String> = accessible.map(|file| file.display().to_string()).collect();
    let accessible = Some(accessible.join(" ")).filter(|accessible| !accessible.is_empty())?;
    Some(format!(
        "other users of this machine can read or change the registry, which has signing keys and credentials; \
         run `chmod 600 {accessible}`"
    ))
}

#[cfg(unix)]
fn is_accessible_to_other_users(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o066 != 0)
}

#[cfg(not(unix))]
fn is_accessible_to_other_users(_: &Path) -> bool {
    false
}
