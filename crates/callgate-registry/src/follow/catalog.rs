//! Builds the catalog of a gateway.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use callgate::catalog::{Catalog, Entry};
use callgate::gateway::{Gateway, OpenMethods};
use callgate::model::{Finding, Method};
use tokio::task::JoinSet;

use super::log::{MAX_LOGGED, error_chain, log_new_problems};
use crate::auth::tracked_store::{ReadKind, TrackedStore};
use crate::catalog::assemble::{
    Assembled, Assembly, Exposure, assemble, open_entries, open_methods, settings,
};
use crate::follow::upstreams::RowUpstreams;
use crate::rows::CatalogRows;
use crate::store::Result;

/// Time limit for storing tool names.
const STORE_NAMES_TIMEOUT: Duration = Duration::from_mins(1);

/// Builds catalogs from the rows of a store.
#[derive(Debug, Clone)]
pub(super) struct CatalogSource {
    pub(super) store: Arc<TrackedStore>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) upstreams: Arc<RowUpstreams>,
    pub(super) code: Arc<[Method]>,
    pub(super) exposure: Exposure,
    pub(super) open_methods: Option<OpenMethods>,
    pub(super) builds: Arc<Builds>,
}

/// Assigns a number to each build. A build that runs on a blocking thread cannot be aborted, and must not replace the
/// catalog of a later build.
#[derive(Debug, Default)]
pub(super) struct Builds {
    started: AtomicU64,
    install_lock: Mutex<()>,
}

impl Builds {
    /// Returns the number of a new build.
    fn begin(&self) -> u64 {
        self.started.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Runs `install`, unless a later build has begun. Waits for an `install` that is running.
    fn if_latest<T: Default>(&self, build: u64, install: impl FnOnce() -> T) -> T {
        let _guard = self.install_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if self.started.load(Ordering::Acquire) == build { install() } else { T::default() }
    }
}

/// Result of building a catalog.
#[derive(Debug)]
pub(super) struct BuiltCatalog {
    pub(super) change_counter: i64,
    /// Tool names to store, by row id.
    pub(super) new_names: Vec<(i64, String)>,
}

impl CatalogSource {
    /// Reads the rows and replaces the catalog.
    pub(super) async fn build(&self) -> Result<BuiltCatalog> {
        let started = Instant::now();
        let build = self.builds.begin();
        self.store.count_read(ReadKind::Catalog);
        let rows = self.store.inner.catalog_rows().await?;
        let read = started.elapsed();
        let change_counter = rows.change_counter;
        let source = self.clone();
        // Runs on a blocking thread, because a large catalog takes a second. If this future is dropped before the task
        // has started, the `JoinSet` aborts the task.
        let mut assembling = JoinSet::new();
        assembling.spawn_blocking(move || {
            source.builds.if_latest(build, || source.install(&rows, started, read))
        });
        let new_names = match assembling.join_next().await {
            Some(Ok(new_names)) => new_names,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Some(Err(_)) | None => std::future::pending().await,
        };
        Ok(BuiltCatalog { change_counter, new_names })
    }

    /// Builds upstreams and catalog, and replaces them together, because the catalog refers to the upstreams. Returns
    /// the tool names to store.
    fn install(&self, rows: &CatalogRows, started: Instant, read: Duration) -> Vec<(i64, String)> {
        let (before, now) = self.upstreams.update(&rows.upstreams, &self.gateway);
        log_new_problems(&before, &now);
        let Assembled { catalog, new_names } = self.assemble(rows);
        let previous = self.gateway.catalog();
        log_new_problems(&problems(&previous), &problems(&catalog));
        if open_methods(rows, self.open_methods).is_none() {
            warn_about_open_methods(&previous, &catalog);
        }
        tracing::info!(
            tools = catalog.len(),
            quarantined = catalog.quarantined().len(),
            ?read,
            took = ?started.elapsed(),
            "catalog loaded"
        );
        self.gateway.set_catalog(Arc::new(catalog));
        new_names
    }

    /// Stores tool names. Returns the catalog's change counter before and after the write. Returns `None` if the
    /// write fails, or if another program changed the counter in between.
    pub(super) async fn store_names(&self, names: &[(i64, String)]) -> Option<(i64, i64)> {
        let storing = self.store.inner.store_tool_names(names);
        self.store.write(STORE_NAMES_TIMEOUT, storing).await.unwrap_or_else(|error| {
            tracing::warn!(error = error_chain(error), "failed to store tool names");
            None
        })
    }

    fn assemble(&self, rows: &CatalogRows) -> Assembled {
        let (settings, _) = settings(&rows.settings, &self.gateway.settings());
        let upstreams = self.gateway.upstream_names();
        let assembly = Assembly {
            code: &self.code,
            exposure: self.exposure,
            open_methods: self.open_methods,
            prefix: settings.tools_prefix,
            upstreams: upstreams.iter().map(AsRef::as_ref).collect(),
            previous: Some(self.gateway.catalog()),
        };
        assemble(rows, assembly)
    }
}

/// Logs a warning if the registry has new methods that every caller may call.
fn warn_about_open_methods(previous: &Catalog, catalog: &Catalog) {
    let open = |catalog: &'_ Catalog| -> BTreeSet<String> {
        open_entries(catalog).map(|entry| entry.id().to_string()).collect()
    };
    let (before, now) = (open(previous), open(catalog));
    if now.is_subset(&before) {
        return;
    }
    let mut ids: Vec<&str> = now.difference(&before).take(MAX_LOGGED).map(String::as_str).collect();
    if now.difference(&before).nth(MAX_LOGGED).is_some() {
        ids.push("…");
    }
    tracing::warn!(
        methods = ids.join(", "),
        count = now.len(),
        "everyone can call methods without a section, even without a token. If this is intended, set \
         `open_methods` to `allow`. Otherwise add sections to the methods, or set `open_methods` to `refuse`"
    );
}

/// Returns a sentence for each problem of a catalog.
fn problems(catalog: &Catalog) -> BTreeSet<String> {
    let quarantined = catalog
        .quarantined()
        .iter()
        .map(|entry| format!("`{}` is quarantined: {}", entry.id, entry.reason));
    let closed = catalog.entries().flat_map(|entry| {
        let closing = entry.findings().iter().filter(|finding| finding.closes());
        closing.map(move |finding| format!("`{}`: {finding}", entry.id()))
    });
    let findings = catalog.entries().flat_map(Entry::findings);
    let unconfigured = findings.filter_map(|finding| match finding {
        Finding::UnknownUpstream(name) => Some(format!(
            "upstream `{name}` is not configured, so every call of its tools fails; add the \
             upstream to the configuration, or run `callgate upstream set`"
        )),
        _ => None,
    });
    quarantined.chain(closed).chain(unconfigured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_build_installs_nothing_after_a_later_build_began() {
        let builds = Builds::default();
        let first = builds.begin();
        assert!(builds.if_latest(first, || true));
        let second = builds.begin();
        assert!(!builds.if_latest(first, || true));
        assert!(builds.if_latest(second, || true));
    }
}
