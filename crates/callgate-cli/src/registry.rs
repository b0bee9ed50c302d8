//! Opening the registry that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use callgate_registry::{Result, SqliteStore, Store, StoreError};

use crate::config::{Config, DEMO_FILE};
use crate::errors::hinted;

/// A registry that must be there.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let path = sqlite_path(&config.database)?;
    let opened = SqliteStore::open(&path, config.tables.as_ref()).await;
    if matches!(opened, Err(StoreError::Missing(_))) && Path::new(DEMO_FILE).exists() {
        return Err(hinted(
            format!("there is no registry at `{}`", path.display()),
            format!("the demo's is `--database sqlite:{DEMO_FILE}`"),
        ));
    }
    let store =
        opened.with_context(|| format!("cannot open the registry `{}`", config.database))?;
    Ok(Arc::new(store))
}

/// A registry that is made or brought up to date, with the names of what was applied.
pub(crate) async fn migrate(
    config: &Config,
) -> anyhow::Result<(Arc<dyn Store>, Vec<&'static str>)> {
    let path = sqlite_path(&config.database)?;
    let (store, applied) = SqliteStore::migrate(&path, config.tables.as_ref())
        .await
        .with_context(|| format!("cannot prepare the registry `{}`", config.database))?;
    if let Some(preset) = config.preset {
        callgate_registry::Edit::insert_absent_settings(&store, preset.settings()).await?;
    }
    Ok((Arc::new(store), applied))
}

/// The registry's file, where other users of this machine can read it.
pub(crate) fn readable_by_others(config: &Config) -> Option<PathBuf> {
    let path = sqlite_path(&config.database).ok()?;
    others_read(&path).then_some(path)
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

pub(crate) fn sqlite_path(url: &str) -> Result<PathBuf> {
    let path = url.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path));
    match path {
        Some(path) if !path.is_empty() && !path.starts_with(':') => Ok(PathBuf::from(path)),
        _ => Err(StoreError::Url(without_secrets(url))),
    }
}

/// A URL may carry a password.
pub(crate) fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}
