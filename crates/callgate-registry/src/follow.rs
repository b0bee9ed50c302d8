//! A gateway that follows a registry: its snapshots are kept in step with the rows.
//!
//! Two counters in the database say that something changed, whoever changed it; they are asked for
//! every 250 ms. Access and settings are small and read at once; a catalog is made beside the loop,
//! so that a large one holds up no grant. Where a reload fails the last good snapshot stays, and the
//! failure is shown.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate::http::Readiness;
use callgate::mcp::{Mcp, Sessions};
use callgate::{Callgate, Catalog, Gateway, Method, Section};
use tokio::task::JoinHandle;

use crate::assemble::{Assembled, Assembly, Exposure, assemble, settings};
use crate::authenticate::{TokenAuthenticator, access};
use crate::credentials::UserCredentials;
use crate::rows::{CatalogRows, Revisions};
use crate::sessions::{SessionFollower, StoredSessions, session_keys};
use crate::store::{Result, Store, StoreError};
use crate::upstreams::{MakeUpstream, RowUpstreams};

/// How often the counters are asked for.
const POLL: Duration = Duration::from_millis(250);
/// How often they are asked for at most, when callers have tokens that are not known.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// How often the last use of tokens is written.
const FLUSH_USES: Duration = Duration::from_mins(1);
/// So many problems are named in the log at once.
const MAX_NAMED: usize = 20;

/// A registry to be followed: who callers are, what they may do, and what is said of methods.
///
/// ```no_run
/// use std::sync::Arc;
/// use callgate::{Callgate, method, methods};
/// use callgate_registry::{DatabaseOptions, DatabaseUrl, Registry, SqlStore};
///
/// /// Looks up a user.
/// #[method(id = "user.get", section("users", read), read_only)]
/// fn get_user(id_user: i64) -> String {
///     format!("user {id_user}")
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let url: DatabaseUrl = "sqlite:registry.db".parse()?;
/// let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await?;
/// let registry = Registry::new(Arc::new(store));
/// let gateway = Callgate::builder()
///     .methods(methods![get_user])
///     .authenticate(registry.authenticator())
///     .sessions(registry.sessions().await?)
///     .build()?;
/// let following = registry.follow(&gateway).await?;
/// gateway.serve("127.0.0.1:8080").await?;
/// following.end().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    store: Arc<dyn Store>,
    authenticator: Arc<TokenAuthenticator>,
    credentials: UserCredentials,
    maker: Option<Arc<dyn MakeUpstream>>,
    exposure: Exposure,
}

impl Registry {
    /// The registry in a database.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            authenticator: Arc::default(),
            credentials: UserCredentials::default(),
            maker: None,
            exposure: Exposure::default(),
        }
    }

    /// Says which methods are tools where a row does not.
    #[must_use]
    pub fn exposure(mut self, exposure: Exposure) -> Self {
        self.exposure = exposure;
        self
    }

    /// Says who makes upstreams of rows; without one they are quarantined.
    #[must_use]
    pub fn upstreams_by(mut self, maker: Arc<dyn MakeUpstream>) -> Self {
        self.maker = Some(maker);
        self
    }

    /// The database.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Knows callers by their tokens, once the registry is followed.
    pub fn authenticator(&self) -> Arc<TokenAuthenticator> {
        Arc::clone(&self.authenticator)
    }

    /// What users are known by at services, once the registry is followed.
    pub fn credentials(&self) -> &UserCredentials {
        &self.credentials
    }

    /// Sessions that outlive the process, and are good on each gateway of this registry.
    pub async fn sessions(&self) -> Result<Sessions> {
        let keeper = Arc::new(StoredSessions(Arc::clone(&self.store)));
        Ok(Sessions::new(session_keys(&*self.store).await?).kept_by(keeper))
    }

    /// Reads everything, puts it in force, and keeps it in step from then on. Where code and rows name
    /// the same method, code owns what it takes, and the row may change its texts, its safety, the masks
    /// that it needs and whether it is shown.
    pub async fn follow(&self, gateway: &Callgate) -> Result<Following> {
        self.ensure_sections(gateway.sections()).await?;
        let mut follower = Follower::new(self, gateway);
        follower.load().await?;
        let (store, authenticator) = (Arc::clone(&self.store), self.authenticator());
        Ok(Following { task: tokio::spawn(follower.run()), store, authenticator })
    }

    /// Sections that code names must be there before anybody can be granted something on them.
    async fn ensure_sections(&self, sections: &[Section]) -> Result<()> {
        let idents: Vec<String> = sections.iter().map(ToString::to_string).collect();
        if idents.is_empty() { Ok(()) } else { self.store.ensure_sections(&idents).await }
    }
}

/// A registry that is being followed, until this is dropped.
#[derive(Debug)]
#[must_use = "when this is dropped, nothing is followed any more"]
pub struct Following {
    task: JoinHandle<()>,
    store: Arc<dyn Store>,
    authenticator: Arc<TokenAuthenticator>,
}

impl Following {
    /// Ends it, and writes down what is not written yet: when tokens were last used.
    pub async fn end(self) {
        self.task.abort();
        flush_uses(&*self.store, &self.authenticator).await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches the registry, and makes new snapshots when it changes.
#[derive(Debug)]
struct Follower {
    source: CatalogSource,
    authenticator: Arc<TokenAuthenticator>,
    credentials: UserCredentials,
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
struct CatalogSource {
    store: Arc<dyn Store>,
    gateway: Arc<Gateway>,
    upstreams: Arc<RowUpstreams>,
    code: Arc<[Method]>,
    exposure: Exposure,
}

/// What the log was told last, so that it is told once.
#[derive(Debug, Default)]
struct Told {
    settings: BTreeSet<String>,
    failure: Option<String>,
}

impl Follower {
    fn new(registry: &Registry, gateway: &Callgate) -> Self {
        let source = CatalogSource {
            store: Arc::clone(&registry.store),
            gateway: Arc::clone(gateway.gateway()),
            upstreams: Arc::new(RowUpstreams::new(registry.maker.clone())),
            code: gateway.methods().into(),
            exposure: registry.exposure,
        };
        Self {
            source,
            authenticator: registry.authenticator(),
            credentials: registry.credentials.clone(),
            readiness: gateway.readiness().clone(),
            mcp: Arc::clone(gateway.mcp()),
            sessions: SessionFollower::default(),
            seen: Revisions::default(),
            making: None,
            catalog_failure: None,
            told: Told::default(),
        }
    }

    /// Reads everything; called once, before anything is served.
    async fn load(&mut self) -> Result<()> {
        self.load_access().await?;
        self.sessions.follow(&*self.source.store, self.mcp.sessions()).await?;
        self.seen.catalog = self.source.make().await?;
        self.readiness.set_ready();
        Ok(())
    }

    /// Watches until the task is dropped.
    async fn run(mut self) {
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
        if (now.access, now.tokens) != (self.seen.access, self.seen.tokens) {
            self.load_access().await?;
            self.seen.tokens = now.tokens;
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
        self.credentials.set(&rows.credentials);
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

/// An error with its causes.
#[expect(clippy::needless_pass_by_value, reason = "fits map")]
fn described(error: StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
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
async fn flush_uses(store: &dyn Store, authenticator: &TokenAuthenticator) {
    let uses = authenticator.take_uses();
    if uses.is_empty() {
        return;
    }
    if let Err(error) = store.touch_tokens(&uses).await {
        tracing::warn!(error = described(error), "cannot note the use of tokens");
    }
}
