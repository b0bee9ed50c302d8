//! Upstreams run methods: functions in this process, or services.
//!
//! An upstream of your own implements [`Upstream`]:
//!
//! ```
//! use callgate::upstream::{BoxFuture, Call, CallError, CallOutput, Upstream};
//!
//! /// Returns the parameters of each call.
//! #[derive(Debug)]
//! struct Echo;
//!
//! impl Upstream for Echo {
//!     fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
//!         Box::pin(async move { Ok(call.params.to_owned().into()) })
//!     }
//! }
//! ```

pub(crate) mod memory_budget;
mod call_error;
pub(crate) mod client;
pub(crate) mod content;
pub(crate) mod credentials;
#[cfg(feature = "forward")]
pub mod forward;
mod method_lister;
pub mod local;
mod stats;
pub(crate) mod timer;

use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::access::Caller;
use crate::model::arguments::ParamStyle;
use crate::model::method::Safety;

pub use call_error::{CallError, CallFailure, NotFound};
pub use client::{Capability, Client};
pub use content::{Content, ResourceContents, Role, ToolContent};
pub use credentials::{CredentialError, Credentials, ReplaceStatus};
pub use memory_budget::{BudgetExceeded, BudgetReservation, DEFAULT_IN_FLIGHT_BYTES};
pub use method_lister::{CallerMethods, Identity, ListError, MethodLister};

/// Default time limit of a call.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size, in bytes, of a value that is parsed or checked on the current thread. Parsing or checking such a value
/// usually takes far less than a millisecond. Larger values are processed on a blocking thread.
pub(crate) const MAX_INLINE: usize = 8 * 1024;

/// A boxed future, for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs methods: functions in this process, or a service.
///
/// The gateway checks access and arguments before it calls a method. If the caller disconnects during the call, the
/// future of the call is dropped.
pub trait Upstream: Send + Sync + std::fmt::Debug {
    /// Returns how parameters are sent, if this is configured for the upstream. A style of the method
    /// ([`crate::model::Method::param_style`]) other than [`ParamStyle::Either`] takes precedence. If neither the
    /// upstream nor the method has a style, parameters are sent by name.
    fn param_style(&self) -> Option<ParamStyle> {
        None
    }

    /// Returns `true` if `null` means that an argument is absent. This concerns optional parameters that do not allow
    /// `null`. Such a `null` is then not sent; otherwise, it is rejected. The styles [`ParamStyle::Either`] and
    /// [`ParamStyle::PositionalNull`] always treat such a `null` as absent.
    fn null_is_absent(&self) -> bool {
        false
    }

    /// Returns the upstream's own time limit, if the upstream enforces one. If this returns `None`, the limit of the
    /// [`Gateway`](crate::gateway::Gateway) applies.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the maximum size of a result in bytes, if there is one.
    fn max_result_bytes(&self) -> Option<usize> {
        None
    }

    /// Returns `true` if the upstream is unreachable, so that calls fail without being sent.
    fn is_down(&self) -> bool {
        false
    }

    /// Returns `true` if the upstream needs the tokens of callers. Tokens are kept only if an upstream needs them.
    fn wants_token(&self) -> bool {
        false
    }

    /// Returns `true` if results always match their output schemas and need no check.
    fn trusts_results(&self) -> bool {
        false
    }

    /// Returns `true` if the methods of the upstream use [`Call::client`].
    fn uses_client(&self) -> bool {
        true
    }

    /// Returns statistics of the upstream's calls, if the upstream counts its calls.
    fn counters(&self) -> Option<Counters> {
        None
    }

    /// Returns a lister of the methods of each caller, if callers may see only the methods that the service lists for
    /// them.
    fn method_lister(&self) -> Option<&dyn MethodLister> {
        None
    }

    /// Returns `true` if a method neither waits nor uses [`Call::client`]. [`call_now`](Self::call_now) then runs the
    /// method, unless the parameters are large.
    fn is_immediate(&self, _method: &str) -> bool {
        false
    }

    /// Runs a method on the current thread, without a future. Returns `None` if [`call`](Self::call) has to run it.
    fn call_now(&self, _method: &str, _params: &RawValue) -> Option<Result<CallOutput, CallError>> {
        None
    }

    /// Calls a method.
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>>;
}

/// Statistics of the calls of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Completed calls by outcome.
    pub outcomes: Vec<(&'static str, u64)>,
    /// Number of retried requests.
    pub retries: u64,
    /// Number of calls in progress.
    pub under_way: u64,
}

/// Result of a method.
#[derive(Debug)]
pub enum CallOutput {
    /// A JSON value.
    Json(Box<RawValue>),
    /// Content blocks, such as text and images.
    Content(ToolContent),
}

impl CallOutput {
    /// Returns the approximate size in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(json) => json.get().len(),
            Self::Content(content) => content.len(),
        }
    }
}

impl From<Box<RawValue>> for CallOutput {
    fn from(json: Box<RawValue>) -> Self {
        Self::Json(json)
    }
}

/// A call of a method.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Unique id of the JSON-RPC request, `mcp_…`.
    pub id: &'a str,
    /// Id of the method.
    pub method: &'a str,
    /// Name of the method at its service. This is the id, unless [`crate::model::Method::remote_name`] is set.
    pub remote_name: &'a str,
    /// Parameters, by name or by position.
    pub params: &'a RawValue,
    /// Whether the call has side effects and must not be repeated.
    pub safety: Safety,
    /// The caller.
    pub caller: &'a Caller,
    /// The client, for notifications and questions.
    pub client: &'a Client,
    /// Memory reservation for the result. An upstream should extend it while it reads a large result.
    pub reservation: &'a BudgetReservation,
}
