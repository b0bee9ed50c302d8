//! State of polling a Festi database: fingerprints, and counters that increase with changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callgate::access::TokenDigest;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::festi::error::{FestiError, Result};
use crate::festi::fingerprint::Fingerprints;
use crate::festi::layout::{Layout, Table};
use crate::rows::ChangeCounters;

/// Number of low bits for the registry's own change counter. The polled counter uses the bits above.
const OWN_BITS: u32 = 40;

/// Tables of the catalog.
pub(super) const CATALOG: [Table; 4] =
    [Table::Methods, Table::Sections, Table::Actions, Table::Settings];
/// Tables of the access snapshot.
pub(super) const ACCESS: [Table; 6] = [
    Table::Users,
    Table::Roles,
    Table::Sections,
    Table::UserGrants,
    Table::RoleGrants,
    Table::Settings,
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

/// Time by which a poll begins earlier, to allow for its duration.
const SLACK: Duration = Duration::from_millis(250);

/// Combines a change counter of the registry with a counter of polled changes.
pub(super) fn combined(own: i64, number: i64) -> i64 {
    own.wrapping_add(number.wrapping_shl(OWN_BITS))
}

/// Returns the registry's part of a combined change counter.
pub(crate) fn own_part(combined: i64) -> i64 {
    combined & ((1 << OWN_BITS) - 1)
}

#[derive(Debug)]
pub(crate) struct PollState {
    every: PollIntervals,
    begun: Instant,
    seen: Mutex<LastPoll>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct LastPoll {
    layout: Layout,
    fingerprints: Fingerprints,
    numbers: ChangeCounters,
    /// Tokens with their users; `None` before the first read.
    tokens: Option<HashMap<TokenDigest, Option<i64>>>,
    /// Number of tokens that several users share.
    shared: usize,
    access_polled_at: Option<Instant>,
    methods_polled_at: Option<Instant>,
    /// Error of the last poll.
    failure: Option<FestiError>,
}

impl PollState {
    pub(super) fn new(every: PollIntervals) -> Self {
        let (begun, changed) = (Instant::now(), Notify::new());
        Self { every, begun, seen: Mutex::default(), changed }
    }

    fn seen(&self) -> MutexGuard<'_, LastPoll> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tables to poll now.
    pub(super) fn due(&self, now: Instant) -> Vec<Table> {
        let [access, methods] = self.next_polls();
        let mut due = Vec::new();
        if access <= now {
            due.extend(Table::ALL.into_iter().filter(|table| *table != Table::Methods));
        }
        if methods <= now {
            due.push(Table::Methods);
        }
        due
    }

    /// Returns the times of the next polls of permissions and of methods.
    pub(super) fn next_polls(&self) -> [Instant; 2] {
        let seen = self.seen();
        let next = |last: Option<Instant>, every: Duration| {
            last.map_or(self.begun, |last| last + every.saturating_sub(SLACK))
        };
        [
            next(seen.access_polled_at, self.every.access),
            next(seen.methods_polled_at, self.every.methods),
        ]
    }

    pub(super) fn layout(&self) -> Layout {
        self.seen().layout.clone()
    }

    pub(super) fn set_layout(&self, layout: Layout) {
        self.seen().layout = layout;
    }

    /// Returns the counters, or the error of the last poll.
    pub(super) fn numbers(&self) -> Result<ChangeCounters> {
        let seen = self.seen();
        match &seen.failure {
            None => Ok(seen.numbers),
            Some(error) => Err(error.clone()),
        }
    }

    pub(super) fn set_failure(&self, failure: Option<FestiError>) {
        self.seen().failure = failure;
    }

    /// Returns how long the poll of permissions and tokens is overdue: the time since the last successful poll
    /// started, minus the poll interval. Returns zero if the poll is not due yet.
    pub(crate) fn age(&self) -> Duration {
        let last = self.seen().access_polled_at.unwrap_or(self.begun);
        last.elapsed().saturating_sub(self.every.access)
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns `true` if the fingerprint of tokens changed.
    pub(super) fn has_other_tokens(&self, fingerprints: &Fingerprints) -> bool {
        let tokens = fingerprints.get(&Table::Tokens);
        tokens.is_some() && self.seen().fingerprints.get(&Table::Tokens) != tokens
    }

    pub(super) fn knows_tokens(&self) -> bool {
        self.seen().tokens.is_some()
    }

    /// Replaces the tokens. A token that several users share is invalid. Returns the number of such tokens, if the
    /// number changed and is not 0.
    pub(super) fn set_tokens(&self, tokens: Vec<(i64, TokenDigest)>) -> Option<usize> {
        let mut known: HashMap<TokenDigest, Option<i64>> = HashMap::with_capacity(tokens.len());
        for (user, digest) in tokens {
            known.entry(digest).and_modify(|owner| *owner = None).or_insert(Some(user));
        }
        let shared = known.values().filter(|owner| owner.is_none()).count();
        let mut seen = self.seen();
        seen.tokens = Some(known);
        let before = std::mem::replace(&mut seen.shared, shared);
        (shared > 0 && shared != before).then_some(shared)
    }

    /// Returns the user with this token.
    pub(super) fn owner(&self, digest: &TokenDigest) -> Option<i64> {
        self.seen().tokens.as_ref()?.get(digest).copied().flatten()
    }

    /// Records the fingerprints of a poll that began at `begun`. Increments the counters of tables that changed.
    pub(super) fn note(
        &self,
        begun: Instant,
        layout: Layout,
        now: &Fingerprints,
    ) -> ChangeCounters {
        let mut seen = self.seen();
        let seen = &mut *seen;
        let (mut catalog, mut access, mut tokens) = (false, false, false);
        for (table, fingerprint) in now {
            let before = seen.fingerprints.insert(*table, *fingerprint);
            if before.is_none_or(|before| before == *fingerprint) {
                continue;
            }
            catalog |= CATALOG.contains(table);
            access |= ACCESS.contains(table);
            tokens |= *table == Table::Tokens;
        }
        seen.numbers.catalog += i64::from(catalog);
        seen.numbers.access += i64::from(access);
        seen.numbers.tokens += i64::from(tokens);
        if catalog || access || tokens {
            self.changed.notify_one();
        }
        seen.layout = layout;
        if now.contains_key(&Table::Methods) {
            seen.methods_polled_at = Some(begun);
        }
        if now.contains_key(&Table::Tokens) {
            seen.access_polled_at = Some(begun);
        }
        seen.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(fingerprints: &[(Table, u64)]) -> Fingerprints {
        fingerprints.iter().copied().collect()
    }

    #[test]
    fn each_change_raises_what_is_made_from_it() {
        let watch = PollState::new(PollIntervals::default());
        let note = |table, fingerprint| {
            let numbers =
                watch.note(Instant::now(), Layout::default(), &seen(&[(table, fingerprint)]));
            (numbers.catalog, numbers.access, numbers.tokens)
        };
        assert_eq!(note(Table::Methods, 1), (0, 0, 0), "the first is no change");
        assert_eq!(note(Table::Methods, 2), (1, 0, 0));
        assert_eq!(note(Table::Methods, 2), (1, 0, 0));
        note(Table::Sections, 1);
        assert_eq!(note(Table::Sections, 2), (2, 1, 0));
        note(Table::Tokens, 1);
        assert_eq!(note(Table::Tokens, 2), (2, 1, 1));
        // A change back to the earlier content is a change too.
        assert_eq!(note(Table::Methods, 1), (3, 1, 1));
    }

    #[test]
    fn permissions_are_looked_at_within_a_second_and_methods_more_rarely() {
        let (watch, begun) = (PollState::new(PollIntervals::default()), Instant::now());
        assert_eq!(watch.due(begun).len(), Table::ALL.len());
        let all = Table::ALL.map(|table| (table, 0));
        watch.note(begun, Layout::default(), &seen(&all));
        let due = |milliseconds| watch.due(begun + Duration::from_millis(milliseconds));
        assert_eq!(due(500), []);
        assert!(due(750).contains(&Table::UserGrants) && !due(750).contains(&Table::Methods));
        assert!(due(4750).contains(&Table::Methods));
    }

    #[test]
    fn what_two_users_have_is_nobodys_token() {
        let watch = PollState::new(PollIntervals::default());
        let digest = TokenDigest::of;
        let tokens = vec![(1, digest("a")), (2, digest("b")), (3, digest("a"))];
        assert_eq!(watch.set_tokens(tokens.clone()), Some(1));
        assert_eq!(watch.set_tokens(tokens), None, "reported once");
        assert_eq!([watch.owner(&digest("a")), watch.owner(&digest("b"))], [None, Some(2)]);
    }

    #[test]
    fn a_combined_revision_differs_where_either_does_and_gives_ours_back() {
        assert_ne!(combined(7, 1), combined(8, 0));
        assert_ne!(combined(7, 1), combined(7, 2));
        assert_eq!(own_part(combined(7, 3)), 7);
    }
}
