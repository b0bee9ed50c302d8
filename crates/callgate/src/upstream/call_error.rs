//! Why a call has no result, and what of it is logged.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::Write as _;

use thiserror::Error;

use crate::access::Caller;
use crate::model::arguments::ArgumentsError;
use crate::model::oauth_scope::OAuthScope;
use crate::wire::jsonrpc::RpcError;

/// A tool that is not there for this caller, whether it exists or not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Tool '{0}' not found or access denied")]
pub struct NotFound(pub String);

/// Why a call has no result: what upstreams return, and what each endpoint renders.
#[derive(Debug, Error)]
pub enum CallError {
    /// Unknown, or not for this caller.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A form of call that is for read-only methods only.
    #[error("Tool '{0}' is not read-only")]
    NotReadOnly(String),
    /// Refused before anything ran.
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    /// The method's own error, with a message for the caller.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The request itself fails: over MCP the client gets an error instead of a result that tells of
    /// one.
    #[error(transparent)]
    Protocol(RpcError),
    /// The service says that the caller may not use the method. Over REST and JSON-RPC it looks unknown.
    #[error("{not_found}")]
    Denied {
        /// What is shown in place of the reason.
        not_found: NotFound,
        /// What the service says.
        #[source]
        reason: Box<RpcError>,
    },
    /// The service has no such method any more. Over REST and JSON-RPC it looks unknown.
    #[error("{0}")]
    Gone(NotFound, CallFailure),
    /// The service wants the caller to log in, or with another credential.
    #[error("{0}")]
    Unauthorized(CallFailure),
    /// The caller lacks a permission at the service, or the scope that it names.
    #[error("{0}")]
    Forbidden(CallFailure, Option<OAuthScope>),
    /// Something broke.
    #[error("{0}")]
    Failed(CallFailure),
}

/// A failure with a message for the caller and details for the log.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct CallFailure {
    /// For the caller: what is wrong, and what to do.
    pub message: Cow<'static, str>,
    /// For the log only.
    pub detail: Box<dyn StdError + Send + Sync>,
    /// The id under which the log has the details. The gateway sets it.
    pub error_id: String,
}

impl CallFailure {
    /// A failure that is not logged yet.
    pub fn new(
        message: impl Into<Cow<'static, str>>,
        detail: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), detail: detail.into(), error_id: String::new() }
    }

    /// Logs the details under an id, which the caller is told.
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
    /// Something broke of which the caller hears only that.
    pub fn failed(detail: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed(CallFailure::new("Tool execution failed", detail))
    }

    /// The service says that the caller may not use a method.
    pub fn denied(method: &str, reason: RpcError) -> Self {
        Self::Denied { not_found: NotFound(method.to_owned()), reason: reason.into() }
    }

    /// Arguments that passed the check and are still not what the method takes.
    pub fn arguments(problem: String) -> Self {
        Self::Arguments(ArgumentsError::one(problem))
    }

    /// Logs what only the log may know, under an id that the caller is told.
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
            _ => {}
        }
        self
    }
}
