//! Keeping the snapshots in step with the registry.
//!
//! Two counters in the database say that something changed, whoever changed it; they are asked for
//! every 250 ms. Where a reload fails the last good snapshot stays, and the failure is shown.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate::http::Readiness;
use callgate::{Catalog, Gateway, LOCAL, Method};
use callgate_registry::{
    Assembled, Assembly, Exposure, Result, Revisions, Store, TokenAuthenticator, access, assemble,
    settings,
};

/// How often the counters are asked for.
const POLL: Duration = Duration::from_millis(250);
/// How often the last use of tokens is written.
const FLUSH_USES: Duration = Duration::from_mins(1);
/// So many quarantined methods are named in the log.
const MAX_NAMED: usize = 20;

/// Watches the registry, and makes new snapshots when it changes.
#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) authenticator: Arc<TokenAuthenticator>,
    pub(crate) readiness: Readiness,
    pub(crate) code: Arc<[Method]>,
    pub(crate) exposure: Exposure,
    seen: Revisions,
    told: Told,
}

/// What the log was told last, so that it is told once.
#[derive(Debug, Default)]
struct Told {
    problems: BTreeSet<String>,
    failure: Option<String>,
}

impl Reloader {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        gateway: Arc<Gateway>,
        authenticator: Arc<TokenAuthenticator>,
        readiness: Readiness,
        code: &[Method],
        exposure: Exposure,
    ) -> Self {
        Self {
            store,
            gateway,
            authenticator,
            readiness,
            code: code.into(),
            exposure,
            seen: Revisions::default(),
            told: Told::default(),
        }
    }

    /// Reads everything; called once, before anything is served.
    pub(crate) async fn load(&mut self) -> Result<()> {
        self.load_access().await?;
        self.load_catalog().await?;
        self.readiness.set_ready();
        Ok(())
    }

    /// Watches until the task is dropped.
    pub(crate) async fn run(mut self) {
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut flushed = Instant::now();
        loop {
            ticks.tick().await;
            match self.poll().await {
                Ok(()) => {
                    self.readiness.set_ready();
                    if self.told.failure.take().is_some() {
                        tracing::info!("the registry can be read again");
                    }
                }
                Err(error) => self.tell_failure(&anyhow::Error::new(error)),
            }
            if flushed.elapsed() >= FLUSH_USES {
                flushed = Instant::now();
                flush_uses(&*self.store, &self.authenticator).await;
            }
        }
    }

    async fn poll(&mut self) -> Result<()> {
        let now = self.store.revisions().await?;
        if now.access != self.seen.access {
            self.load_access().await?;
        }
        if now.catalog != self.seen.catalog {
            self.load_catalog().await?;
        }
        Ok(())
    }

    async fn load_access(&mut self) -> Result<()> {
        let rows = self.store.access_rows().await?;
        self.authenticator.set_access(access(&rows));
        self.seen.access = rows.revision;
        Ok(())
    }

    async fn load_catalog(&mut self) -> Result<()> {
        let started = Instant::now();
        let rows = self.store.catalog_rows().await?;
        let revision = rows.revision;
        let (settings, refused) = settings(&rows, &self.gateway.settings());
        let prefix = settings.tools_prefix.clone();
        self.gateway.set_settings(Arc::new(settings));
        let code = Arc::clone(&self.code);
        let (exposure, previous) = (self.exposure, self.gateway.catalog());
        // Away from the threads that serve: a large catalog takes a second.
        let assembled = tokio::task::spawn_blocking(move || {
            let assembly = Assembly {
                code: &code,
                exposure,
                prefix,
                upstreams: &[LOCAL],
                previous: Some(previous),
            };
            (assemble(&rows, assembly), rows)
        });
        let Ok((Assembled { catalog, new_names, rejected_types }, rows)) = assembled.await else {
            // It panicked, and said so; the last good catalog stays.
            self.seen.catalog = revision;
            return Ok(());
        };
        let types = rejected_types.iter().map(|(name, why)| format!("class `{name}`: {why}"));
        let problems = types.chain(refused.iter().map(ToString::to_string)).collect();
        self.tell_problems(&catalog, problems);
        tracing::info!(
            tools = catalog.len(),
            quarantined = catalog.quarantined().len(),
            rows = rows.methods.len(),
            took = ?started.elapsed(),
            "catalog loaded"
        );
        self.gateway.set_catalog(Arc::new(catalog));
        self.seen.catalog = revision;
        if !new_names.is_empty() {
            self.store.remember_tool_names(&new_names).await?;
        }
        Ok(())
    }

    fn tell_problems(&mut self, catalog: &Catalog, problems: Vec<String>) {
        let quarantined = catalog
            .quarantined()
            .iter()
            .map(|one| format!("method `{}` is quarantined: {}", one.id, one.reason));
        let problems: BTreeSet<String> = problems.into_iter().chain(quarantined).collect();
        let new: Vec<&String> = problems.difference(&self.told.problems).collect();
        for problem in new.iter().take(MAX_NAMED) {
            tracing::warn!("{problem}");
        }
        if new.len() > MAX_NAMED {
            tracing::warn!("and {} more", new.len() - MAX_NAMED);
        }
        self.told.problems = problems;
    }

    fn tell_failure(&mut self, error: &anyhow::Error) {
        let failure = format!("{error:#}");
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

/// Writes when tokens were last used.
pub(crate) async fn flush_uses(store: &dyn Store, authenticator: &TokenAuthenticator) {
    let uses = authenticator.take_uses();
    if uses.is_empty() {
        return;
    }
    if let Err(error) = store.touch_tokens(&uses).await {
        tracing::warn!(error = %anyhow::Error::new(error), "cannot note the use of tokens");
    }
}
