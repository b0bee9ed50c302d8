//! Keeping the snapshots in step with the registry.
//!
//! Two counters in the database say that something changed, whoever changed it; they are asked for
//! every 250 ms. Access and settings are small and read at once; a catalog is made beside the loop,
//! so that a large one holds up no grant. Where a reload fails the last good snapshot stays, and the
//! failure is shown.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate::http::Readiness;
use callgate::mcp::Mcp;
use callgate::{Catalog, Gateway, LOCAL, Method};
use callgate_registry::{
    Assembled, Assembly, CatalogRows, Exposure, Result, Revisions, SessionFollower, Store,
    StoreError, TokenAuthenticator, access, assemble, settings,
};
use tokio::task::JoinHandle;

/// How often the counters are asked for.
const POLL: Duration = Duration::from_millis(250);
/// How often they are asked for at most, when callers have tokens that are not known.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// How often the last use of tokens is written.
const FLUSH_USES: Duration = Duration::from_mins(1);
/// So many problems are named in the log at once.
const MAX_NAMED: usize = 20;

/// Watches the registry, and makes new snapshots when it changes.
#[derive(Debug)]
pub(crate) struct Reloader {
    source: CatalogSource,
    authenticator: Arc<TokenAuthenticator>,
    readiness: Readiness,
    mcp: Arc<Mcp>,
    sessions: SessionFollower,
    seen: Revisions,
    /// A catalog that is being made.
    making: Option<Making>,
    /// Why the last one could not be made; it is tried again.
    catalog_failure: Option<String>,
    told: Told,
}

/// A catalog that is being made, and the revision that asked for it.
#[derive(Debug)]
struct Making {
    revision: i64,
    task: JoinHandle<Result<i64>>,
}

/// What a catalog is made from, besides rows.
#[derive(Debug, Clone)]
pub(crate) struct CatalogSource {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) code: Arc<[Method]>,
    pub(crate) exposure: Exposure,
}

/// What the log was told last, so that it is told once.
#[derive(Debug, Default)]
struct Told {
    settings: BTreeSet<String>,
    failure: Option<String>,
}

impl Reloader {
    pub(crate) fn new(
        source: CatalogSource,
        authenticator: Arc<TokenAuthenticator>,
        readiness: Readiness,
        mcp: Arc<Mcp>,
    ) -> Self {
        Self {
            source,
            authenticator,
            readiness,
            mcp,
            sessions: SessionFollower::default(),
            seen: Revisions::default(),
            making: None,
            catalog_failure: None,
            told: Told::default(),
        }
    }

    /// Reads everything; called once, before anything is served.
    pub(crate) async fn load(&mut self) -> Result<()> {
        self.load_access().await?;
        self.sessions.follow(&*self.source.store, self.mcp.sessions()).await?;
        self.seen.catalog = self.source.make().await?;
        self.readiness.set_ready();
        Ok(())
    }

    /// Watches until the task is dropped.
    pub(crate) async fn run(mut self) {
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut flushed = Instant::now();
        let mut polled_at = tokio::time::Instant::now();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                // A token that is not known may be new: look at once, but not all the time.
                () = self.authenticator.newer_access_wanted() => {
                    tokio::time::sleep_until(polled_at + MIN_PAUSE).await;
                }
            }
            let number = self.authenticator.read_begins();
            let polled = self.poll().await.err().map(described);
            self.authenticator.read_ended(number);
            polled_at = tokio::time::Instant::now();
            match polled.or_else(|| self.catalog_failure.clone()) {
                None => self.tell_success(),
                Some(failure) => self.tell_failure(failure),
            }
            if flushed.elapsed() >= FLUSH_USES {
                flushed = Instant::now();
                flush_uses(&*self.source.store, &self.authenticator).await;
                if let Err(error) = self.sessions.tidy(&*self.source.store).await {
                    tracing::warn!(error = described(error), "cannot forget old sessions");
                }
            }
        }
    }

    async fn poll(&mut self) -> Result<()> {
        let now = self.source.store.revisions().await?;
        if now.access != self.seen.access {
            self.load_access().await?;
        }
        self.sessions.follow(&*self.source.store, self.mcp.sessions()).await?;
        if let Some(making) = self.making.take_if(|making| making.task.is_finished()) {
            match making.task.await {
                Ok(Ok(revision)) => {
                    self.seen.catalog = revision;
                    self.catalog_failure = None;
                }
                Ok(Err(error)) => self.catalog_failure = Some(described(error)),
                // It panicked. The last good catalog stays until something else changes.
                Err(error) => {
                    self.seen.catalog = making.revision;
                    self.catalog_failure = Some(format!("making the catalog failed: {error}"));
                }
            }
        }
        if self.making.is_none() && now.catalog != self.seen.catalog {
            let source = self.source.clone();
            let task = tokio::spawn(async move { source.make().await });
            self.making = Some(Making { revision: now.catalog, task });
        }
        Ok(())
    }

    async fn load_access(&mut self) -> Result<()> {
        let rows = self.source.store.access_rows().await?;
        let (settings, refused) = settings(&rows.settings, &self.source.gateway.settings());
        self.source.gateway.set_settings(Arc::new(settings));
        self.authenticator.set_access(access(&rows));
        self.source.gateway.access_changed();
        self.seen.access = rows.revision;
        let refused = refused.iter().map(ToString::to_string).collect();
        tell_new(&self.told.settings, &refused);
        self.told.settings = refused;
        Ok(())
    }

    fn tell_success(&mut self) {
        self.readiness.set_ready();
        if self.told.failure.take().is_some() {
            tracing::info!("the registry can be read again");
        }
    }

    fn tell_failure(&mut self, failure: String) {
        self.readiness.set_failed("the registry cannot be read; the log says why");
        if self.told.failure.as_ref() != Some(&failure) {
            tracing::error!(
                error = failure,
                "the registry cannot be read; what was read last stays"
            );
            self.told.failure = Some(failure);
        }
    }
}

impl CatalogSource {
    /// Reads the rows, makes a catalog of them and puts it in force. Comes back with its revision.
    async fn make(&self) -> Result<i64> {
        let started = Instant::now();
        let rows = self.store.catalog_rows().await?;
        let revision = rows.revision;
        let source = self.clone();
        // Away from the threads that serve: a large catalog takes a second.
        let assembled = tokio::task::spawn_blocking(move || source.assemble(&rows)).await;
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
            took = ?started.elapsed(),
            "catalog loaded"
        );
        self.gateway.set_catalog(Arc::new(catalog));
        if !new_names.is_empty()
            && let Err(error) = self.store.remember_tool_names(&new_names).await
        {
            tracing::warn!(error = described(error), "cannot remember the names of tools");
        }
        Ok(revision)
    }

    fn assemble(&self, rows: &CatalogRows) -> Assembled {
        let (settings, _) = settings(&rows.settings, &self.gateway.settings());
        let assembly = Assembly {
            code: &self.code,
            exposure: self.exposure,
            prefix: settings.tools_prefix,
            upstreams: &[LOCAL],
            previous: Some(self.gateway.catalog()),
        };
        assemble(rows, assembly)
    }
}

/// An error with its causes.
fn described(error: StoreError) -> String {
    format!("{:#}", anyhow::Error::new(error))
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

/// Logs the problems that were not there before.
fn tell_new(before: &BTreeSet<String>, now: &BTreeSet<String>) {
    let new: Vec<&String> = now.difference(before).collect();
    for problem in new.iter().take(MAX_NAMED) {
        tracing::warn!("{problem}");
    }
    if new.len() > MAX_NAMED {
        tracing::warn!("and {} more", new.len() - MAX_NAMED);
    }
}

/// Writes when tokens were last used.
pub(crate) async fn flush_uses(store: &dyn Store, authenticator: &TokenAuthenticator) {
    let uses = authenticator.take_uses();
    if uses.is_empty() {
        return;
    }
    if let Err(error) = store.touch_tokens(&uses).await {
        tracing::warn!(error = described(error), "cannot note the use of tokens");
    }
}
