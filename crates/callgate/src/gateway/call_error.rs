//! Why a call has no result, and what of it is logged.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::Write as _;

use thiserror::Error;

use crate::access::Caller;
use crate::arguments::ArgumentsError;
use crate::jsonrpc::RpcError;
use crate::oauth_scope::OAuthScope;
use crate::upstream::UpstreamError;

/// A tool that is not there for this caller, whether it exists or not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Tool '{0}' not found or access denied")]
pub struct NotFound(pub String);

/// Why a call has no result.
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
    /// The method says so.
    #[error(transparent)]
    Rpc(RpcError),
    /// The request itself fails, not only what it ran.
    #[error(transparent)]
    Protocol(RpcError),
    /// The service says that the caller may not use the method. Over HTTP it looks as if there was none.
    #[error("{not_found}")]
    Denied {
        /// What those hear who are not told more.
        not_found: NotFound,
        /// What the service says.
        #[source]
        reason: Box<RpcError>,
    },
    /// The service has no such method any more; the log has it under this id.
    #[error("{not_found}")]
    Gone {
        /// What those hear who are not told more.
        not_found: NotFound,
        /// The call's id.
        error_id: String,
        /// What is wrong, and what to do.
        words: String,
    },
    /// The service wants the caller to log in, or with another credential; the log has it under this id.
    #[error("{words}")]
    Unauthorized {
        /// The call's id.
        error_id: String,
        /// What is wrong, and what to do.
        words: String,
    },
    /// The caller lacks a permission or a scope at the service; the log has it under this id.
    #[error("{words}")]
    Forbidden {
        /// The call's id.
        error_id: String,
        /// What is wrong, and what to do.
        words: String,
        /// The scope that the service names.
        scope: Option<OAuthScope>,
    },
    /// Something broke; the log has it under this id.
    #[error("{words}")]
    Failed {
        /// The call's id.
        error_id: String,
        /// What the caller is told: general words, unless there are better ones.
        words: Cow<'static, str>,
    },
}

impl CallError {
    /// A failure of which the caller hears only that.
    pub(crate) fn failed(error_id: String) -> Self {
        Self::Failed { error_id, words: Cow::Borrowed("Tool execution failed") }
    }
}

pub(crate) fn log_failure(
    caller: &Caller,
    method: &str,
    error_id: &str,
    source: &(dyn std::error::Error + 'static),
) {
    let mut chain = source.to_string();
    let mut next = source.source();
    while let Some(cause) = next {
        let _ = write!(chain, ": {cause}");
        next = cause.source();
    }
    tracing::error!(caller = caller.name(), method, error_id, error = chain, "call failed");
}

#[derive(Debug, Error)]
pub(super) enum RunError {
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl RunError {
    /// What the caller is told. What only the log may hear goes there, under `error_id`.
    pub(super) fn into_call_error(
        self,
        caller: &Caller,
        method: &str,
        error_id: String,
    ) -> CallError {
        let error = match self {
            Self::Arguments(error) => return CallError::Arguments(error),
            Self::Upstream(error) => error,
        };
        let log = |source: Box<dyn StdError + Send + Sync>| {
            log_failure(caller, method, &error_id, source.as_ref());
        };
        let not_found = || NotFound(method.to_owned());
        match error {
            UpstreamError::Rpc(error) => CallError::Rpc(error),
            UpstreamError::Protocol(error) => CallError::Protocol(error),
            UpstreamError::Arguments(problem) => {
                CallError::Arguments(ArgumentsError::from_upstream(problem))
            }
            UpstreamError::Denied(reason) => {
                let decision = "denied: by the service";
                tracing::info!(caller = caller.name(), method, decision, "access denied");
                CallError::Denied { not_found: not_found(), reason: reason.into() }
            }
            UpstreamError::Gone { words, source } => {
                log(source);
                CallError::Gone { not_found: not_found(), error_id, words }
            }
            UpstreamError::Unauthorized { words, source } => {
                log(source);
                CallError::Unauthorized { error_id, words }
            }
            UpstreamError::Forbidden { words, scope, source } => {
                log(source);
                CallError::Forbidden { error_id, words, scope }
            }
            UpstreamError::Failed(source) => {
                log(source);
                CallError::failed(error_id)
            }
            UpstreamError::Told { words, source } => {
                log(source);
                CallError::Failed { error_id, words: words.into() }
            }
        }
    }
}
