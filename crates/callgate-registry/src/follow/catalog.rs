//! Builds the catalog of a gateway.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate::catalog::{Catalog, Entry};
use callgate::gateway::Gateway;
use callgate::model::{Finding, Method};
use tokio::task::JoinSet;

use super::log::{error_chain, log_new_problems};
use crate::auth::health::{HealthTracker, Read};
use crate::catalog::assemble::{Assembled, Assembly, Exposure, assemble, settings};
use crate::db::pool::with_timeout;
use crate::follow::upstreams::RowUpstreams;
use crate::rows::CatalogRows;
use crate::store::Result;
use crate::store::Store;

/// Time limit for storing tool names.
const NAMES_LIMIT: Duration = Duration::from_mins(1);

/// Builds catalogs from the rows of a store.
#[derive(Debug, Clone)]
pub(super) struct CatalogSource {
    pub(super) store: Arc<dyn Store>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) upstreams: Arc<RowUpstreams>,
    pub(super) code: Arc<[Method]>,
    pub(super) exposure: Exposure,
    pub(super) tracker: Arc<HealthTracker>,
}

/// Result of building a catalog.
#[derive(Debug)]
pub(super) struct BuiltCatalog {
    pub(super) revision: i64,
    /// Tool names to store, by row id.
    pub(super) new_names: Vec<(i64, String)>,
}

impl CatalogSource {
    /// Reads the rows and replaces the catalog.
    pub(super) async fn build(&self) -> Result<BuiltCatalog> {
        let started = Instant::now();
        self.tracker.count(Read::Catalog);
        let rows = self.store.catalog_rows().await?;
        let read = started.elapsed();
        let revision = rows.revision;
        let source = self.clone();
        // On a blocking thread, since a large catalog takes a second. A `JoinSet` aborts it when this future is
        // dropped.
        let mut assembling = JoinSet::new();
        assembling.spawn_blocking(move || source.install(&rows, started, read));
        let new_names = match assembling.join_next().await {
            Some(Ok(new_names)) => new_names,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Some(Err(_)) | None => std::future::pending().await,
        };
        Ok(BuiltCatalog { revision, new_names })
    }

    /// Builds and replaces upstreams and catalog together, since the catalog refers to the upstreams. Returns
    /// the tool names to store.
    fn install(&self, rows: &CatalogRows, started: Instant, read: Duration) -> Vec<(i64, String)> {
        let (before, now) = self.upstreams.update(&rows.upstreams, &self.gateway);
        log_new_problems(&before, &now);
        let Assembled { catalog, new_names } = self.assemble(rows);
        log_new_problems(&problems(&self.gateway.catalog()), &problems(&catalog));
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

    /// Stores tool names. Returns the catalog's revision before and after, if nobody else changed it in between.
    pub(super) async fn remember(&self, names: &[(i64, String)]) -> Option<(i64, i64)> {
        let remembered = with_timeout(NAMES_LIMIT, self.store.store_tool_names(names)).await;
        self.tracker.note_write(&remembered);
        remembered.unwrap_or_else(|error| {
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
            prefix: settings.tools_prefix,
            upstreams: upstreams.iter().map(AsRef::as_ref).collect(),
            previous: Some(self.gateway.catalog()),
        };
        assemble(rows, assembly)
    }
}

/// Returns a sentence for each problem of a catalog.
fn problems(catalog: &Catalog) -> BTreeSet<String> {
    let quarantined = catalog
        .quarantined()
        .iter()
        .map(|one| format!("`{}` is quarantined: {}", one.id, one.reason));
    let closed = catalog.entries().iter().flat_map(|entry| {
        let closing = entry.findings().iter().filter(|finding| finding.closes());
        closing.map(move |finding| format!("`{}`: {finding}", entry.id()))
    });
    let findings = catalog.entries().iter().flat_map(Entry::findings);
    let unconfigured = findings.filter_map(|finding| match finding {
        Finding::UnknownUpstream(name) => Some(format!(
            "upstream `{name}` is not configured, so every call of its tools fails; add it to the \
             configuration, or with `callgate upstream set`"
        )),
        _ => None,
    });
    quarantined.chain(closed).chain(unconfigured).collect()
}
