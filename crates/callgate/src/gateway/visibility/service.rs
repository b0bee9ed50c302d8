//! What one service lists for its callers, kept in memory.
//!
//! An answer counts for [`MethodLister::max_age`] from when its question was sent. From half of that on,
//! the next use asks again in the background. An older answer is used only while the service is away,
//! which is when the last question failed or is not answered in time, and for [`AWAY`] at most. Nobody waits
//! longer for a question than its time allows, however often it is waited for.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::Denial;
use crate::access::Caller;
use crate::access::{MethodSet, MethodSets, VisibleMethods};
use crate::upstream::DEFAULT_CALL_TIMEOUT;
use crate::upstream::Upstream;
use crate::upstream::{CallerMethods, Identity, ListError};

/// Maximum number of callers that are remembered for a service.
pub(super) const MAX_CALLERS: u64 = 10_000;
/// Maximum number of questions to a service at once; more wait.
pub(super) const MAX_QUESTIONS: usize = 4;
/// Minimum time between two questions for one caller, where the first failed or a call was denied.
pub(super) const RETRY: Duration = Duration::from_secs(5);
/// How long after its age the last answer counts while the service is away.
pub(super) const AWAY: Duration = Duration::from_mins(15);

/// What one service lists for its callers.
pub(super) struct Service {
    pub(super) name: Arc<str>,
    upstream: Arc<dyn Upstream>,
    max_age: Duration,
    callers: Cache<Identity, Arc<Entry>>,
    sets: MethodSets,
    /// For those for whom it lists nothing.
    nothing: Arc<VisibleMethods>,
    /// For those of whom it is not known what it lists.
    unknown: Arc<VisibleMethods>,
    places: Semaphore,
    /// Whether the last question of any caller failed: told once.
    is_failing: AtomicBool,
    /// Raised when a caller's tools are others.
    changes: watch::Sender<u64>,
}

/// What is known of one caller.
#[derive(Debug, Default)]
struct Entry {
    state: Mutex<State>,
    /// Raised when a question has ended.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<Known>,
    /// Since when a question is under way.
    asking: Option<Instant>,
    /// When the last question failed; `None` after one that did not.
    failed: Option<Instant>,
    /// Whether a call was denied since the last question was sent.
    is_doubted: bool,
    /// Methods that were denied while a question was under way.
    denied: Vec<String>,
    /// Whether somebody was shown nothing, since nothing was known.
    was_closed: bool,
    /// Whether the last answer was a refusal.
    is_refused: bool,
}

/// The last answer.
#[derive(Debug)]
struct Known {
    methods: Arc<MethodSet>,
    /// The same, as requests have it.
    visible: Arc<VisibleMethods>,
    /// When the question was sent.
    asked: Instant,
}

/// What can be said of a caller at once.
enum Look {
    /// An answer that counts.
    Good(Arc<VisibleMethods>),
    /// A question is under way, since then.
    Asking(Instant),
    /// The last question failed, not long ago.
    Away,
}

impl Service {
    pub(super) fn new(
        name: &Arc<str>,
        upstream: &Arc<dyn Upstream>,
        max_age: Duration,
        changes: watch::Sender<u64>,
    ) -> Self {
        let sets = MethodSets::default();
        Self {
            name: Arc::clone(name),
            upstream: Arc::clone(upstream),
            max_age,
            callers: Cache::builder()
                .max_capacity(MAX_CALLERS)
                // The newest always gets a place.
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            nothing: visible(name, Some(sets.of(&[]))),
            unknown: visible(name, None),
            sets,
            places: Semaphore::new(MAX_QUESTIONS),
            is_failing: AtomicBool::new(false),
            changes,
        }
    }

    /// Whether it is the service of this upstream.
    pub(super) fn is(&self, name: &Arc<str>, upstream: &Arc<dyn Upstream>) -> bool {
        self.name == *name && Arc::ptr_eq(&self.upstream, upstream)
    }

    /// What the service lists for a caller.
    pub(super) async fn visible(
        self: &Arc<Self>,
        caller: &Caller,
        patience: Duration,
    ) -> Arc<VisibleMethods> {
        self.known(caller, patience).await.unwrap_or_else(|| Arc::clone(&self.unknown))
    }

    async fn known(
        self: &Arc<Self>,
        caller: &Caller,
        patience: Duration,
    ) -> Option<Arc<VisibleMethods>> {
        let Some(identity) = self.identity(caller).await? else {
            return Some(Arc::clone(&self.nothing));
        };
        let entry = match self.callers.get(&identity) {
            Some(entry) => entry,
            None => self.callers.get_with(identity, Arc::default),
        };
        match self.look(&entry, caller) {
            Look::Good(visible) => return Some(visible),
            Look::Asking(since) if since.elapsed() < patience => {
                let answer = self.answer(&entry, caller);
                if let Ok(Some(visible)) = timeout_at(since + patience, answer).await {
                    return Some(visible);
                }
            }
            Look::Asking(_) | Look::Away => {}
        }
        entry.last_known(self.max_age.saturating_add(AWAY))
    }

    /// Who the caller is to the service; the outer `None` where that cannot be told.
    async fn identity(&self, caller: &Caller) -> Option<Option<Identity>> {
        let identity = self.upstream.method_lister()?.identity(caller).await;
        if let Err(error) = &identity {
            let (upstream, caller) = (&*self.name, caller.name());
            tracing::warn!(upstream, caller, %error, "the caller's credential cannot be looked up");
        }
        identity.ok()
    }

    /// Waits for the question under way; `None` where it failed.
    async fn answer(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        caller: &Caller,
    ) -> Option<Arc<VisibleMethods>> {
        // Before the look, so that no end is missed.
        let mut ended = entry.ended.subscribe();
        loop {
            match self.look(entry, caller) {
                Look::Good(visible) => return Some(visible),
                Look::Away => return None,
                Look::Asking(_) => ended.changed().await.ok()?,
            }
        }
    }

    /// What can be said at once. Starts a question where one is due.
    fn look(self: &Arc<Self>, entry: &Arc<Entry>, caller: &Caller) -> Look {
        let now = Instant::now();
        let mut state = entry.lock();
        if state.is_due(now, self.max_age) {
            (state.asking, state.is_doubted) = (Some(now), false);
            state.denied.clear();
            let (service, entry) = (Arc::clone(self), Arc::clone(entry));
            tokio::spawn(service.ask(entry, caller.clone()));
        }
        match (&state.known, state.asking) {
            (Some(known), _) if now - known.asked < self.max_age => {
                Look::Good(Arc::clone(&known.visible))
            }
            (_, Some(since)) => Look::Asking(since),
            (_, None) => Look::Away,
        }
    }

    /// Asks the service, and takes its answer.
    async fn ask(self: Arc<Self>, entry: Arc<Entry>, caller: Caller) {
        // Ends the question also where this panics.
        let mut question = Question { entry: &entry, is_answered: false };
        let Ok(_place) = self.places.acquire().await else { return };
        let asked = Instant::now();
        let limit = self.upstream.time_limit().unwrap_or(DEFAULT_CALL_TIMEOUT);
        let answer = match self.upstream.method_lister() {
            Some(lists) => timeout(limit, lists.methods(&caller))
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {limit:?}").into())),
            None => Ok(CallerMethods::Listed(Vec::new())),
        };
        self.tell(&caller, answer.as_ref().err());
        let is_other = match answer {
            Ok(answer) => {
                question.is_answered = true;
                let ids = self.ids(&entry, &caller, answer);
                entry.lock().take(&self, &ids, asked)
            }
            Err(_) => false,
        };
        drop(question);
        if is_other {
            self.changed();
        }
    }

    /// Returns the ids of an answer. The log is told once that a caller is refused.
    fn ids(&self, entry: &Entry, caller: &Caller, answer: CallerMethods) -> Vec<String> {
        let (ids, reason) = match answer {
            CallerMethods::Listed(ids) => (ids, None),
            CallerMethods::Refused(reason) => (Vec::new(), Some(reason)),
        };
        let was_refused = std::mem::replace(&mut entry.lock().is_refused, reason.is_some());
        if let Some(reason) = reason.filter(|_| !was_refused) {
            let (upstream, caller) = (&*self.name, caller.name());
            tracing::warn!(
                upstream,
                caller,
                reason,
                "the service refuses the caller its list of methods"
            );
        }
        ids
    }

    /// Tells the log that questions fail, and that they no longer do; each once.
    fn tell(&self, caller: &Caller, error: Option<&ListError>) {
        let was_failing = self.is_failing.swap(error.is_some(), Ordering::Relaxed);
        let (upstream, caller) = (&*self.name, caller.name());
        match error {
            Some(error) if was_failing => {
                tracing::debug!(upstream, caller, %error, "the service does not list its methods");
            }
            Some(error) => tracing::warn!(
                upstream, caller, %error,
                "the service does not list its methods; callers see what it listed before, \
                 for {} minutes at most", AWAY.as_secs() / 60
            ),
            None if was_failing => tracing::info!(upstream, "the service lists its methods again"),
            None => {}
        }
    }

    /// Takes a method out that the service denied the caller. Where callers share an identity, one of them
    /// takes nothing from the others: the service is asked again.
    pub(super) async fn denied(&self, caller: &Caller, id: &str, denial: Denial) {
        let Some(Some(identity)) = self.identity(caller).await else { return };
        let Some(entry) = self.callers.get(&identity) else { return };
        if denial == Denial::Possible || identity == Identity::ANONYMOUS {
            entry.lock().is_doubted = true;
        } else if entry.lock().deny(self, id) {
            self.changed();
        }
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> (u64, usize) {
        self.callers.run_pending_tasks();
        (self.callers.entry_count(), self.sets.count())
    }
}

/// What one service lists, as a limit.
fn visible(name: &Arc<str>, methods: Option<Arc<MethodSet>>) -> Arc<VisibleMethods> {
    Arc::new(VisibleMethods::new([(Arc::clone(name), methods)]))
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last answer unless it is older than this.
    fn last_known(&self, limit: Duration) -> Option<Arc<VisibleMethods>> {
        let mut state = self.lock();
        let known = state.known.as_ref().filter(|known| known.asked.elapsed() < limit);
        let visible = known.map(|known| Arc::clone(&known.visible));
        state.was_closed |= visible.is_none();
        visible
    }
}

impl State {
    /// Whether the service is to be asked.
    fn is_due(&self, now: Instant, max_age: Duration) -> bool {
        let is_paused = |failed: Instant| now - failed < RETRY;
        if self.asking.is_some() || self.failed.is_some_and(is_paused) {
            return false;
        }
        let Some(known) = &self.known else { return true };
        let age = now - known.asked;
        age >= max_age / 2 || (self.is_doubted && age >= RETRY)
    }

    /// Takes an answer; whether it shows other methods than before.
    fn take(&mut self, service: &Service, ids: &[String], asked: Instant) -> bool {
        let mut methods = service.sets.of(ids);
        for id in std::mem::take(&mut self.denied) {
            methods = service.sets.without(&methods, &id);
        }
        let is_other = match &self.known {
            Some(known) => known.methods != methods || self.was_closed,
            None => self.was_closed && !methods.is_empty(),
        };
        let visible = visible(&service.name, Some(Arc::clone(&methods)));
        self.known = Some(Known { methods, visible, asked });
        (self.failed, self.was_closed) = (None, false);
        is_other
    }

    /// Takes a method out; whether it was there.
    fn deny(&mut self, service: &Service, id: &str) -> bool {
        self.is_doubted = true;
        if self.asking.is_some() && !self.denied.iter().any(|known| known == id) {
            self.denied.push(id.to_owned());
        }
        match &mut self.known {
            Some(known) if known.methods.contains(id) => {
                known.methods = service.sets.without(&known.methods, id);
                known.visible = visible(&service.name, Some(Arc::clone(&known.methods)));
                true
            }
            _ => false,
        }
    }
}

/// A question under way. One that ends without an answer has failed.
struct Question<'a> {
    entry: &'a Entry,
    is_answered: bool,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut state = self.entry.lock();
        state.asking = None;
        if !self.is_answered {
            state.failed = Some(Instant::now());
        }
        drop(state);
        self.entry.ended.send_replace(());
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("name", &self.name).finish_non_exhaustive()
    }
}
