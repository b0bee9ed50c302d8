//! What became of calls, counted.

use std::sync::atomic::{AtomicU64, Ordering};

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
    /// No place became free in time.
    Busy = "busy",
    /// The caller has no credential for the service, and needs one.
    NoCredential = "no_credential",
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
#[derive(Debug)]
pub struct ForwardStats {
    outcomes: [AtomicU64; COUNT],
    retries: AtomicU64,
    ignored: AtomicU64,
}

impl Default for ForwardStats {
    fn default() -> Self {
        Self {
            outcomes: std::array::from_fn(|_| AtomicU64::new(0)),
            retries: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
        }
    }
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

    pub(super) fn count(&self, outcome: Outcome) {
        if let Some(count) = self.outcomes.get(outcome as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_ignored(&self) {
        self.ignored.fetch_add(1, Ordering::Relaxed);
    }
}
