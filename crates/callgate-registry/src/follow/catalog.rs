//! Rows and code to the catalog in force.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use callgate::{Catalog, Gateway, Method};

use super::tell::{described, tell_new};
use crate::assemble::{Assembled, Assembly, Exposure, assemble, settings};
use crate::contact::{Contact, Read};
use crate::rows::CatalogRows;
use crate::store::{Result, Store};
use crate::upstreams::RowUpstreams;

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
    pub(super) async fn make(&self, is_read: &AtomicBool) -> Result<Made> {
        let started = Instant::now();
        self.contact.count(Read::Catalog);
        let rows = self.store.catalog_rows().await?;
        is_read.store(true, Ordering::SeqCst);
        let read = started.elapsed();
        let revision = rows.revision;
        let source = self.clone();
        // Away from the threads that serve: a large catalog takes a second.
        let assembled = tokio::task::spawn_blocking(move || {
            let (before, now) = source.upstreams.update(&rows.upstreams, &source.gateway);
            tell_new(&before, &now);
            source.assemble(&rows)
        });
        let assembled = assembled.await;
        let Assembled { catalog, new_names } = match assembled {
            Ok(assembled) => assembled,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program is ending.
                Err(_) => std::future::pending().await,
            },
        };
        tell_new(&problems(&self.gateway.catalog()), &problems(&catalog));
        tracing::info!(
            tools = catalog.len(),
            quarantined = catalog.quarantined().len(),
            ?read,
            took = ?started.elapsed(),
            "catalog loaded"
        );
        self.gateway.set_catalog(Arc::new(catalog));
        Ok(Made { revision, new_names })
    }

    /// Writes down the names that tools were given, so that they keep them.
    pub(super) async fn remember(&self, names: &[(i64, String)]) {
        if let Err(error) = self.store.remember_tool_names(names).await {
            tracing::warn!(error = described(error), "cannot remember the names of tools");
        }
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
