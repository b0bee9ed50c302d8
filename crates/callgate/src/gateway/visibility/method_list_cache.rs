//! Cache of the methods that one service lists for its callers.
//!
//! A list is valid for [`MethodLister::max_age`](crate::upstream::MethodLister::max_age) after it was requested. After
//! half of that time, the next use of the list starts a request in the background. An expired list is used only while
//! the service fails or does not answer in time, and at most for [`MAX_STALE`] after it expired.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::Denial;
use crate::access::{Caller, MethodSet, MethodSets, Shares, VisibleMethods};
use crate::lru_cache::LruCache;
use crate::upstream::{CallerMethods, DEFAULT_CALL_TIMEOUT, Identity, ListError, Upstream};

/// Maximum number of cached callers of a service.
pub(super) const MAX_CALLERS: usize = 10_000;
/// Maximum number of concurrent requests to a service. Callers share the limit, and further requests wait.
pub(super) const MAX_REQUESTS: usize = 4;
/// Minimum time between two requests for one caller after a failure or a denied call.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time after the expiry of a list in which the list is still used while the service is unavailable.
pub(super) const MAX_STALE: Duration = Duration::from_mins(15);

/// The methods that one service lists for its callers.
pub(super) struct MethodListCache {
    pub(super) name: Arc<str>,
    upstream: Arc<dyn Upstream>,
    max_age: Duration,
    callers: LruCache<Identity, Arc<CallerEntry>>,
    sets: MethodSets,
    /// Empty list, for callers without an identity at the service.
    empty: Arc<VisibleMethods>,
    /// Placeholder for callers whose list is unknown. Hides all methods.
    unknown: Arc<VisibleMethods>,
    requests: Arc<Shares>,
    /// Whether the last request failed, for whichever caller. Only the first failure and the next success are logged
    /// above level debug.
    is_failing: AtomicBool,
    /// Incremented when the methods of a caller change.
    changes: watch::Sender<u64>,
}

/// The list of one caller.
#[derive(Debug, Default)]
struct CallerEntry {
    state: Mutex<ListState>,
    /// Notified when a request ends.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct ListState {
    /// The last list, and the time at which it was requested.
    list: Option<(Arc<VisibleMethods>, Instant)>,
    /// Start of the current request.
    pending_since: Option<Instant>,
    /// Time of the last failure; `None` after a success.
    failed_at: Option<Instant>,
    /// Whether a call has been denied since the last request.
    is_stale: bool,
    /// Methods that were denied during the current request.
    denied: Vec<String>,
    /// Whether methods are hidden because the list is unknown.
    was_hidden: bool,
    /// Whether the service refused to list methods for the caller.
    is_refused: bool,
}

/// State of a caller's list.
enum ListStatus {
    Valid(Arc<VisibleMethods>),
    /// A request has been in progress since this time.
    Pending(Instant),
    /// The last request failed recently.
    Unavailable,
}

impl MethodListCache {
    pub(super) fn new(
        name: &Arc<str>,
        upstream: &Arc<dyn Upstream>,
        max_age: Duration,
        changes: watch::Sender<u64>,
    ) -> Self {
        let sets = MethodSets::default();
        let visible = |methods| Arc::new(VisibleMethods::new([(Arc::clone(name), methods)]));
        Self {
            name: Arc::clone(name),
            upstream: Arc::clone(upstream),
            max_age,
            callers: LruCache::new(MAX_CALLERS),
            empty: visible(Some(sets.of(&[]))),
            unknown: visible(None),
            sets,
            requests: Shares::new(MAX_REQUESTS),
            is_failing: AtomicBool::new(false),
            changes,
        }
    }

    pub(super) fn is_for(&self, name: &Arc<str>, upstream: &Arc<dyn Upstream>) -> bool {
        self.name == *name && Arc::ptr_eq(&self.upstream, upstream)
    }

    /// Returns the methods that the service lists for a caller. If the list is unknown, waits for it up to `max_wait`.
    pub(super) async fn lookup(
        self: &Arc<Self>,
        caller: &Caller,
        max_wait: Duration,
    ) -> Arc<VisibleMethods> {
        let identity = match self.identity(caller).await {
            Some(Some(identity)) => identity,
            Some(None) => return Arc::clone(&self.empty),
            None => return Arc::clone(&self.unknown),
        };
        let entry = self.callers.get_or_insert_with(identity, Arc::default);
        match self.status(&entry, caller) {
            ListStatus::Valid(visible) => return visible,
            // The waiting time begins with the request to the service, so that later lookups wait only for the rest.
            ListStatus::Pending(since) if since.elapsed() < max_wait => {
                let list = self.pending_list(&entry, caller);
                if let Ok(Some(visible)) = timeout_at(since + max_wait, list).await {
                    return visible;
                }
            }
            ListStatus::Pending(_) | ListStatus::Unavailable => {}
        }
        let stale = entry.lock().stale_list(self.max_age.saturating_add(MAX_STALE));
        stale.unwrap_or_else(|| Arc::clone(&self.unknown))
    }

    /// Returns the caller's identity at the service. The outer `None` means that the lookup failed, the inner `None`
    /// that the caller has no identity.
    async fn identity(&self, caller: &Caller) -> Option<Option<Identity>> {
        let identity = self.upstream.method_lister()?.identity(caller).await;
        if let Err(error) = &identity {
            let (upstream, caller) = (&*self.name, caller.name());
            tracing::warn!(upstream, caller, %error, "failed to look up the caller's credential");
        }
        identity.ok()
    }

    /// Waits for the current request. Returns `None` if the request fails.
    async fn pending_list(
        self: &Arc<Self>,
        entry: &Arc<CallerEntry>,
        caller: &Caller,
    ) -> Option<Arc<VisibleMethods>> {
        // Subscribes before the status is checked, so that the end of the request is not missed.
        let mut ended = entry.ended.subscribe();
        loop {
            match self.status(entry, caller) {
                ListStatus::Valid(visible) => return Some(visible),
                ListStatus::Unavailable => return None,
                ListStatus::Pending(_) => ended.changed().await.ok()?,
            }
        }
    }

    /// Returns the state of a caller's list. Starts a new request if one is due.
    fn status(self: &Arc<Self>, entry: &Arc<CallerEntry>, caller: &Caller) -> ListStatus {
        let now = Instant::now();
        let mut state = entry.lock();
        if state.is_due(now, self.max_age) {
            (state.pending_since, state.is_stale) = (Some(now), false);
            state.denied.clear();
            let (cache, entry) = (Arc::clone(self), Arc::clone(entry));
            tokio::spawn(cache.request(entry, caller.clone()));
        }
        match (&state.list, state.pending_since) {
            (Some((visible, requested)), _) if now - *requested < self.max_age => {
                ListStatus::Valid(Arc::clone(visible))
            }
            (_, Some(since)) => ListStatus::Pending(since),
            (_, None) => ListStatus::Unavailable,
        }
    }

    /// Requests the list of a caller and stores it.
    async fn request(self: Arc<Self>, entry: Arc<CallerEntry>, caller: Caller) {
        // Ends the request even if this function panics.
        let mut pending = PendingListRequest { entry: &entry, has_reply: false };
        let Ok(_share) = self.requests.acquire(caller.principal()).await else { return };
        let requested = Instant::now();
        let limit = self.upstream.time_limit().unwrap_or(DEFAULT_CALL_TIMEOUT);
        let reply = match self.upstream.method_lister() {
            Some(lister) => timeout(limit, lister.methods(&caller))
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {limit:?}").into())),
            None => Ok(CallerMethods::Listed(Vec::new())),
        };
        self.log_failure(&caller, reply.as_ref().err());
        let is_changed = match reply {
            Ok(reply) => {
                pending.has_reply = true;
                let ids = self.ids(&entry, &caller, reply);
                entry.lock().store(&self, &ids, requested)
            }
            Err(_) => false,
        };
        drop(pending);
        if is_changed {
            self.notify();
        }
    }

    /// Returns the method ids of a reply, or no ids if the service refused to list them. Logs a refusal, unless the
    /// previous reply for this entry was also a refusal.
    fn ids(&self, entry: &CallerEntry, caller: &Caller, reply: CallerMethods) -> Vec<String> {
        let (ids, reason) = match reply {
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
                "service refused to list methods for the caller"
            );
        }
        ids
    }

    /// Logs the first failure as a warning, further failures at level debug, and the next success.
    fn log_failure(&self, caller: &Caller, error: Option<&ListError>) {
        let was_failing = self.is_failing.swap(error.is_some(), Ordering::Relaxed);
        let (upstream, caller) = (&*self.name, caller.name());
        match error {
            Some(error) if was_failing => {
                tracing::debug!(upstream, caller, %error, "failed to list the service's methods");
            }
            Some(error) => tracing::warn!(
                upstream, caller, %error,
                "failed to list the service's methods, using the previous lists for up to {} minutes",
                MAX_STALE.as_secs() / 60
            ),
            None if was_failing => tracing::info!(upstream, "service lists its methods again"),
            None => {}
        }
    }

    /// Hides a method that the service denied to the caller. If the denial is not certain, or if callers share the
    /// anonymous identity, the list is requested again instead.
    pub(super) async fn record_denial(&self, caller: &Caller, id: &str, denial: Denial) {
        let Some(Some(identity)) = self.identity(caller).await else { return };
        let Some(entry) = self.callers.get(&identity) else { return };
        if denial == Denial::Possible || identity == Identity::ANONYMOUS {
            entry.lock().is_stale = true;
        } else if entry.lock().hide(self, id) {
            self.notify();
        }
    }

    fn notify(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn visible(&self, methods: Arc<MethodSet>) -> Arc<VisibleMethods> {
        Arc::new(VisibleMethods::new([(Arc::clone(&self.name), Some(methods))]))
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.callers.len(), self.sets.count())
    }
}

impl CallerEntry {
    fn lock(&self) -> MutexGuard<'_, ListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListState {
    /// Returns the last list, unless it is older than `max_age`.
    fn stale_list(&mut self, max_age: Duration) -> Option<Arc<VisibleMethods>> {
        let list = self.list.as_ref().filter(|(_, requested)| requested.elapsed() < max_age);
        let visible = list.map(|(visible, _)| Arc::clone(visible));
        self.was_hidden |= visible.is_none();
        visible
    }

    fn is_due(&self, now: Instant, max_age: Duration) -> bool {
        let is_paused = |failed: Instant| now - failed < RETRY_INTERVAL;
        if self.pending_since.is_some() || self.failed_at.is_some_and(is_paused) {
            return false;
        }
        let Some((_, requested)) = &self.list else { return true };
        let age = now - *requested;
        age >= max_age / 2 || (self.is_stale && age >= RETRY_INTERVAL)
    }

    /// Stores a list. Returns `true` if the methods that the caller sees change.
    fn store(&mut self, cache: &MethodListCache, ids: &[String], requested: Instant) -> bool {
        let mut methods = cache.sets.of(ids);
        for id in std::mem::take(&mut self.denied) {
            methods = cache.sets.without(&methods, &id);
        }
        let is_empty = methods.is_empty();
        let visible = cache.visible(methods);
        let is_changed = match &self.list {
            Some((previous, _)) => *previous != visible || self.was_hidden,
            None => self.was_hidden && !is_empty,
        };
        self.list = Some((visible, requested));
        (self.failed_at, self.was_hidden) = (None, false);
        is_changed
    }

    /// Hides a method. Returns `true` if it was visible.
    fn hide(&mut self, cache: &MethodListCache, id: &str) -> bool {
        self.is_stale = true;
        if self.pending_since.is_some() && !self.denied.iter().any(|denied| denied == id) {
            self.denied.push(id.to_owned());
        }
        let Some((visible, _)) = &mut self.list else { return false };
        match visible.of(&cache.name) {
            Some(Some(methods)) if methods.contains(id) => {
                *visible = cache.visible(cache.sets.without(methods, id));
                true
            }
            _ => false,
        }
    }
}

/// A request in progress. If it is dropped without a reply, it counts as failed.
struct PendingListRequest<'a> {
    entry: &'a CallerEntry,
    has_reply: bool,
}

impl Drop for PendingListRequest<'_> {
    fn drop(&mut self) {
        let mut state = self.entry.lock();
        state.pending_since = None;
        if !self.has_reply {
            state.failed_at = Some(Instant::now());
        }
        drop(state);
        self.entry.ended.send_replace(());
    }
}

impl fmt::Debug for MethodListCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MethodListCache").field("name", &self.name).finish_non_exhaustive()
    }
}
