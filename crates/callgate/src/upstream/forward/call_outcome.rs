//! The outcomes of calls.

use crate::upstream::stats::CallStats;

pub(crate) type ForwardStats = CallStats<{ CallOutcome::ALL.len() }>;

macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The outcome of a call.
        ///
        /// Part of [`QueryError::Failed`](crate::upstream::forward::QueryError::Failed). The
        /// [statistics](crate::upstream::Counters) of an upstream contain the [name](Self::name) of each outcome.
        /// [`Forward`](crate::upstream::forward::Forward) has an example.
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
    /// No access token could be requested, or the login failed.
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
    /// The service refused the credential.
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
