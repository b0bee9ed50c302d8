//! Rows and code to the catalog in force.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate::catalog::Catalog;
use callgate::gateway::Gateway;
use callgate::model::Method;
use tokio::task::JoinSet;

use super::log::{described, tell_new};
use crate::auth::health::{Contact, Read};
use crate::catalog::assemble::{Assembled, Assembly, Exposure, assemble, settings};
use crate::db::pool::within;
use crate::follow::upstreams::RowUpstreams;
use crate::rows::CatalogRows;
use crate::store::Result;
use crate::store::Store;

/// Time limit for storing the names of tools.
const NAMES_LIMIT: Duration = Duration::from_mins(1);

/// What a catalog is made from, besides rows.
#[derive(Debug, Clone)]
pub(super) struct CatalogSource {
    pub(super) store: Arc<dyn Store>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) upstreams: Arc<RowUpstreams>,
    pub(super) code: Arc<[Method]>,
    pub(super) exposure: Exposure,
    pub(super) contact: Arc<Contact>,
}

/// A catalog that is in force.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) revision: i64,
    /// By row number, what is to be remembered.
    pub(super) new_names: Vec<(i64, String)>,
}

impl CatalogSource {
    /// Reads the rows, makes a catalog of them and puts it in force.
    pub(super) async fn make(&self) -> Result<Made> {
        let started = Instant::now();
        self.contact.count(Read::Catalog);
        let rows = self.store.catalog_rows().await?;
        let read = started.elapsed();
        let revision = rows.revision;
        let source = self.clone();
        // Away from the threads that serve: a large catalog takes a second. A set, so that it is not begun if
        // this is dropped.
        let mut assembling = JoinSet::new();
        assembling.spawn_blocking(move || source.put_in_force(&rows, started, read));
        let new_names = match assembling.join_next().await {
            Some(Ok(new_names)) => new_names,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The program is ending.
            Some(Err(_)) | None => std::future::pending().await,
        };
        Ok(Made { revision, new_names })
    }

    /// Makes the upstreams and the catalog of rows and puts both in force, also if nobody waits for it any more:
    /// the one names the other. Returns the names that are to be remembered.
    fn put_in_force(
        &self,
        rows: &CatalogRows,
        started: Instant,
        read: Duration,
    ) -> Vec<(i64, String)> {
        let (before, now) = self.upstreams.update(&rows.upstreams, &self.gateway);
        tell_new(&before, &now);
        let Assembled { catalog, new_names } = self.assemble(rows);
        tell_new(&problems(&self.gateway.catalog()), &problems(&catalog));
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

    /// Stores the names that tools were given, so that they keep them. Returns the catalog's revision before and
    /// after, if nobody else changed it in between.
    pub(super) async fn remember(&self, names: &[(i64, String)]) -> Option<(i64, i64)> {
        let remembered = within(NAMES_LIMIT, self.store.remember_tool_names(names)).await;
        remembered.unwrap_or_else(|error| {
            tracing::warn!(error = described(error), "cannot remember the names of tools");
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

/// What is not served, or to nobody, a sentence each.
fn problems(catalog: &Catalog) -> BTreeSet<String> {
    let quarantined = catalog
        .quarantined()
        .iter()
        .map(|one| format!("`{}` is quarantined: {}", one.id, one.reason));
    let closed = catalog.entries().iter().flat_map(|entry| {
        let closing = entry.findings().iter().filter(|finding| finding.closes());
        closing.map(move |finding| format!("`{}`: {finding}", entry.id()))
    });
    quarantined.chain(closed).collect()
}
