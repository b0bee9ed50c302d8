//! Counts calls by their outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::upstream::Counters;

macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The outcome of a call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CallOutcome {
            $($(#[$doc])* $name,)*
        }

        impl CallOutcome {
            /// All outcomes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        const COUNT: usize = CallOutcome::ALL.len();
    };
}

outcomes! {
    /// The method returned a result.
    Result = "result",
    /// The method returned an error.
    Error = "error",
    /// The service denied access, in an error without the id of the request.
    Denied = "denied",
    /// The caller has no credential that can be sent.
    NoCredential = "no_credential",
    /// No access token could be requested.
    NoToken = "no_token",
    /// There are too many concurrent calls.
    Busy = "busy",
    /// The call was not sent, because the circuit breaker is open.
    Down = "down",
    /// The service could not be connected to.
    Unreachable = "unreachable",
    /// There was no trusted TLS connection.
    Untrusted = "untrusted",
    /// The response is not HTTP.
    NoHttp = "no_http",
    /// The service did not open a WebSocket.
    NoWebSocket = "no_websocket",
    /// There was no response within the time limit.
    TimedOut = "timed_out",
    /// The connection closed without a response.
    Broken = "broken",
    /// The connection closed in the middle of the response.
    Truncated = "truncated",
    /// The response is too long.
    TooLarge = "too_large",
    /// The memory for results is used up.
    OverBudget = "over_budget",
    /// The service responded with a redirect.
    Redirected = "redirected",
    /// The service rejected the credential.
    Refused = "refused",
    /// The service responded with any other status that is not 2xx, without a JSON-RPC error.
    Status = "status",
    /// The response has a content type other than JSON.
    ContentType = "content_type",
    /// The response body is not JSON.
    NotJson = "not_json",
    /// The response is empty.
    Empty = "empty",
    /// The response is JSON, but not a JSON-RPC reply.
    NotRpc = "not_rpc",
    /// The service replied to a different request.
    WrongId = "wrong_id",
    /// The call was dropped.
    Cancelled = "cancelled",
}

#[derive(Debug, Default)]
pub(crate) struct ForwardStats {
    outcomes: [AtomicU64; COUNT],
    retries: AtomicU64,
    under_way: AtomicU64,
}

impl ForwardStats {
    pub(crate) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outcomes = CallOutcome::ALL.iter().zip(&self.outcomes);
        Counters {
            outcomes: outcomes.map(|(outcome, counter)| (outcome.name(), read(counter))).collect(),
            retries: read(&self.retries),
            under_way: read(&self.under_way),
        }
    }

    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct CountedCall<'a> {
    stats: &'a ForwardStats,
    pub(crate) outcome: CallOutcome,
}

impl<'a> CountedCall<'a> {
    pub(crate) fn begin(stats: &'a ForwardStats) -> Self {
        stats.under_way.fetch_add(1, Ordering::Relaxed);
        Self { stats, outcome: CallOutcome::Cancelled }
    }
}

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        self.stats.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(counter) = self.stats.outcomes.get(self.outcome as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
