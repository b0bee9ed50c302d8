//! The loop that keeps a gateway in step with its registry.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use callgate::Callgate;
use callgate::http::Readiness;
use callgate::mcp::Mcp;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::catalog::CatalogSource;
use super::tell::{Told, described, tell_new};
use super::{Registry, flush_uses};
use crate::access::access;
use crate::assemble::settings;
use crate::authenticate::TokenAuthenticator;
use crate::contact::{Contact, Read, Watched, within};
use crate::credentials::UserCredentials;
use crate::replicas::{Replicas, Shared};
use crate::rows::Revisions;
use crate::store::Result;
use crate::upstreams::RowUpstreams;

/// How often the counters are asked for.
const POLL: Duration = Duration::from_millis(250);
/// Looks are no closer together than this.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between looks while the registry is away. With [`POLL_LIMIT`] it makes two seconds at
/// most from its return until that is noticed.
const MAX_PAUSE: Duration = Duration::from_millis(750);
/// How long the counters may take.
const POLL_LIMIT: Duration = Duration::from_secs(1);
/// How long it may take to read what changed, but for the catalog; more where it did take more, or was
/// cut off.
const LOAD_LIMIT: Duration = Duration::from_secs(2);
const MAX_LOAD_LIMIT: Duration = Duration::from_mins(1);
/// How often the last use of tokens is written.
const FLUSH_USES: Duration = Duration::from_mins(1);
/// Other counters than any registry has.
const UNSEEN: Revisions =
    Revisions { catalog: -1, access: -1, tokens: -1, keys: -1, sessions: -1, messages: -1 };

/// Watches the registry, and makes new snapshots when it changes.
#[derive(Debug)]
pub(super) struct Follower {
    source: CatalogSource,
    authenticator: Arc<TokenAuthenticator>,
    credentials: UserCredentials,
    readiness: Readiness,
    mcp: Arc<Mcp>,
    replicas: Replicas,
    seen: Revisions,
    /// A catalog that is being made.
    making: Option<Making>,
    /// Why the last one could not be made; it is tried again.
    catalog_failure: Option<String>,
    load_limit: Duration,
    /// How many looks in a row have failed.
    failures: u32,
    /// When the last look began and ended.
    looked: (Instant, Instant),
    told: Told,
    told_settings: BTreeSet<String>,
}

/// A catalog that is being made, and the revision that asked for it.
#[derive(Debug)]
struct Making {
    revision: i64,
    /// The rows are there.
    is_read: Arc<AtomicBool>,
    task: JoinHandle<Result<i64>>,
}

impl Follower {
    pub(super) fn new(registry: &Registry, gateway: &Callgate) -> Self {
        let authenticator = registry.authenticator();
        let source = CatalogSource {
            store: Arc::clone(&registry.store),
            gateway: Arc::clone(gateway.gateway()),
            upstreams: Arc::new(RowUpstreams::new(registry.maker.clone())),
            code: gateway.methods().into(),
            exposure: registry.exposure,
            contact: Arc::clone(authenticator.contact()),
        };
        let now = Instant::now();
        Self {
            source,
            authenticator,
            credentials: registry.credentials.clone(),
            readiness: gateway.readiness().clone(),
            mcp: Arc::clone(gateway.mcp()),
            replicas: Replicas::new(registry.max_key_age),
            seen: UNSEEN,
            making: None,
            catalog_failure: None,
            load_limit: LOAD_LIMIT,
            failures: 0,
            looked: (now, now),
            told: Told::default(),
            told_settings: BTreeSet::new(),
        }
    }

    fn contact(&self) -> &Contact {
        self.authenticator.contact()
    }

    /// Reads everything; called once, before anything is served.
    pub(super) async fn load(&mut self) -> Result<()> {
        let made = self.source.make(&AtomicBool::new(false)).await?;
        self.seen.catalog = made.revision;
        let began = Instant::now();
        let now = self.source.store.revisions().await?;
        self.replicas.begin(&now);
        self.load_changes(now).await?;
        self.contact().made(began);
        let contact = Arc::clone(self.authenticator.contact());
        let store = Arc::clone(&self.source.store);
        self.readiness.set_registry(Arc::new(Watched { contact, store }));
        self.readiness.set_ready();
        // With many tools this takes longer than all of the above.
        let source = self.source.clone();
        let (revision, is_read) = (made.revision, Arc::new(AtomicBool::new(true)));
        let task = tokio::spawn(async move { Ok(source.remember(made).await) });
        self.making = Some(Making { revision, is_read, task });
        Ok(())
    }

    /// Watches until the task is dropped.
    pub(super) async fn run(mut self) {
        let mut flushed = Instant::now();
        loop {
            self.pause().await;
            self.look().await;
            if flushed.elapsed() >= FLUSH_USES && !self.contact().is_away() {
                flushed = Instant::now();
                flush_uses(&*self.source.store, &self.authenticator).await;
                if let Err(error) = self.replicas.tidy(&*self.source.store).await {
                    tracing::warn!(error = described(error), "cannot tidy up in the registry");
                }
            }
        }
    }

    /// Until the next look: when it is time, or something is known to be new.
    async fn pause(&mut self) {
        if self.failures > 0 {
            let (pause, left) = (back_off(self.failures), self.contact().honoured_for());
            // The end of the grace is told when it is there, also if the next look goes well.
            sleep(pause.min(left)).await;
            self.told.grace(self.authenticator.contact());
            return sleep(pause.saturating_sub(left)).await;
        }
        let (began, ended) = self.looked;
        let soon = ended + MIN_PAUSE;
        tokio::select! {
            () = sleep_until(soon.max(began + POLL)) => {}
            () = self.authenticator.newer_access_wanted() => sleep_until(soon).await,
            () = self.source.store.changed() => sleep_until(soon).await,
        }
    }

    /// Looks once, and tells how it went.
    async fn look(&mut self) {
        let began = Instant::now();
        let number = self.authenticator.read_begins();
        match self.poll().await {
            Ok(()) => {
                let away_for = self.contact().age().unwrap_or_default();
                self.contact().made(began);
                self.failures = 0;
                self.told.success(away_for);
            }
            Err(error) => {
                self.authenticator.contact().lost();
                self.failures = self.failures.saturating_add(1);
                // What comes back may be another state, under the same numbers.
                self.seen = Revisions { catalog: self.seen.catalog, ..UNSEEN };
                self.replicas.doubt();
                self.told.failure(error, self.authenticator.contact());
            }
        }
        self.told.catalog(self.catalog_failure.as_ref());
        match &self.catalog_failure {
            None => self.readiness.set_ready(),
            Some(_) => {
                self.readiness.set_failed("the catalog cannot be made anew; the log says why");
            }
        }
        self.authenticator.read_ended(number);
        self.looked = (began, Instant::now());
    }

    async fn poll(&mut self) -> Result<()> {
        self.contact().count(Read::Revisions);
        let now = within(POLL_LIMIT, self.source.store.revisions()).await?;
        let (limit, began) = (self.load_limit, Instant::now());
        let loaded = within(limit, self.load_changes(now)).await;
        let took = began.elapsed();
        let wanted = if took < limit { took * 4 } else { limit * 2 };
        self.load_limit = wanted.clamp(limit, MAX_LOAD_LIMIT);
        loaded?;
        self.look_after_catalog(now.catalog).await;
        Ok(())
    }

    /// Reads what changed, but for the catalog.
    async fn load_changes(&mut self, now: Revisions) -> Result<()> {
        if now.tokens != self.seen.tokens {
            let tokens = self.authenticator.tokens();
            if tokens.renew(&*self.source.store, self.authenticator.contact()).await? {
                // Clients that listen look whether they still may.
                self.source.gateway.access_changed();
            }
            self.seen.tokens = now.tokens;
        }
        if now.access != self.seen.access {
            self.load_access().await?;
        }
        let (store, contact) = (&*self.source.store, &**self.authenticator.contact());
        self.replicas.follow(&Shared { store, mcp: &self.mcp, contact }, &now).await
    }

    async fn load_access(&mut self) -> Result<()> {
        self.contact().count(Read::Access);
        let rows = self.source.store.access_rows().await?;
        let (settings, refused) = settings(&rows.settings, &self.source.gateway.settings());
        self.source.gateway.set_settings(Arc::new(settings));
        self.credentials.set(&rows.credentials);
        self.authenticator.set_access(access(&rows));
        self.source.gateway.access_changed();
        self.seen.access = rows.revision;
        let refused = refused.iter().map(ToString::to_string).collect();
        tell_new(&self.told_settings, &refused);
        self.told_settings = refused;
        Ok(())
    }

    /// A catalog is made beside the loop, so that a large one holds up no grant.
    async fn look_after_catalog(&mut self, revision: i64) {
        if self.failures > 0
            && let Some(making) = self.making.take_if(|it| !it.is_read.load(Ordering::SeqCst))
        {
            // It reads from a database that was away meanwhile, and may wait for ever.
            making.task.abort();
        }
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
        if self.making.is_none() && revision != self.seen.catalog {
            let (source, is_read) = (self.source.clone(), Arc::new(AtomicBool::new(false)));
            let noted = Arc::clone(&is_read);
            let task = tokio::spawn(async move {
                let made = source.make(&noted).await?;
                Ok(source.remember(made).await)
            });
            self.making = Some(Making { revision, is_read, task });
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(making) = &self.making {
            making.task.abort();
        }
    }
}

/// The pause after so many failures: longer each time, and not the same for each gateway.
fn back_off(failures: u32) -> Duration {
    let longest = POLL.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(MAX_PAUSE);
    let random = getrandom::u32().unwrap_or_default() % 1000;
    longest / 2 + longest / 2 * random / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_differ_and_have_an_end() {
        for failures in [0, 1, 2, 3, 4, 100, u32::MAX] {
            let pause = back_off(failures);
            assert!(pause >= POLL / 2 && pause <= MAX_PAUSE, "{failures}: {pause:?}");
        }
        assert!(back_off(1) <= POLL);
        let pauses: BTreeSet<Duration> = (0..20).map(|_| back_off(3)).collect();
        assert!(pauses.len() > 1);
    }
}
