//! Limits the number of concurrent calls of single tools: [`RunningCalls`].

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::shares::{Division, Principal};
use super::tool_limits::{LimitValue, ToolLimits};

/// Counts the running calls of tools that have a limit.
#[derive(Debug, Default)]
pub(crate) struct RunningCalls {
    counts: Arc<Mutex<Counts>>,
    hasher: RandomState,
}

/// Number of running calls by key. Keys without running calls are absent.
type Counts = HashMap<CountKey, usize>;

/// Identifies a count: the principal (`None` for all principals together), and a hash of the method and the limit. The
/// hash is seeded at random.
type CountKey = (Option<Principal>, u64);

/// A running call. It is counted until this value is dropped.
#[derive(Debug)]
pub(crate) struct RunningCallGuard {
    counts: Arc<Mutex<Counts>>,
    keys: Vec<CountKey>,
}

/// A call was refused because too many calls of the tool are running. Nothing was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyCalls {
    limit: u32,
    per_caller: bool,
}

impl fmt::Display for TooManyCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_caller = if self.per_caller { " per caller" } else { "" };
        write!(
            f,
            "Too many calls of this tool are running: the limit is {}{per_caller}. Nothing was run.",
            self.limit
        )
    }
}

impl RunningCalls {
    /// Counts a call of a method until the returned value is dropped. Each of `servers` servers allows an equal part of
    /// a limit, at least one call. A limit that all callers share is divided among the callers as in
    /// [`Shares`](super::Shares).
    pub(crate) fn begin(
        &self,
        limits: &ToolLimits,
        principal: Principal,
        method: &str,
        servers: u32,
    ) -> Result<RunningCallGuard, TooManyCalls> {
        let mut counts = lock(&self.counts);
        let mut keys = Vec::new();
        for limit in limits.of(method) {
            let LimitValue::Concurrent(max) = limit.value else { continue };
            // The hash excludes the value of the limit, so that running calls still count after the value changes.
            let (hash, per_caller) =
                (self.hasher.hash_one((method, limit.scope())), limit.per_caller);
            let (total_key, caller_key) = ((None, hash), (Some(principal), hash));
            let count = |key| counts.get(&key).copied().unwrap_or_default();
            let share = max.div_ceil(servers) as usize;
            let is_allowed = if per_caller {
                count(caller_key) < share
            } else {
                Division::new(share).allows(principal, count(total_key), count(caller_key), 1)
            };
            if !is_allowed {
                return Err(TooManyCalls { limit: max, per_caller });
            }
            keys.push(caller_key);
            keys.extend((!per_caller).then_some(total_key));
        }
        for key in &keys {
            *counts.entry(*key).or_default() += 1;
        }
        drop(counts);
        Ok(RunningCallGuard { counts: Arc::clone(&self.counts), keys })
    }
}

impl Drop for RunningCallGuard {
    fn drop(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let mut counts = lock(&self.counts);
        for key in &self.keys {
            if let Some(count) = counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(key);
                }
            }
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Principal = Principal::User(1);
    const BOB: Principal = Principal::User(2);

    fn limits(text: &str) -> ToolLimits {
        text.parse().unwrap()
    }

    #[test]
    fn calls_are_counted_per_tool_and_caller_until_they_end() {
        let (calls, limits) = (RunningCalls::default(), limits("mail.* 1 concurrent per caller"));
        let begin = |principal, method| calls.begin(&limits, principal, method, 1);
        let first = begin(ALICE, "mail.send").unwrap();
        let refused = begin(ALICE, "mail.send").unwrap_err();
        assert_eq!(refused, TooManyCalls { limit: 1, per_caller: true });
        let other_calls =
            [begin(ALICE, "mail.read"), begin(BOB, "mail.send"), begin(ALICE, "other")];
        assert!(other_calls.iter().all(Result::is_ok));
        drop((first, other_calls));
        assert!(begin(ALICE, "mail.send").is_ok());
        assert!(lock(&calls.counts).is_empty());
    }

    #[test]
    fn a_limit_that_callers_share_leaves_calls_for_other_callers() {
        let (calls, limits) = (RunningCalls::default(), limits("* 8 concurrent"));
        let begin_all = |principal| -> Vec<RunningCallGuard> {
            std::iter::from_fn(|| calls.begin(&limits, principal, "a", 1).ok()).collect()
        };
        let (alice, bob) = (begin_all(ALICE), begin_all(BOB));
        assert_eq!((alice.len(), bob.len()), (6, 1));
        assert!(calls.begin(&limits, Principal::User(3), "a", 1).is_ok(), "one more is free");
    }

    #[test]
    fn a_refused_call_counts_against_no_limit() {
        let calls = RunningCalls::default();
        let limits = limits("a 2 concurrent, a 1 concurrent per caller");
        let running = calls.begin(&limits, ALICE, "a", 1).unwrap();
        assert!(calls.begin(&limits, ALICE, "a", 1).is_err());
        assert!(calls.begin(&limits, BOB, "a", 1).is_ok());
        drop(running);
        assert!(lock(&calls.counts).is_empty());
    }

    #[test]
    fn servers_divide_a_limit_and_a_changed_limit_counts_running_calls() {
        let calls = RunningCalls::default();
        let _running = calls.begin(&limits("a 3 concurrent"), ALICE, "a", 2).unwrap();
        let _second = calls.begin(&limits("a 3 concurrent"), BOB, "a", 2).unwrap();
        assert!(calls.begin(&limits("a 3 concurrent"), BOB, "a", 2).is_err());
        assert!(calls.begin(&limits("a 2 concurrent"), BOB, "a", 1).is_err());
        assert!(calls.begin(&limits("a 3 concurrent"), BOB, "a", 1).is_ok());
    }
}
