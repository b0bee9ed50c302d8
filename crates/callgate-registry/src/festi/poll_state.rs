//! State of polling a Festi database: fingerprints, and counters that increase with changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callgate::access::TokenDigest;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::festi::error::{FestiError, Result};
use crate::festi::fingerprint::Fingerprints;
use crate::festi::layout::{FestiTable, Layout};
use crate::rows::ChangeCounters;

/// Number of low bits of a combined counter that contain the registry's own change counter. The bits above contain
/// the counter of polled changes.
const REGISTRY_BITS: u32 = 40;

/// Tables of the catalog.
pub(super) const CATALOG: [FestiTable; 4] =
    [FestiTable::Methods, FestiTable::Sections, FestiTable::Actions, FestiTable::Settings];
/// Tables of the access snapshot.
pub(super) const ACCESS: [FestiTable; 6] = [
    FestiTable::Users,
    FestiTable::Roles,
    FestiTable::Sections,
    FestiTable::UserGrants,
    FestiTable::RoleGrants,
    FestiTable::Settings,
];

/// Intervals of polling a Festi database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollIntervals {
    /// Interval for permissions, users, tokens and settings.
    pub access: Duration,
    /// Interval for methods.
    pub methods: Duration,
}

impl Default for PollIntervals {
    fn default() -> Self {
        Self { access: Duration::from_secs(1), methods: Duration::from_secs(5) }
    }
}

/// Time by which a poll begins before its interval has passed, so that the poll can end in time.
const SLACK: Duration = Duration::from_millis(250);

/// Combines a change counter of the registry with a counter of polled changes.
pub(super) fn combine(registry: i64, polled: i64) -> i64 {
    registry.wrapping_add(polled.wrapping_shl(REGISTRY_BITS))
}

/// Returns the registry's part of a combined change counter.
pub(crate) fn registry_part(combined: i64) -> i64 {
    combined & ((1 << REGISTRY_BITS) - 1)
}

#[derive(Debug)]
pub(crate) struct PollState {
    intervals: PollIntervals,
    created_at: Instant,
    last_poll: Mutex<LastPoll>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct LastPoll {
    layout: Layout,
    fingerprints: Fingerprints,
    counters: ChangeCounters,
    /// Tokens with their users; `None` before the first read.
    tokens: Option<HashMap<TokenDigest, Option<i64>>>,
    /// Number of tokens that several users share.
    shared_tokens: usize,
    access_polled_at: Option<Instant>,
    methods_polled_at: Option<Instant>,
    /// Error of the last poll.
    failure: Option<FestiError>,
}

impl PollState {
    pub(super) fn new(intervals: PollIntervals) -> Self {
        let (created_at, changed) = (Instant::now(), Notify::new());
        Self { intervals, created_at, last_poll: Mutex::default(), changed }
    }

    fn last_poll(&self) -> MutexGuard<'_, LastPoll> {
        self.last_poll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tables to poll now.
    pub(super) fn due(&self, now: Instant) -> Vec<FestiTable> {
        let [access, methods] = self.next_polls();
        let mut due = Vec::new();
        if access <= now {
            due.extend(FestiTable::ALL.into_iter().filter(|table| *table != FestiTable::Methods));
        }
        if methods <= now {
            due.push(FestiTable::Methods);
        }
        due
    }

    /// Returns the times of the next polls of permissions and of methods.
    pub(super) fn next_polls(&self) -> [Instant; 2] {
        let last_poll = self.last_poll();
        let next = |last: Option<Instant>, interval: Duration| {
            last.map_or(self.created_at, |last| last + interval.saturating_sub(SLACK))
        };
        [
            next(last_poll.access_polled_at, self.intervals.access),
            next(last_poll.methods_polled_at, self.intervals.methods),
        ]
    }

    pub(super) fn layout(&self) -> Layout {
        self.last_poll().layout.clone()
    }

    pub(super) fn set_layout(&self, layout: Layout) {
        self.last_poll().layout = layout;
    }

    /// Returns the counters, or the error of the last poll.
    pub(super) fn counters(&self) -> Result<ChangeCounters> {
        let last_poll = self.last_poll();
        match &last_poll.failure {
            None => Ok(last_poll.counters),
            Some(error) => Err(error.clone()),
        }
    }

    pub(super) fn set_failure(&self, failure: Option<FestiError>) {
        self.last_poll().failure = failure;
    }

    /// Returns how long the poll of permissions and tokens is overdue: the time since the last successful poll
    /// started, minus the poll interval. Returns zero if the poll is not due yet.
    pub(crate) fn age(&self) -> Duration {
        let last = self.last_poll().access_polled_at.unwrap_or(self.created_at);
        last.elapsed().saturating_sub(self.intervals.access)
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns `true` if the fingerprint of tokens changed.
    pub(super) fn tokens_changed(&self, fingerprints: &Fingerprints) -> bool {
        let tokens = fingerprints.get(&FestiTable::Tokens);
        tokens.is_some() && self.last_poll().fingerprints.get(&FestiTable::Tokens) != tokens
    }

    pub(super) fn has_read_tokens(&self) -> bool {
        self.last_poll().tokens.is_some()
    }

    /// Replaces the tokens. A token that several users share is invalid. Returns the number of such tokens, if the
    /// number changed and is not 0.
    pub(super) fn set_tokens(&self, tokens: Vec<(i64, TokenDigest)>) -> Option<usize> {
        let mut owners: HashMap<TokenDigest, Option<i64>> = HashMap::with_capacity(tokens.len());
        for (user, digest) in tokens {
            owners.entry(digest).and_modify(|owner| *owner = None).or_insert(Some(user));
        }
        let shared_tokens = owners.values().filter(|owner| owner.is_none()).count();
        let mut last_poll = self.last_poll();
        last_poll.tokens = Some(owners);
        let previous = std::mem::replace(&mut last_poll.shared_tokens, shared_tokens);
        (shared_tokens > 0 && shared_tokens != previous).then_some(shared_tokens)
    }

    /// Returns the user with this token.
    pub(super) fn owner(&self, digest: &TokenDigest) -> Option<i64> {
        self.last_poll().tokens.as_ref()?.get(digest).copied().flatten()
    }

    /// Records the fingerprints of a poll that began at `started`. Increments the counters of tables that changed.
    pub(super) fn record(
        &self,
        started: Instant,
        layout: Layout,
        fingerprints: &Fingerprints,
    ) -> ChangeCounters {
        let mut last_poll = self.last_poll();
        let last_poll = &mut *last_poll;
        let (mut catalog, mut access, mut tokens) = (false, false, false);
        for (table, fingerprint) in fingerprints {
            let previous = last_poll.fingerprints.insert(*table, *fingerprint);
            if previous.is_none_or(|previous| previous == *fingerprint) {
                continue;
            }
            catalog |= CATALOG.contains(table);
            access |= ACCESS.contains(table);
            tokens |= *table == FestiTable::Tokens;
        }
        last_poll.counters.catalog += i64::from(catalog);
        last_poll.counters.access += i64::from(access);
        last_poll.counters.tokens += i64::from(tokens);
        if catalog || access || tokens {
            self.changed.notify_one();
        }
        last_poll.layout = layout;
        if fingerprints.contains_key(&FestiTable::Methods) {
            last_poll.methods_polled_at = Some(started);
        }
        if fingerprints.contains_key(&FestiTable::Tokens) {
            last_poll.access_polled_at = Some(started);
        }
        last_poll.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprints(entries: &[(FestiTable, u64)]) -> Fingerprints {
        entries.iter().copied().collect()
    }

    #[test]
    fn a_recorded_change_increments_the_counters_that_depend_on_the_table() {
        let state = PollState::new(PollIntervals::default());
        let record = |table, fingerprint| {
            let counters = state.record(
                Instant::now(),
                Layout::default(),
                &fingerprints(&[(table, fingerprint)]),
            );
            (counters.catalog, counters.access, counters.tokens)
        };
        assert_eq!(record(FestiTable::Methods, 1), (0, 0, 0), "the first is no change");
        assert_eq!(record(FestiTable::Methods, 2), (1, 0, 0));
        assert_eq!(record(FestiTable::Methods, 2), (1, 0, 0));
        record(FestiTable::Sections, 1);
        assert_eq!(record(FestiTable::Sections, 2), (2, 1, 0));
        record(FestiTable::Tokens, 1);
        assert_eq!(record(FestiTable::Tokens, 2), (2, 1, 1));
        // A change back to the earlier content is a change too.
        assert_eq!(record(FestiTable::Methods, 1), (3, 1, 1));
    }

    #[test]
    fn permissions_are_polled_within_a_second_and_methods_less_often() {
        let (state, started) = (PollState::new(PollIntervals::default()), Instant::now());
        assert_eq!(state.due(started).len(), FestiTable::ALL.len());
        let all = FestiTable::ALL.map(|table| (table, 0));
        state.record(started, Layout::default(), &fingerprints(&all));
        let due = |milliseconds| state.due(started + Duration::from_millis(milliseconds));
        assert_eq!(due(500), []);
        assert!(
            due(750).contains(&FestiTable::UserGrants) && !due(750).contains(&FestiTable::Methods)
        );
        assert!(due(4750).contains(&FestiTable::Methods));
    }

    #[test]
    fn a_token_that_two_users_share_is_invalid_and_reported_once() {
        let state = PollState::new(PollIntervals::default());
        let digest = TokenDigest::of;
        let tokens = vec![(1, digest("a")), (2, digest("b")), (3, digest("a"))];
        assert_eq!(state.set_tokens(tokens.clone()), Some(1));
        assert_eq!(state.set_tokens(tokens), None, "reported once");
        assert_eq!([state.owner(&digest("a")), state.owner(&digest("b"))], [None, Some(2)]);
    }

    #[test]
    fn combined_counters_differ_with_each_part_and_contain_the_registrys_part() {
        assert_ne!(combine(7, 1), combine(8, 0));
        assert_ne!(combine(7, 1), combine(7, 2));
        assert_eq!(registry_part(combine(7, 3)), 7);
    }
}
