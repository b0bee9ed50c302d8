//! Limits the rate of requests, by the generic cell rate algorithm (GCRA): [`RateLimiter`].

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::rate_limits::{ActiveLimits, Rate, SESSION_CHANGES};
use super::shares::Principal;
use super::tool_limits::LimitValue;
use crate::wire::jsonrpc::RpcError;

/// Maximum number of keys in a map of buckets. All further keys share one bucket.
const MAX_KEYS: usize = 65_536;

/// Full buckets are removed only from maps that have at least this many keys.
const MIN_SWEPT_KEYS: usize = 1_024;

/// Minimum interval between two removals of the full buckets of a map, in nanoseconds.
const SWEEP_INTERVAL: u64 = 1_000_000_000;

/// Minimum interval between log lines about the same bucket, in nanoseconds.
const LOG_INTERVAL: u64 = 60_000_000_000;

/// The limit that refused a request.
///
/// Part of a [`RateLimited`]. [`RateLimits`](super::RateLimits) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// All requests of the caller.
    Caller,
    /// All requests of all callers.
    Total,
    /// All calls of the tool.
    Tool,
    /// The caller's calls of the tool.
    CallerTool,
    /// The caller's changes of sessions.
    SessionChanges,
}

impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caller => "requests per caller",
            Self::Total => "requests of all callers",
            Self::Tool => "calls of this tool",
            Self::CallerTool => "calls of this tool per caller",
            Self::SessionChanges => "changes of sessions per caller",
        })
    }
}

/// A request that exceeds a rate limit. Nothing was run.
///
/// Part of a [`CallError::RateLimited`](crate::upstream::CallError::RateLimited). [`RateLimits`](super::RateLimits)
/// has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "Too many requests: the limit of {scope} is {rate}. Nothing was run; try again in {retry_after} s."
)]
pub struct RateLimited {
    /// The limit that was exceeded.
    pub scope: LimitScope,
    /// The rate of the exceeded limit.
    pub rate: Rate,
    /// Seconds to wait, at least 1.
    pub retry_after: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BucketKey {
    Total,
    Caller(Principal),
    /// Hash of a method's id and a limit, seeded at random.
    Tool(u64),
    CallerTool(Principal, u64),
    /// Shared by all keys beyond [`MAX_KEYS`].
    Overflow,
}

impl RateLimited {
    pub(crate) fn to_rpc(self) -> RpcError {
        RpcError::limit_exceeded(self.to_string(), self.retry_after)
    }
}

/// Counts requests against limits that may change at any time.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    started: Instant,
    /// Buckets of addresses. They are separate from the buckets of users, so that clients with many addresses cannot
    /// displace the buckets of users.
    address_buckets: Mutex<Buckets>,
    other_buckets: Mutex<Buckets>,
    hasher: RandomState,
    /// Number of servers that share the limits.
    servers: AtomicU32,
    refused: AtomicU64,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            address_buckets: Mutex::default(),
            other_buckets: Mutex::default(),
            hasher: RandomState::new(),
            servers: AtomicU32::new(1),
            refused: AtomicU64::new(0),
        }
    }
}

impl RateLimiter {
    /// Counts a request against the limit of the caller, then against the limit of all callers. A request that exceeds
    /// the caller's limit does not count against the limit of all callers.
    pub(crate) fn count_request(
        &self,
        limits: &ActiveLimits,
        principal: Principal,
    ) -> Result<(), RateLimited> {
        self.count_caller_request(limits, principal)?;
        match limits.total {
            Some(rate) => self.count(BucketKey::Total, LimitScope::Total, rate, principal),
            None => Ok(()),
        }
    }

    /// Counts a request against the limit of the caller only.
    pub(crate) fn count_caller_request(
        &self,
        limits: &ActiveLimits,
        principal: Principal,
    ) -> Result<(), RateLimited> {
        match limits.per_caller {
            Some(rate) => {
                self.count(BucketKey::Caller(principal), LimitScope::Caller, rate, principal)
            }
            None => Ok(()),
        }
    }

    /// Counts a call of a method, in addition to [`count_request`](Self::count_request).
    pub(crate) fn count_call(
        &self,
        limits: &ActiveLimits,
        principal: Principal,
        method: &str,
    ) -> Result<(), RateLimited> {
        if limits.tools.is_empty() {
            return Ok(());
        }
        for per_caller in [true, false] {
            for limit in limits.tools.of(method).filter(|limit| limit.per_caller == per_caller) {
                let LimitValue::Rate(rate) = limit.value else { continue };
                let hash = self.hasher.hash_one((method, limit));
                let (key, scope) = if per_caller {
                    (BucketKey::CallerTool(principal, hash), LimitScope::CallerTool)
                } else {
                    (BucketKey::Tool(hash), LimitScope::Tool)
                };
                self.count(key, scope, rate, principal)?;
            }
        }
        Ok(())
    }

    /// Counts a change of a session. Must be called on a limiter that counts nothing else.
    pub(crate) fn count_session_change(&self, principal: Principal) -> Result<(), RateLimited> {
        self.count(
            BucketKey::Caller(principal),
            LimitScope::SessionChanges,
            SESSION_CHANGES,
            principal,
        )
    }

    /// Sets the number of servers that share the limits.
    pub(crate) fn set_servers(&self, servers: u32) {
        self.servers.store(servers.max(1), Ordering::Relaxed);
    }

    pub(crate) fn servers(&self) -> u32 {
        self.servers.load(Ordering::Relaxed)
    }

    /// Returns the number of refused requests.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn count(
        &self,
        key: BucketKey,
        scope: LimitScope,
        rate: Rate,
        principal: Principal,
    ) -> Result<(), RateLimited> {
        let now = nanoseconds(self.started.elapsed());
        let share = rate.share(self.servers());
        let buckets = match key {
            BucketKey::Caller(caller) | BucketKey::CallerTool(caller, _)
                if caller.is_anonymous() =>
            {
                &self.address_buckets
            }
            _ => &self.other_buckets,
        };
        let Err(refusal) =
            buckets.lock().unwrap_or_else(PoisonError::into_inner).take(key, share, now)
        else {
            return Ok(());
        };
        self.refused.fetch_add(1, Ordering::Relaxed);
        let retry_after = refusal.wait.div_ceil(1_000_000_000).max(1);
        if refusal.is_first {
            tracing::warn!(caller = %principal, limit = %scope, %rate, retry_after, "rate limit exceeded");
        }
        Err(RateLimited { scope, rate, retry_after })
    }
}

#[derive(Debug, Default)]
struct Buckets {
    /// The hash function is seeded and takes a tenth of the time of `SipHash`.
    by_key: HashMap<BucketKey, Bucket, foldhash::fast::RandomState>,
    swept_at: u64,
}

/// A bucket that fills up at the rate of its limit. A full bucket has the same effect as no bucket.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Time at which the bucket is full, in nanoseconds. GCRA calls it the "theoretical arrival time" of the next
    /// request.
    full_at: u64,
    logged_at: Option<u64>,
}

/// A refusal of a request by an empty bucket.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    /// Nanoseconds until the bucket allows a request.
    wait: u64,
    /// Whether this refusal is to be logged: no other refusal by the bucket was logged within [`LOG_INTERVAL`].
    is_first: bool,
}

impl Buckets {
    fn take(
        &mut self,
        key: BucketKey,
        (interval, burst): (u64, u64),
        now: u64,
    ) -> Result<(), Refusal> {
        let bucket = match self.by_key.get_mut(&key) {
            Some(bucket) => bucket,
            None => self.insert(key, now),
        };
        let capacity = interval.saturating_mul(burst);
        // If the rate was lower when the bucket was last used, more than the current capacity can be missing.
        let missing = bucket.full_at.saturating_sub(now).min(capacity);
        bucket.full_at = now.saturating_add(missing);
        let missing = missing.saturating_add(interval);
        if missing <= capacity {
            bucket.full_at = now.saturating_add(missing);
            return Ok(());
        }
        let is_first = bucket.logged_at.is_none_or(|at| now.saturating_sub(at) >= LOG_INTERVAL);
        if is_first {
            bucket.logged_at = Some(now);
        }
        Err(Refusal { wait: missing - capacity, is_first })
    }

    fn insert(&mut self, key: BucketKey, now: u64) -> &mut Bucket {
        if self.by_key.len() >= MIN_SWEPT_KEYS
            && now.saturating_sub(self.swept_at) >= SWEEP_INTERVAL
        {
            self.by_key.retain(|_, bucket| bucket.full_at > now);
            self.swept_at = now;
        }
        let key = if self.by_key.len() < MAX_KEYS { key } else { BucketKey::Overflow };
        self.by_key.entry(key).or_default()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ALICE: BucketKey = BucketKey::Caller(Principal::User(1));
    const BOB: BucketKey = BucketKey::Caller(Principal::User(2));

    fn share(rate: &str) -> (u64, u64) {
        rate.parse::<Rate>().unwrap().share(1)
    }

    fn count_admitted(buckets: &mut Buckets, key: BucketKey, rate: &str, now: u64) -> usize {
        (0..1_000).take_while(|_| buckets.take(key, share(rate), now).is_ok()).count()
    }

    #[test]
    fn a_bucket_allows_the_burst_and_then_the_rate() {
        let mut buckets = Buckets::default();
        assert_eq!(count_admitted(&mut buckets, ALICE, "10/s burst 20", 0), 20);
        assert_eq!(
            count_admitted(&mut buckets, BOB, "10/s burst 20", 0),
            20,
            "callers count separately"
        );
        let refusal = buckets.take(ALICE, share("10/s burst 20"), 0).unwrap_err();
        assert_eq!(refusal, Refusal { wait: SECOND / 10, is_first: false }, "logged already");
        assert_eq!(count_admitted(&mut buckets, ALICE, "10/s burst 20", SECOND), 10);
        for _ in 0..20 {
            assert_eq!(buckets.take(ALICE, share("10/s burst 20"), 100 * SECOND), Ok(()));
        }
        let refusal = buckets.take(ALICE, share("10/s burst 20"), 100 * SECOND).unwrap_err();
        assert!(refusal.is_first, "a minute later");
    }

    #[test]
    fn a_changed_rate_applies_at_once() {
        let mut buckets = Buckets::default();
        assert_eq!(count_admitted(&mut buckets, ALICE, "1/h burst 100", 0), 100);
        assert_eq!(
            count_admitted(&mut buckets, ALICE, "10/s burst 5", SECOND),
            0,
            "the bucket is empty"
        );
        assert_eq!(
            count_admitted(&mut buckets, ALICE, "10/s burst 5", 2 * SECOND),
            5,
            "not 100 hours later"
        );
    }

    #[test]
    fn servers_divide_a_rate() {
        let rate: Rate = "9/s burst 10".parse().unwrap();
        let (interval, _) = rate.share(1);
        assert_eq!(rate.share(3), (interval * 3, 4));
        assert_eq!(rate.share(100).1, 1, "each has at least one");
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_full_buckets_are_removed() {
        let mut buckets = Buckets::default();
        let address =
            |number: u32| BucketKey::Caller(Principal::address(IpAddr::from(number.to_be_bytes())));
        let slow = share("1/h burst 2");
        let admitted =
            (0..200_000).filter(|number| buckets.take(address(*number), slow, 0).is_ok()).count();
        assert_eq!(admitted, MAX_KEYS + 2, "the others share a bucket");
        assert_eq!(buckets.by_key.len(), MAX_KEYS + 1);
        assert!(buckets.take(address(0), slow, 0).is_ok(), "known keys keep their own bucket");
        assert!(buckets.take(address(300_000), slow, 3 * 3_600 * SECOND).is_ok());
        assert_eq!(buckets.by_key.len(), 1);
    }

    #[test]
    fn a_call_is_counted_per_caller_before_it_is_counted_for_the_tool() {
        let limits = super::super::rate_limits::RateLimits {
            tools: Some("mail.* 1/h per caller, mail.* 3/h".parse().unwrap()),
            ..Default::default()
        };
        let (limits, limiter) = (limits.or(&limits), RateLimiter::default());
        let call = |user, method| limiter.count_call(&limits, Principal::User(user), method);
        assert_eq!(call(1, "mail.send"), Ok(()));
        for _ in 0..10 {
            assert_eq!(call(1, "mail.send").unwrap_err().scope, LimitScope::CallerTool);
        }
        assert_eq!(call(1, "mail.read"), Ok(()), "each tool counts separately");
        assert_eq!(call(2, "mail.send"), Ok(()));
        assert_eq!(call(3, "mail.send"), Ok(()));
        let refused = call(4, "mail.send").unwrap_err();
        assert_eq!((refused.scope, refused.retry_after), (LimitScope::Tool, 1_200));
        assert_eq!(limiter.refused(), 11);
    }

    proptest! {
        #[test]
        fn admitted_requests_never_exceed_the_burst_and_the_rate(
            count in 1_u32..100,
            burst in 1_u32..100,
            gaps in prop::collection::vec(0..SECOND / 10, 0..300),
        ) {
            let (mut buckets, mut now, mut admitted) = (Buckets::default(), 0, 0_u64);
            let rate: Rate = format!("{count}/s burst {burst}").parse().unwrap();
            for gap in gaps {
                now += gap;
                admitted += u64::from(buckets.take(ALICE, rate.share(1), now).is_ok());
            }
            prop_assert!(admitted <= u64::from(burst) + now * u64::from(count) / SECOND + 1);
        }
    }
}
