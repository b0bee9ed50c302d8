//! What became of calls, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::upstream::Counters;

macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What became of a call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Outcome {
            $($(#[$doc])* $name,)*
        }

        impl Outcome {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in counters.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        const COUNT: usize = Outcome::ALL.len();
    };
}

outcomes! {
    /// A result.
    Result = "result",
    /// An error that the method made.
    Error = "error",
    /// An error that says that access is denied, without naming the request.
    Denied = "denied",
    /// The caller has no credential for the service, and needs one.
    NoCredential = "no_credential",
    /// There is no access token to go with, neither the upstream's nor the caller's.
    NoToken = "no_token",
    /// No place became free in time.
    Busy = "busy",
    /// Not tried, since connections have failed.
    Down = "down",
    /// No connection.
    Unreachable = "unreachable",
    /// No connection that could be trusted.
    Untrusted = "untrusted",
    /// What came back is not HTTP.
    NoHttp = "no_http",
    /// What came back is HTTP, and no WebSocket.
    NoWebSocket = "no_websocket",
    /// No answer in time.
    TimedOut = "timed_out",
    /// The connection ended without an answer.
    Broken = "broken",
    /// The connection ended within the answer.
    Truncated = "truncated",
    /// The answer is too long.
    TooLarge = "too_large",
    /// The results of other calls have all the memory that there is for them.
    OverBudget = "over_budget",
    /// A redirect.
    Redirected = "redirected",
    /// The gateway's own credentials were refused.
    Refused = "refused",
    /// Another HTTP status without a JSON-RPC error.
    Status = "status",
    /// Something other than JSON, and it says so.
    ContentType = "content_type",
    /// Something other than JSON.
    NotJson = "not_json",
    /// Nothing.
    Empty = "empty",
    /// JSON that is no JSON-RPC reply.
    NotRpc = "not_rpc",
    /// The reply to another request.
    WrongId = "wrong_id",
    /// The caller no longer waits.
    Cancelled = "cancelled",
}

/// What became of the calls of one upstream.
#[derive(Debug, Default)]
pub struct ForwardStats {
    outcomes: [AtomicU64; COUNT],
    retries: AtomicU64,
    ignored: AtomicU64,
    under_way: AtomicU64,
}

impl ForwardStats {
    /// How many calls ended so.
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many requests were sent a second time.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// How many messages of the service answered no call that was waiting: notifications, and replies
    /// that came too late.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// How many calls have not ended.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    /// All of it.
    pub(super) fn counters(&self) -> Counters {
        let outcomes = Outcome::ALL.iter().map(|outcome| (outcome.name(), self.get(*outcome)));
        Counters {
            outcomes: outcomes.collect(),
            retries: self.retries(),
            under_way: self.under_way(),
        }
    }

    fn count(&self, outcome: Outcome) {
        if let Some(count) = self.outcomes.get(outcome as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_ignored(&self, messages: usize) {
        self.ignored.fetch_add(messages as u64, Ordering::Relaxed);
    }
}

/// A call that is counted when it ends, also one that is dropped.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    stats: &'a ForwardStats,
    pub(super) outcome: Outcome,
}

impl<'a> Counted<'a> {
    /// Under way, until this is dropped.
    pub(super) fn begin(stats: &'a ForwardStats) -> Self {
        stats.under_way.fetch_add(1, Ordering::Relaxed);
        Self { stats, outcome: Outcome::Cancelled }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.stats.under_way.fetch_sub(1, Ordering::Relaxed);
        self.stats.count(self.outcome);
    }
}
