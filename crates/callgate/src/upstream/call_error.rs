//! Errors of calls.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::Write as _;

use thiserror::Error;

use crate::access::{Caller, RateLimited};
use crate::model::arguments::ArgumentsError;
use crate::model::oauth_scope::OAuthScope;
use crate::wire::jsonrpc::RpcError;

/// Number of seconds after which a client may repeat a call that was refused with [`CallError::Busy`].
pub(crate) const BUSY_SECONDS: u64 = 2;

/// The tool does not exist, or the caller is not allowed to use it.
///
/// Error of [`Gateway::describe`](crate::gateway::Gateway::describe) and
/// [`AsCaller::describe`](crate::gateway::AsCaller::describe). Calls fail with [`CallError::NotFound`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Tool '{0}' not found or access denied")]
pub struct NotFound(pub String);

/// Error of a call.
///
/// Returned by [`Upstream::call`](crate::upstream::Upstream::call) and by
/// [`Gateway::call`](crate::gateway::Gateway::call). Each endpoint writes the error in its own format.
/// [`Upstream`](crate::upstream::Upstream) has an example.
#[derive(Debug, Error)]
pub enum CallError {
    /// The tool does not exist, or the caller may not use it.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The method is not declared read-only, and this kind of request allows only read-only methods.
    #[error("Tool '{0}' is not declared read-only")]
    NotReadOnly(String),
    /// The arguments are invalid; the method did not run.
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    /// The arguments are larger than the tool allows; the method did not run.
    #[error(
        "The arguments have {bytes} bytes; the limit of this tool is {limit} bytes. Nothing was run; send smaller arguments."
    )]
    ArgumentsTooLarge {
        /// Size of the arguments as JSON.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A rate limit was exceeded; the method did not run.
    #[error(transparent)]
    RateLimited(#[from] RateLimited),
    /// A resource that callers share is exhausted; the method did not run.
    #[error("{0} Try again in {BUSY_SECONDS} seconds.")]
    Busy(Cow<'static, str>),
    /// An error that the method returned for the caller.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The request itself fails: MCP clients get a JSON-RPC error instead of a result with `isError`.
    #[error(transparent)]
    Protocol(RpcError),
    /// The service denied access. REST and JSON-RPC report the method as unknown.
    #[error("{not_found}")]
    Denied {
        /// Error for REST and JSON-RPC.
        not_found: NotFound,
        /// Error of the service.
        #[source]
        reason: Box<RpcError>,
    },
    /// The method no longer exists at the service. REST and JSON-RPC report the method as unknown.
    #[error("{0}")]
    Gone(NotFound, CallFailure),
    /// The service requires a credential, or a different one.
    #[error("{0}")]
    Unauthorized(CallFailure),
    /// The caller lacks a permission or a scope at the service, or a user has no credential for the service. The
    /// second value is the missing scope, if the service named one.
    #[error("{0}")]
    Forbidden(CallFailure, Option<OAuthScope>),
    /// Any other failure.
    #[error("{0}")]
    Failed(CallFailure),
}

/// A failure with a message for the caller and details for the log.
///
/// Part of [`CallError::Failed`] and of other variants of [`CallError`]. [`Upstream`](crate::upstream::Upstream)
/// has an example.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct CallFailure {
    /// Message for the caller, with the remedy.
    pub message: Cow<'static, str>,
    /// Details for the log.
    pub detail: Box<dyn StdError + Send + Sync>,
    /// Id of the log entry. The gateway sets it.
    pub error_id: String,
}

impl CallFailure {
    /// Creates a failure that has not been logged yet.
    pub fn new(
        message: impl Into<Cow<'static, str>>,
        detail: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), detail: detail.into(), error_id: String::new() }
    }

    /// Logs the details under `error_id`.
    pub(crate) fn log(&mut self, caller: &Caller, method: &str, error_id: String) {
        let mut chain = self.detail.to_string();
        let mut next = self.detail.source();
        while let Some(cause) = next {
            let _ = write!(chain, ": {cause}");
            next = cause.source();
        }
        tracing::error!(caller = caller.name(), method, error_id, error = chain, "call failed");
        self.error_id = error_id;
    }
}

impl CallError {
    /// Returns the number of seconds after which a client may repeat a call that was refused because of a limit.
    #[cfg(feature = "http")]
    pub(crate) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited(limited) => Some(limited.retry_after),
            Self::Busy(_) => Some(BUSY_SECONDS),
            _ => None,
        }
    }

    /// Creates a failure with a generic message for the caller.
    pub fn failed(detail: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed(CallFailure::new("Tool execution failed", detail))
    }

    /// Creates a [`CallError::Denied`].
    pub fn denied(method: &str, reason: RpcError) -> Self {
        Self::Denied { not_found: NotFound(method.to_owned()), reason: reason.into() }
    }

    /// Creates an error for arguments that passed the check but cannot be deserialized.
    pub fn arguments(problem: String) -> Self {
        Self::Arguments(ArgumentsError::single(problem))
    }

    /// Logs, under `error_id`, the details that are not sent to the caller.
    #[must_use]
    pub(crate) fn logged(mut self, caller: &Caller, method: &str, error_id: String) -> Self {
        match &mut self {
            Self::Gone(_, failure)
            | Self::Unauthorized(failure)
            | Self::Forbidden(failure, _)
            | Self::Failed(failure) => failure.log(caller, method, error_id),
            Self::Denied { .. } => {
                let decision = "denied: by the service";
                tracing::info!(caller = caller.name(), method, decision, "access denied");
            }
            Self::Busy(reason) => {
                tracing::debug!(caller = caller.name(), method, %reason, "call refused");
            }
            _ => {}
        }
        self
    }
}
