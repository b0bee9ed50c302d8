//! A JSON-RPC service over HTTP, or over WebSocket with the feature `websocket`, as an [`Upstream`].
//!
//! ```no_run
//! use callgate::forward::{Forward, ForwardOptions};
//! use callgate::Callgate;
//! use callgate::model::{Method, ParamStyle};
//! use serde_json::json;
//!
//! # fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let options = ForwardOptions::new("http://localhost:6800/jsonrpc".parse()?)
//!     .params(ParamStyle::Positional)
//!     .first_param(&json!("token:s3cret"));
//! let server = Callgate::builder()
//!     .upstream("aria2", Forward::new("aria2", options)?)
//!     .upstream_methods([Method::new("aria2.getVersion".parse()?).upstream("aria2")])
//!     .build()?;
//! # Ok(())
//! # }
//! ```
//!
//! Arguments and results are passed on byte for byte. If the first attempt to send a request fails before anything
//! is sent, there is a second attempt, even if the method has side effects. The same applies if the service
//! discards the request because its queue is full. A request of a read-only method is also retried once if the
//! connection closed before the first byte of the response. No request is retried after a timeout, or if the
//! outcome is [`CallOutcome::Untrusted`]. If a call is dropped, its HTTP request is aborted. Over WebSocket, all
//! calls share a connection, so the reply to a dropped call is ignored instead.

mod target;
mod tool_path;
mod options;
mod auth;
mod known_errors;
mod request;
mod breaker;
mod send;
mod service;
mod retry;
mod forwarded_call;
mod reply;
mod failure;
mod call_outcome;
mod discovery;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use thiserror::Error;

use crate::access::{Caller, Shares};
use crate::model::arguments::ParamStyle;
use crate::upstream::{BoxFuture, Call, CallError, CallOutput, Counters, MethodLister, Upstream};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};
use auth::credential::Authentication;
use auth::login::LoginSessions;
use auth::oauth::AccessTokens;
use auth::redact::Secrets;
use auth::refusal::SentCredential;
use breaker::CircuitBreaker;
use call_outcome::ForwardStats;
use failure::Failure;
use forwarded_call::ForwardedCall;
use options::SecretJson;
use reply::ServiceResponse;
use request::RequestId;
use send::queue::{QueuedRequest, RequestQueue};
use service::Service;

pub use crate::http_client::endpoint::EndpointError;
pub use crate::http_client::tls::{CertificateError, TlsSetupError};
pub use auth::credential::{CredentialLocation, CredentialOptions, MissingCredential};
pub use auth::login::Login;
pub use auth::oauth::{
    ClientAuth, InMemoryRefreshToken, OAuthClient, RefreshTokenFile, RefreshTokenStore, UserGrant,
    wait_for_token_requests,
};
pub use breaker::BreakerLimits;
pub use call_outcome::CallOutcome;
pub use discovery::query::QueryError;
pub use discovery::visibility::{MethodListSource, UpstreamVisibility};
pub use options::{
    CallerHeaders, ForwardLimits, ForwardOptions, IdFormat, OptionError, header_name,
};
pub use target::{Target, TargetError};
pub use tool_path::{ToolPath, ToolPathError};

const MAX_LOGGED_ERROR: usize = 2000;

/// A JSON-RPC service over HTTP or WebSocket.
///
/// The example of the [module](self) adds a service to a server. An application can also call the service itself:
///
/// ```no_run
/// use callgate::forward::{CallOutcome, Forward, ForwardOptions, QueryError};
/// use serde_json::value::RawValue;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ForwardOptions::new("http://localhost:9000/rpc".parse()?);
/// let shop = Forward::new("shop", options)?;
/// let params = RawValue::from_string("{}".to_owned())?;
/// match shop.query("shop.status", &params).await {
///     Ok(status) => println!("{status}"),
///     Err(QueryError::Rpc(error)) => println!("the shop replied with the error {}", error.code),
///     Err(QueryError::Failed { outcome: CallOutcome::Unreachable, .. }) => println!("offline"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Forward {
    service: Arc<Service>,
    /// Set if calls are sent in batches or over a WebSocket.
    queue: Option<RequestQueue>,
    tokens: Option<AccessTokens>,
    sessions: Option<Arc<LoginSessions>>,
    /// Limits the number of concurrent calls.
    calls: Arc<Shares>,
    breaker: CircuitBreaker,
    last_id: AtomicU64,
}

/// Error of [`Forward::new`].
#[derive(Debug, Error)]
pub enum ForwardError {
    /// Conflicting options.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// TLS could not be configured.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
}

impl Forward {
    /// Creates an upstream. The name is used in the log.
    pub fn new(name: impl Into<String>, options: ForwardOptions) -> Result<Self, ForwardError> {
        options.check()?;
        let service = Service::new(name.into(), options)?;
        let limits = service.options.limits;
        Ok(Self {
            queue: RequestQueue::new(&service),
            tokens: AccessTokens::new(&service.name, &service.options)?,
            sessions: LoginSessions::new(&service),
            calls: Shares::new(limits.concurrent.max(1)),
            breaker: CircuitBreaker::new(limits.breaker),
            last_id: AtomicU64::new(0),
            service,
        })
    }

    /// Calls a method. If `tool_path` is set, the method has its own URL. The message and the data of an error with
    /// the code -32603 are moved to the log, unless `trust_errors` is set.
    async fn call_tool(&self, call: &Call<'_>) -> Result<Box<RawValue>, Failure> {
        let path = self.options().tool_path.as_ref();
        let uri = path.map(|path| path.uri(self.options().target.uri(), call.remote_name));
        let uri = uri.map(|uri| uri.ok_or(Failure::NoSuchTool)).transpose()?;
        let mut forwarded = ForwardedCall::new(self, call, uri);
        forwarded.run().await.map_err(|failure| match &failure {
            Failure::Error(error) if !self.options().trust_errors => match internal_text(error) {
                Some(text) => Failure::Internal(loggable(&forwarded.secrets(), &text)),
                None => failure,
            },
            _ => failure,
        })
    }

    fn options(&self) -> &ForwardOptions {
        &self.service.options
    }

    fn secrets(&self, caller: &Caller, auth: &Authentication) -> Secrets {
        let headers = request::headers(self.options(), caller, auth);
        Secrets::of(self.options(), headers.as_ref().unwrap_or(&self.options().headers), auth)
    }

    fn request_id<'a>(&self, id: &'a str) -> RequestId<'a> {
        match self.options().id_format {
            IdFormat::String => RequestId::String(id.into()),
            IdFormat::Number => RequestId::Number(self.last_id.fetch_add(1, Ordering::Relaxed) + 1),
        }
    }

    /// Returns the queue of calls, or `None` if each call is a separate HTTP request.
    fn queue(&self) -> Option<&RequestQueue> {
        self.queue.as_ref().filter(|queue| !queue.is_unsupported())
    }

    fn shared_credential(&self) -> SentCredential {
        if self.options().has_shared_credential() {
            SentCredential::Shared
        } else {
            SentCredential::NotConfigured
        }
    }
}

/// Returns a message of the service for the log: truncated, and without the secrets of the request.
fn loggable(secrets: &Secrets, text: &str) -> String {
    secrets.redact(text).chars().take(MAX_LOGGED_ERROR).collect()
}

/// Returns the message and the data of an error with the code -32603. Returns `None` for other codes. Also returns
/// `None` if there is no data, and the message is empty or only "Internal error".
fn internal_text(error: &RpcError) -> Option<String> {
    let message = error.message.trim_end_matches('.');
    let is_generic = message.is_empty() || message.eq_ignore_ascii_case("internal error");
    let data = error.data.as_ref().filter(|data| !data.is_null());
    if error.code != INTERNAL_ERROR || is_generic && data.is_none() {
        return None;
    }
    let data = data.map_or_else(String::new, |data| format!(": {data}"));
    Some(format!("{}{data}", error.message))
}

impl Upstream for Forward {
    fn uses_client(&self) -> bool {
        false
    }

    fn param_style(&self) -> Option<ParamStyle> {
        self.options().style
    }

    fn null_is_absent(&self) -> bool {
        self.options().null_is_absent
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.options().limits.timeout)
    }

    fn max_result_bytes(&self) -> Option<usize> {
        Some(self.options().limits.result_bytes)
    }

    fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    fn wants_token(&self) -> bool {
        self.options().caller_headers.token.is_some()
    }

    fn trusts_results(&self) -> bool {
        self.options().trust_results
    }

    fn counters(&self) -> Option<Counters> {
        Some(self.service.stats.counters(CallOutcome::ALL.iter().map(|outcome| outcome.name())))
    }

    fn method_lister(&self) -> Option<&dyn MethodLister> {
        self.options().visibility.is_some().then_some(self)
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        Box::pin(async move {
            let mut counted = self.service.stats.begin(CallOutcome::Cancelled as usize);
            match self.call_tool(&call).await {
                Ok(result) => {
                    counted.outcome = CallOutcome::Result as usize;
                    Ok(result.into())
                }
                Err(failure) => {
                    counted.outcome = failure.outcome() as usize;
                    Err(failure.into_error(&self.service.name, &call, self.options().trust_errors))
                }
            }
        })
    }
}

#[cfg(any(test, fuzzing))]
pub(crate) fn reply_in_batch(body: &str, id: &str) -> Option<String> {
    let response = ServiceResponse::from_message(body.to_owned());
    let reply::BatchReply::PerCall(replies) = response.read_batch() else { return None };
    let id = RequestId::String(id.to_owned().into());
    let (parts, _) = replies.assign([&id].into_iter());
    parts.into_iter().find_map(Result::ok).map(ToOwned::to_owned)
}

/// Returns the result in the body of a response with HTTP 200.
#[cfg(any(test, fuzzing))]
pub(crate) fn result_of(body: &str, id: &str) -> Option<String> {
    let response = ServiceResponse::from_message(body.to_owned());
    let result = response.read(&RequestId::String(id.into())).ok()?;
    Some(result.get().to_owned())
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward")
            .field("name", &self.service.name)
            .field("target", &self.options().target)
            .finish_non_exhaustive()
    }
}
