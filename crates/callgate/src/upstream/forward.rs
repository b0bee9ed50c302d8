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
//! let gateway = Callgate::builder()
//!     .upstream("aria2", Forward::new("aria2", options)?)
//!     .upstream_methods([Method::new("aria2.getVersion".parse()?).upstream("aria2")])
//!     .build()?;
//! # Ok(())
//! # }
//! ```
//!
//! Arguments and results are passed on byte for byte. A request that was not sent is retried once, whatever its
//! method does. A request of a read-only method is also retried once if the connection closed before the first byte
//! of the response. No request is retried after a timeout. Dropping a call closes its request; over WebSocket, where
//! all calls share a connection, its reply is ignored.

mod target;
mod tool_path;
mod options;
mod auth;
mod request;
mod breaker;
mod send;
mod reply;
mod failure;
mod stats;
mod discovery;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Uri;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::access::Shares;
use crate::model::arguments::ParamStyle;
use crate::upstream::{BoxFuture, Call, CallError, CallOutput, Counters, MethodLister, Upstream};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};
use auth::credential::Authentication;
use auth::oauth::AccessTokens;
use auth::rejection::SentCredential;
use breaker::{Attempt, CircuitBreaker};
use failure::Failure;
use options::SecretJson;
use reply::ServiceResponse;
use request::RequestId;
use send::client::ServiceClient;
use send::queue::{QueuedRequest, RequestQueue};
use stats::{CountedCall, ForwardStats};

pub use crate::http_client::endpoint::EndpointError;
pub use crate::http_client::tls::{CertificateError, TlsSetupError};
pub use auth::credential::{CredentialLocation, CredentialOptions, MissingCredential};
pub use auth::oauth::{
    ClientAuth, InMemoryRefreshToken, OAuthClient, RefreshTokenFile, RefreshTokenStore, UserGrant,
    wait_for_token_requests,
};
pub use breaker::BreakerLimits;
pub use discovery::query::QueryError;
pub use discovery::visibility::{MethodListSource, UpstreamVisibility};
pub use options::{
    CallerHeaders, ForwardLimits, ForwardOptions, IdFormat, OptionError, header_name,
};
pub use stats::CallOutcome;
pub use target::{Target, TargetError};
pub use tool_path::{ToolPath, ToolPathError};

/// Delay before a request without a connection is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

const MAX_LOGGED_ERROR: usize = 2000;

/// A JSON-RPC service over HTTP or WebSocket.
pub struct Forward {
    name: String,
    options: ForwardOptions,
    client: ServiceClient,
    /// Set if calls share a batch or a connection.
    queue: Option<RequestQueue>,
    tokens: Option<AccessTokens>,
    /// Concurrent calls.
    calls: Arc<Shares>,
    breaker: CircuitBreaker,
    stats: Arc<ForwardStats>,
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
    /// Creates an upstream. The name is for the log.
    pub fn new(name: impl Into<String>, options: ForwardOptions) -> Result<Self, ForwardError> {
        options.check()?;
        let (name, stats) = (name.into(), Arc::new(ForwardStats::default()));
        let client = ServiceClient::new(&options)?;
        Ok(Self {
            queue: RequestQueue::new(&name, &options, &client, &stats),
            client,
            tokens: AccessTokens::new(&name, &options)?,
            name,
            calls: Shares::new(options.limits.concurrent.max(1)),
            breaker: CircuitBreaker::new(options.limits.breaker),
            stats,
            last_id: AtomicU64::new(0),
            options,
        })
    }

    /// Calls a method at its URL. Unless `trust_errors` is set, moves the message of an error with the code -32603
    /// to the log.
    async fn call_tool(&self, call: &Call<'_>) -> Result<Box<RawValue>, Failure> {
        let path = self.options.tool_path.as_ref();
        let uri = path.map(|path| path.uri(self.options.target.uri(), call.remote_name));
        let uri = uri.map(|uri| uri.ok_or(Failure::NoSuchTool)).transpose()?;
        let mut auth = Authentication::default();
        self.call_at(call, uri, &mut auth).await.map_err(|failure| match &failure {
            Failure::Error(error) if !self.options.trust_errors => match internal_text(error) {
                Some(text) => Failure::Internal(self.loggable(call, &auth, &text)),
                None => failure,
            },
            _ => failure,
        })
    }

    /// Returns a message of the service for the log: shortened, without the secrets of the request.
    fn loggable(&self, call: &Call<'_>, auth: &Authentication, text: &str) -> String {
        let headers = request::headers(&self.options, call.caller, auth);
        let text = auth::redact::redact(text, &self.options, &headers, auth);
        text.chars().take(MAX_LOGGED_ERROR).collect()
    }

    /// Calls a method within the limits of time and concurrency, unless the circuit breaker is open. Sets `auth` to
    /// the credentials of the request.
    async fn call_at(
        &self,
        call: &Call<'_>,
        uri: Option<Uri>,
        auth: &mut Authentication,
    ) -> Result<Box<RawValue>, Failure> {
        let (start, limit) = (Instant::now(), self.options.limits.timeout);
        let deadline = start + limit;
        *auth = timeout_at(deadline, self.authentication(call)).await.map_err(|_| {
            let is_token = self.tokens.is_some();
            if is_token { Failure::NoTokenInTime(limit) } else { Failure::TimedOut(limit) }
        })??;
        // A longer wait would leave no time for the call.
        let share = timeout_at(start + limit / 2, self.calls.take(call.caller.principal())).await;
        let share = share.map_err(|_| Failure::Busy(limit / 2))?;
        let _share = share.map_err(|_| Failure::TooManyCalls)?;
        let mut attempt = self.breaker.attempt().ok_or(Failure::Down)?;
        match timeout_at(deadline, self.exchange(call, uri, auth, &mut attempt)).await {
            Ok(replied) => {
                replied.map_err(|failure| failure.sent_with(self.sent_credential(call, auth)))
            }
            Err(_) => {
                // The time limit of a connection is shorter, so there was one.
                attempt.reached();
                Err(Failure::TimedOut(limit))
            }
        }
    }

    async fn authentication(&self, call: &Call<'_>) -> Result<Authentication, Failure> {
        match &self.options.credential {
            Some(credentials) => credentials.of(call, self.tokens.as_ref()).await,
            None => Authentication::of_upstream(self.tokens.as_ref()).await,
        }
    }

    /// Replaces the access token of a request after HTTP 401. Returns `false` if there is no other.
    async fn renew(&self, call: &Call<'_>, auth: &mut Authentication) -> Result<bool, Failure> {
        auth.renew(self.options.credential.as_ref().map(|credentials| (credentials, call))).await
    }

    fn request_id<'a>(&self, id: &'a str) -> RequestId<'a> {
        match self.options.id_format {
            IdFormat::String => RequestId::String(id.into()),
            IdFormat::Number => RequestId::Number(self.last_id.fetch_add(1, Ordering::Relaxed) + 1),
        }
    }

    /// Sends a request and reads its reply. Retries once with a new access token after HTTP 401.
    async fn exchange(
        &self,
        call: &Call<'_>,
        uri: Option<Uri>,
        auth: &mut Authentication,
        attempt: &mut Attempt<'_>,
    ) -> Result<Box<RawValue>, Failure> {
        let id = self.request_id(call.id);
        let mut response = self.send(call, &id, uri.clone(), auth, attempt).await;
        let is_unauthorized = match &response {
            Ok(response) => response.is_unauthorized(&id),
            Err(failure) => failure.is_unauthorized(),
        };
        // A rejected request has not run, so that any method may be called again.
        if is_unauthorized && self.renew(call, auth).await? {
            self.stats.count_retry();
            response = self.send(call, &id, uri.clone(), auth, attempt).await;
        }
        let response = response?;
        // A reply over WebSocket was not counted while it was read.
        call.reservation.at_least(response.body.len())?;
        if uri.is_some() { response.read_at_tool_url(&id) } else { response.read(&id) }
    }

    /// Sends a request. Retries once if the method cannot have run, or is read-only.
    async fn send(
        &self,
        call: &Call<'_>,
        id: &RequestId<'_>,
        uri: Option<Uri>,
        auth: &Authentication,
        attempt: &mut Attempt<'_>,
    ) -> Result<ServiceResponse, Failure> {
        let body = request::body(&self.options, call, id, auth);
        let mut is_first = true;
        loop {
            let (body, limit) = (body.clone(), self.options.limits.result_bytes);
            let headers = || request::headers(&self.options, call.caller, auth);
            let response = match &self.queue {
                None => {
                    self.client.post(uri.clone(), headers(), body, limit, call.reservation).await
                }
                Some(queue) => {
                    let (reply, response) = oneshot::channel();
                    let (headers, credential) = if queue.is_batch() {
                        (headers(), format!("{}{}", auth.first_param.0, auth.member.0))
                    } else {
                        Default::default()
                    };
                    let request = QueuedRequest {
                        id: id.clone().into_owned(),
                        headers,
                        credential: SecretJson(credential),
                        body,
                        safety: call.safety,
                        reservation: call.reservation.another(),
                        reply,
                    };
                    queue.send(request, response).await
                }
            };
            match &response {
                Err(failure) if is_first && failure.may_be_retried(call.safety) => {
                    tracing::debug!(upstream = self.name, call = call.id, "retrying the request");
                    self.stats.count_retry();
                    if failure.found_no_connection() {
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    is_first = false;
                }
                _ => {
                    attempt.settle(response.as_ref().is_err_and(Failure::found_no_connection));
                    return response;
                }
            }
        }
    }

    fn sent_credential(&self, call: &Call<'_>, auth: &Authentication) -> SentCredential {
        let passes_token = self.options.caller_headers.token.is_some();
        if auth.is_own || passes_token && call.caller.token().is_some() {
            SentCredential::OfCaller(call.caller.name().to_owned())
        } else if passes_token
            || self.options.credential.is_some()
            || !self.options.has_shared_credential()
        {
            SentCredential::None { is_known: call.caller.user.is_some() }
        } else {
            SentCredential::Shared
        }
    }
}

/// Returns the message and data of an error with the code -32603, unless it is only "Internal error".
fn internal_text(error: &RpcError) -> Option<String> {
    let message = error.message.trim_end_matches('.');
    let is_general = message.is_empty() || message.eq_ignore_ascii_case("internal error");
    let data = error.data.as_ref().filter(|data| !data.is_null());
    if error.code != INTERNAL_ERROR || is_general && data.is_none() {
        return None;
    }
    let data = data.map_or_else(String::new, |data| format!(": {data}"));
    Some(format!("{}{data}", error.message))
}

impl Upstream for Forward {
    fn uses_client(&self) -> bool {
        false
    }

    fn param_style(&self) -> ParamStyle {
        self.options.style
    }

    fn null_is_absent(&self) -> bool {
        self.options.null_is_absent
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.options.limits.timeout)
    }

    fn max_result_bytes(&self) -> Option<usize> {
        Some(self.options.limits.result_bytes)
    }

    fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    fn wants_token(&self) -> bool {
        self.options.caller_headers.token.is_some()
    }

    fn trusts_results(&self) -> bool {
        self.options.trust_results
    }

    fn counters(&self) -> Option<Counters> {
        Some(self.stats.counters())
    }

    fn method_lister(&self) -> Option<&dyn MethodLister> {
        self.options.visibility.is_some().then_some(self)
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        Box::pin(async move {
            let mut counted = CountedCall::begin(&self.stats);
            match self.call_tool(&call).await {
                Ok(result) => {
                    counted.outcome = CallOutcome::Result;
                    Ok(result.into())
                }
                Err(failure) => {
                    counted.outcome = failure.outcome();
                    Err(failure.into_error(&self.name, &call))
                }
            }
        })
    }
}

#[cfg(any(test, fuzzing))]
pub(crate) fn reply_in_batch(body: &str, id: &str) -> Option<String> {
    let response = ServiceResponse::bare(body.to_owned());
    let reply::BatchReply::PerCall(replies) = response.read_batch() else { return None };
    let id = RequestId::String(id.to_owned().into());
    let (parts, _) = replies.assign([&id].into_iter());
    parts.into_iter().find_map(Result::ok).map(ToOwned::to_owned)
}

/// Returns the result in the body of a response with HTTP 200.
#[cfg(any(test, fuzzing))]
pub(crate) fn result_of(body: &str, id: &str) -> Option<String> {
    let response = ServiceResponse::bare(body.to_owned());
    let result = response.read(&RequestId::String(id.into())).ok()?;
    Some(result.get().to_owned())
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward")
            .field("name", &self.name)
            .field("target", &self.options.target)
            .finish_non_exhaustive()
    }
}
