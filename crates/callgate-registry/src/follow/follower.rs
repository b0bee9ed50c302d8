//! The loop that keeps a gateway in step with its registry.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use callgate::Callgate;
use callgate::http::Readiness;
use callgate::mcp::Mcp;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::catalog::{CatalogSource, Made};
use super::log::{Told, described, tell_new};
use super::registry::Registry;
use crate::auth::access::access;
use crate::auth::authenticator::TokenAuthenticator;
use crate::auth::health::{Contact, Read, Watched};
use crate::catalog::assemble::settings;
use crate::db::pool::within;
use crate::follow::credentials::UserCredentials;
use crate::follow::replicas::{Replicas, Shared};
use crate::follow::upstreams::RowUpstreams;
use crate::rows::Revisions;
use crate::store::{Result, StoreError};
use callgate::internal::random_between;

/// How often the counters are asked for.
const POLL: Duration = Duration::from_millis(250);
/// Looks are no closer together than this.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between looks while the registry is away. With [`POLL_LIMIT`] it makes two seconds at
/// most from its return until that is noticed.
const MAX_PAUSE: Duration = Duration::from_millis(750);
/// How long the counters may take.
const POLL_LIMIT: Duration = Duration::from_secs(1);
/// Time limit for reading who may do what: less than tokens are honoured for by default, so that a connection
/// that never answers is noticed before callers are refused.
const RIGHTS_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for what gateways share: keys, sessions, messages.
const SHARED_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for connecting anew.
const CONNECT_LIMIT: Duration = Duration::from_mins(1);
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
    /// Stores the names of tools. Returns the catalog's revision before and after.
    remembering: Option<JoinHandle<Option<(i64, i64)>>>,
    /// What connects anew where a look was too short for that.
    connecting: Option<JoinHandle<()>>,
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
    task: JoinHandle<Result<Made>>,
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
            replicas: Replicas::default(),
            seen: UNSEEN,
            making: None,
            catalog_failure: None,
            remembering: None,
            connecting: None,
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
        let made = self.source.make().await?;
        self.seen.catalog = made.revision;
        let began = Instant::now();
        let now = self.source.store.revisions().await?;
        self.replicas.begin(&now);
        self.load_rights(now).await?;
        self.follow_replicas(&now).await?;
        self.contact().made(began);
        let contact = Arc::clone(self.authenticator.contact());
        let store = Arc::clone(&self.source.store);
        self.readiness.set_check(Arc::new(Watched { contact, store }));
        self.readiness.set_ready();
        // With many tools this takes longer than all of the above.
        self.remember(made.new_names);
        Ok(())
    }

    /// Watches until the task is dropped.
    pub(super) async fn run(mut self) {
        loop {
            self.pause().await;
            self.look().await;
        }
    }

    /// Until the next look: when it is time, or something is known to be new.
    async fn pause(&mut self) {
        if self.failures > 0 {
            let (pause, left) = (back_off(self.failures), self.contact().honoured_for());
            // The end of the grace is told when it is there, also if the next look goes well.
            sleep(pause.min(left)).await;
            self.see_grace();
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
        let away_for = self.contact().age().unwrap_or_default();
        match self.poll(began).await {
            Ok(()) => {
                self.failures = 0;
                self.told.success(away_for);
            }
            Err(error) => self.failed(began, error),
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

    fn failed(&mut self, began: Instant, error: StoreError) {
        self.contact().lost();
        self.failures = self.failures.saturating_add(1);
        self.replicas.doubt();
        self.told.failure(error, self.authenticator.contact());
        self.see_grace();
        if began.elapsed() >= POLL_LIMIT {
            self.connect_anew();
        }
    }

    /// A login may take longer than a look has. So one attempt goes on beside the looks, for as long as
    /// the database's own time limits let it, and the next look finds the connection.
    fn connect_anew(&mut self) {
        if self.connecting.as_ref().is_none_or(JoinHandle::is_finished) {
            let store = Arc::clone(&self.source.store);
            self.connecting = Some(tokio::spawn(async move {
                // The looks tell how it goes.
                let _ = within(CONNECT_LIMIT, store.revisions()).await;
            }));
        }
    }

    /// Once tokens are no longer honoured, clients that listen look whether they still may.
    fn see_grace(&mut self) {
        if self.told.grace(self.authenticator.contact()) {
            self.source.gateway.access_changed();
        }
    }

    async fn poll(&mut self, began: Instant) -> Result<()> {
        self.note_remembered().await;
        let now = match self.poll_rights(began).await {
            Ok(now) => now,
            Err(error) => {
                self.start_over();
                return Err(error);
            }
        };
        // Who may do what is known. The rest may be late, and tokens are honoured meanwhile.
        let shared = within(SHARED_LIMIT, self.follow_replicas(&now)).await;
        self.look_after_catalog(now.catalog).await;
        shared
    }

    async fn poll_rights(&mut self, began: Instant) -> Result<Revisions> {
        self.contact().count(Read::Revisions);
        let now = within(POLL_LIMIT, self.source.store.revisions()).await?;
        if (now.tokens, now.access) != (self.seen.tokens, self.seen.access) {
            within(RIGHTS_LIMIT, self.load_rights(now)).await?;
        }
        let known_since = began.checked_sub(self.source.store.age()).unwrap_or(began);
        self.contact().made(known_since);
        Ok(now)
    }

    /// Forgets what was seen: when the registry is back it may have another state, under the same numbers. A
    /// catalog that is being made reads from a connection that may never answer.
    fn start_over(&mut self) {
        self.seen = UNSEEN;
        self.stop_tasks();
    }

    /// Reads who may do what, where that changed.
    async fn load_rights(&mut self, now: Revisions) -> Result<()> {
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
        Ok(())
    }

    async fn follow_replicas(&mut self, now: &Revisions) -> Result<()> {
        let (store, contact) = (&*self.source.store, &**self.authenticator.contact());
        self.replicas.follow(&Shared { store, mcp: &self.mcp, contact }, now).await
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
        if let Some(making) = self.making.take_if(|making| making.task.is_finished()) {
            match making.task.await {
                Ok(Ok(made)) => {
                    self.seen.catalog = made.revision;
                    self.catalog_failure = None;
                    self.remember(made.new_names);
                }
                Ok(Err(error)) => self.catalog_failure = Some(described(error)),
                // It panicked. The last good catalog stays until something else changes.
                Err(error) => {
                    self.seen.catalog = making.revision;
                    self.catalog_failure = Some(format!("making the catalog failed: {error}"));
                }
            }
        }
        let is_free = self.making.is_none() && self.remembering.is_none();
        if is_free && revision != self.seen.catalog {
            let source = self.source.clone();
            let task = tokio::spawn(async move { source.make().await });
            self.making = Some(Making { revision, task });
        }
    }

    /// Stores names beside all else. Until that is done no other catalog is made: names raise the catalog's
    /// counter, which is no reason to make one.
    fn remember(&mut self, names: Vec<(i64, String)>) {
        if !names.is_empty() {
            let source = self.source.clone();
            self.remembering = Some(tokio::spawn(async move { source.remember(&names).await }));
        }
    }

    /// To be called before the counters are read. The catalog in force has the names that were stored, so it is
    /// as new as the counter says, unless somebody else raised that too.
    async fn note_remembered(&mut self) {
        if let Some(task) = self.remembering.take_if(|task| task.is_finished())
            && let Ok(Some((before, after))) = task.await
            && self.seen.catalog == before
        {
            self.seen.catalog = after;
        }
    }

    fn stop_tasks(&mut self) {
        if let Some(making) = self.making.take() {
            making.task.abort();
        }
        if let Some(remembering) = self.remembering.take() {
            remembering.abort();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop_tasks();
        if let Some(connecting) = &self.connecting {
            connecting.abort();
        }
    }
}

/// The pause after so many failures: longer each time, and not the same for each gateway.
fn back_off(failures: u32) -> Duration {
    let longest = POLL.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(MAX_PAUSE);
    random_between(longest / 2, longest)
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
