//! What runs a method: the [`Upstream`] trait.

pub(crate) mod budget;
mod call_error;
pub(crate) mod client;
pub(crate) mod content;
pub(crate) mod credentials;
#[cfg(feature = "forward")]
pub mod forward;
mod method_lister;
pub mod local;

use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::access::Caller;
use crate::model::arguments::ParamStyle;
use crate::model::method::Safety;

pub use budget::{BudgetExceeded, BudgetReservation, DEFAULT_IN_FLIGHT_BYTES};
pub use call_error::{CallError, CallFailure, NotFound};
pub use client::{Capability, Client};
pub use content::{Content, ResourceContents, Role, ToolContent};
pub use credentials::{CredentialError, Credentials, ReplaceStatus};
pub use method_lister::{CallerMethods, Identity, ListError, MethodLister};

/// Time limit of a call unless configured otherwise.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A boxed future, for traits whose objects are shared.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that runs methods: functions in this process, or a service elsewhere.
///
/// A call arrives decided and checked; the future is dropped when the caller no longer waits.
pub trait Upstream: Send + Sync + std::fmt::Debug {
    /// How it takes parameters; a method may say otherwise, see [`crate::model::Method::param_style`].
    fn param_style(&self) -> ParamStyle {
        ParamStyle::Named
    }

    /// Whether null for an optional parameter that does not take null counts as absent. It is not sent
    /// then; elsewhere it is refused.
    fn null_is_absent(&self) -> bool {
        false
    }

    /// How long a call may take, where that is not for the gateway to say. The upstream keeps to it by
    /// itself, and can tell more of it than that it is over.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Whether it could not be reached the last times, and is left alone for a while.
    fn is_down(&self) -> bool {
        false
    }

    /// Whether it is to be told the tokens that callers come with. Where none is, nobody keeps them.
    fn wants_token(&self) -> bool {
        false
    }

    /// Returns `true` if its results are known to be as their output schemas say, so that they are not
    /// checked.
    fn trusts_results(&self) -> bool {
        false
    }

    /// Returns `true` if its methods notify or ask clients ([`Call::client`]); otherwise calls carry nothing
    /// for it.
    fn uses_client(&self) -> bool {
        true
    }

    /// What became of its calls, where it counts them.
    fn counters(&self) -> Option<Counters> {
        None
    }

    /// Lists the methods that each caller may use, where callers see only those.
    fn method_lister(&self) -> Option<&dyn MethodLister> {
        None
    }

    /// Runs a method.
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>>;
}

/// What became of the calls of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// How many ended in which way.
    pub outcomes: Vec<(&'static str, u64)>,
    /// How many requests were sent once more.
    pub retries: u64,
    /// How many have not ended.
    pub under_way: u64,
}

/// What a method gave.
#[derive(Debug)]
pub enum CallOutput {
    /// A JSON value.
    Json(Box<RawValue>),
    /// Text, images and the like.
    Content(ToolContent),
}

impl CallOutput {
    /// About how much memory it has.
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

/// One call of a method.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The id of the JSON-RPC request, `mcp_…`, unique.
    pub id: &'a str,
    /// The method.
    pub method: &'a str,
    /// An object or a list, as the method or [`Upstream::param_style`] says.
    pub params: &'a RawValue,
    /// Whether it may change something: then it must not run twice.
    pub safety: Safety,
    /// On whose behalf.
    pub caller: &'a Caller,
    /// Who hears how it goes, and can be asked.
    pub client: &'a Client,
    /// Where the bytes of its result are counted; a large one is best counted while it is read.
    pub reservation: &'a BudgetReservation,
}
