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
///
/// Default of [`Builder::call_timeout`](crate::Builder::call_timeout),
/// [`Gateway::call_timeout`](crate::gateway::Gateway::call_timeout) and
/// [`ForwardLimits::timeout`](forward::ForwardLimits::timeout).
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size, in bytes, of a value that is parsed or checked on the current thread. Parsing or checking such a value
/// usually takes far less than a millisecond. Larger values are processed on a blocking thread.
pub(crate) const MAX_INLINE: usize = 8 * 1024;

/// A boxed future, for object-safe traits.
///
/// Returned by [`Upstream::call`] and by functions of other traits. [`Upstream`] has an example.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs methods: functions in this process, or a service.
///
/// The gateway checks access and arguments before it calls a method. If the client cancels the call, the future of
/// the call is dropped. If the client disconnects, the future is dropped too, except for tasks and for MCP clients
/// of the legacy era.
///
/// ```
/// use callgate::model::Method;
/// use callgate::upstream::{BoxFuture, Call, CallError, CallFailure, CallOutput, Upstream};
/// use callgate::{Callgate, Caller};
/// use serde_json::value::to_raw_value;
///
/// /// A sensor, which can be switched off.
/// #[derive(Debug)]
/// struct Sensor(Option<f64>);
///
/// impl Upstream for Sensor {
///     fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
///         Box::pin(async move {
///             call.client.progress(0.0, Some(1.0), Some("reading"));
///             let Some(celsius) = self.0 else {
///                 // The caller gets the first text. The second text is for the log.
///                 return Err(CallError::Failed(CallFailure::new("The sensor is off.", "no power")));
///             };
///             Ok(to_raw_value(&celsius).map_err(CallError::failed)?.into())
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder()
///     .upstream("sensor", Sensor(None))
///     .upstream_methods([Method::new("sensor.read".parse()?).upstream("sensor")])
///     .build()?;
/// let error = server.as_caller(Caller::anonymous()).call("sensor.read", ()).await.unwrap_err();
/// assert_eq!(error.to_string(), "The sensor is off.");
/// # Ok(())
/// # }
/// ```
pub trait Upstream: Send + Sync + std::fmt::Debug {
    /// Returns how parameters are sent, if this is configured for the upstream. A style of the method
    /// ([`crate::model::Method::param_style`]) other than [`ParamStyle::Either`] takes precedence. If neither the
    /// upstream nor the method has a style, parameters are sent by name.
    fn param_style(&self) -> Option<ParamStyle> {
        None
    }

    /// Returns `true` if `null` means that an argument is absent. This concerns optional parameters that do not allow
    /// `null`. If this returns `true`, such a `null` is not sent. If this returns `false`, the arguments are
    /// rejected. The styles [`ParamStyle::Either`] and [`ParamStyle::PositionalNull`] always treat such a `null` as
    /// absent.
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

    /// Returns a [`MethodLister`] if each caller may see only the methods that a service lists for this caller.
    /// Otherwise, returns `None`.
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
///
/// Returned by [`Upstream::counters`]. [`Gateway::upstream_states`](crate::gateway::Gateway::upstream_states)
/// collects the statistics of all upstreams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of calls that have ended, by outcome.
    pub outcomes: Vec<(&'static str, u64)>,
    /// Number of retried requests.
    pub retries: u64,
    /// Number of calls in progress.
    pub under_way: u64,
}

/// Result of a method.
///
/// Returned by [`Upstream::call`]. [`Upstream`] has an example.
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
///
/// Argument of [`Upstream::call`]. [`Upstream`] has an example.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Unique id of the call, `mcp_…`. The log uses the same id.
    pub id: &'a str,
    /// Id of the method.
    pub method: &'a str,
    /// Name of the method at its service. This is the id, unless [`crate::model::Method::remote_name`] is set.
    pub remote_name: &'a str,
    /// Parameters, by name or by position.
    pub params: &'a RawValue,
    /// Whether the call can have side effects. If it can, a request that may have run must not be repeated.
    pub safety: Safety,
    /// The caller.
    pub caller: &'a Caller,
    /// The client, for notifications and questions.
    pub client: &'a Client,
    /// Memory reservation for the result. While an upstream reads a large result, it should extend the reservation.
    pub reservation: &'a BudgetReservation,
}
