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
//! The checked arguments go out as the bytes they are, and so does the result come back. A request that
//! never left is sent once more, whatever it does; one that only reads also after a connection that
//! ended before any byte of a response. Nothing is sent again after a time-out. To drop a call is to
//! close its request; over WebSocket, where all calls share a connection, to ignore its reply.

mod ask;
mod batch;
mod breaker;
mod challenge;
mod client;
mod credential;
mod description;
mod failure;
mod lists;
mod oauth;
mod options;
mod outbox;
mod refusal;
mod reply;
mod request;
mod scrub;
mod stats;
mod target;
mod tool_path;
#[cfg(feature = "websocket")]
mod websocket;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Uri;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::model::arguments::ParamStyle;
use crate::upstream::CallError;
use crate::upstream::MethodLister;
use crate::upstream::{BoxFuture, Call, CallOutput, Counters, Upstream};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};
use breaker::{Attempt, Breaker};
use client::Client;
use credential::Authentication;
use failure::Failure;
use oauth::Tokens;
use options::Hidden;
use outbox::{Outbox, Outgoing};
use refusal::SentCredential;
use reply::ServiceResponse;
use request::RequestId;
use stats::Counted;

pub use crate::http_client::endpoint::EndpointError;
pub use crate::http_client::tls::{CertificateError, NoTls};
pub use ask::AskError;
pub use breaker::BreakerLimits;
pub use credential::{CredentialPlace, MissingCredential, UserCredential};
pub use lists::{DescribedBy, UpstreamVisibility};
pub use oauth::{
    ClientAuth, FixedRefreshToken, OAuthClient, RefreshTokenFile, RefreshTokenStore, UserGrant,
    token_requests_ended,
};
pub use options::{ForwardLimits, ForwardOptions, Ids, OptionError, PassCaller, header_name};
pub use stats::{ForwardStats, Outcome};
pub use target::{Target, TargetError};
pub use tool_path::{ToolPath, ToolPathError};

/// Pause before a request that found no connection is sent once more.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Maximum length of an error's text in the log.
const MAX_LOGGED_ERROR: usize = 2000;

/// A JSON-RPC service over HTTP or WebSocket.
pub struct Forward {
    name: String,
    options: ForwardOptions,
    client: Client,
    /// For calls that share a batch or a connection.
    outbox: Option<Outbox>,
    tokens: Option<Tokens>,
    places: Semaphore,
    breaker: Breaker,
    stats: Arc<ForwardStats>,
    last_id: AtomicU64,
}

/// Why there is no such upstream.
#[derive(Debug, Error)]
pub enum ForwardError {
    /// Options that do not go together.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] NoTls),
}

impl Forward {
    /// A service, under a name for the log.
    pub fn new(name: impl Into<String>, options: ForwardOptions) -> Result<Self, ForwardError> {
        options.check()?;
        let (name, stats) = (name.into(), Arc::new(ForwardStats::default()));
        let client = Client::new(&options)?;
        Ok(Self {
            outbox: Outbox::new(&name, &options, &client, &stats),
            client,
            tokens: Tokens::new(&name, &options)?,
            name,
            places: Semaphore::new(options.limits.concurrent.clamp(1, Semaphore::MAX_PERMITS)),
            breaker: Breaker::new(options.limits.breaker),
            stats,
            last_id: AtomicU64::new(0),
            options,
        })
    }

    /// What became of its calls so far.
    pub fn stats(&self) -> &ForwardStats {
        &self.stats
    }

    /// Calls a tool at its URL. The text of an error with the code -32603 is for the log, unless the
    /// service is trusted.
    async fn call_tool(&self, call: &Call<'_>) -> Result<Box<RawValue>, Failure> {
        let path = self.options.tool_path.as_ref();
        let uri = path.map(|path| path.uri(self.options.target.uri(), call.method));
        let uri = uri.map(|uri| uri.ok_or(Failure::NoSuchTool)).transpose()?;
        let mut auth = Authentication::default();
        self.answer(call, uri, &mut auth).await.map_err(|failure| match &failure {
            Failure::Error(error) if !self.options.trust_errors => match internal_text(error) {
                Some(text) => Failure::Internal(self.loggable(call, &auth, &text)),
                None => failure,
            },
            _ => failure,
        })
    }

    /// Removes the secrets of the request from a text of the service, and shortens it for the log.
    fn loggable(&self, call: &Call<'_>, auth: &Authentication, text: &str) -> String {
        let headers = request::headers(&self.options, call.caller, auth);
        let text = scrub::without_secrets(text, &self.options, &headers, auth);
        text.chars().take(MAX_LOGGED_ERROR).collect()
    }

    /// Calls a method within the time limit, the limit of concurrent calls, and if the service is
    /// known to be there. Sets `auth` to what the request was sent with.
    async fn answer(
        &self,
        call: &Call<'_>,
        uri: Option<Uri>,
        auth: &mut Authentication,
    ) -> Result<Box<RawValue>, Failure> {
        let limit = self.options.limits.timeout;
        let end = Instant::now() + limit;
        *auth = timeout_at(end, self.authentication(call)).await.map_err(|_| {
            let is_token = self.tokens.is_some();
            if is_token { Failure::NoTokenInTime(limit) } else { Failure::TimedOut(limit) }
        })??;
        // A longer wait would leave no time for the call.
        let wait = limit / 2;
        let place = timeout(wait, self.places.acquire()).await;
        let _place = place.map_err(|_| Failure::Busy(wait))?;
        let mut attempt = self.breaker.attempt().ok_or(Failure::Down)?;
        match timeout_at(end, self.exchange(call, uri, auth, &mut attempt)).await {
            Ok(replied) => {
                replied.map_err(|failure| failure.sent_with(self.sent_credential(call, auth)))
            }
            Err(_) => {
                // Connections have less time than that, so there was one.
                attempt.reached();
                Err(Failure::TimedOut(limit))
            }
        }
    }

    /// Returns what a call is sent with: the caller's credential, or an access token, or neither.
    async fn authentication(&self, call: &Call<'_>) -> Result<Authentication, Failure> {
        match &self.options.credential {
            Some(mapped) => mapped.of(call, self.tokens.as_ref()).await,
            None => Authentication::of_upstream(self.tokens.as_ref()).await,
        }
    }

    /// Sends a request and reads its reply; with another access token if the first is not accepted.
    async fn exchange(
        &self,
        call: &Call<'_>,
        uri: Option<Uri>,
        auth: &mut Authentication,
        attempt: &mut Attempt<'_>,
    ) -> Result<Box<RawValue>, Failure> {
        let id = match self.options.ids {
            Ids::Text => RequestId::Text(call.id.into()),
            Ids::Number => RequestId::Number(self.last_id.fetch_add(1, Ordering::Relaxed) + 1),
        };
        let mut response = self.send(call, &id, uri.clone(), auth, attempt).await;
        let is_unauthorized = match &response {
            Ok(response) => response.is_unauthorized(&id),
            Err(failure) => failure.is_unauthorized(),
        };
        // Nothing was run, so the request may be sent again whatever it does, once.
        if is_unauthorized
            && let Some(renewed) = auth.renewed(call, self.options.credential.as_ref()).await?
        {
            *auth = renewed;
            self.stats.count_retry();
            response = self.send(call, &id, uri.clone(), auth, attempt).await;
        }
        let response = response?;
        // If it was not counted as it came.
        call.reservation.at_least(response.body.len())?;
        if uri.is_some() { response.read_at_tool_url(&id) } else { response.read(&id) }
    }

    /// Sends a request, and once more if that cannot run anything twice.
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
            let response = match &self.outbox {
                None => {
                    self.client.post(uri.clone(), headers(), body, limit, call.reservation).await
                }
                Some(outbox) => {
                    let (reply, response) = oneshot::channel();
                    let request = Outgoing {
                        id: id.clone().into_owned(),
                        headers: headers(),
                        credential: Hidden(format!("{}{}", auth.first_param.0, auth.member.0)),
                        body,
                        safety: call.safety,
                        reservation: call.reservation.another(),
                        reply,
                    };
                    outbox.send(request, response).await
                }
            };
            match &response {
                Err(failure) if is_first && failure.may_be_sent_again(call.safety) => {
                    tracing::debug!(upstream = self.name, call = call.id, "sent once more");
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

    /// Returns whose credential a request was sent with.
    fn sent_credential(&self, call: &Call<'_>, auth: &Authentication) -> SentCredential {
        let passes_token = self.options.pass_caller.token.is_some();
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

/// The text of an error with the code -32603, if it says more than that.
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

    fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    fn wants_token(&self) -> bool {
        self.options.pass_caller.token.is_some()
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
            let mut counted = Counted::begin(&self.stats);
            match self.call_tool(&call).await {
                Ok(result) => {
                    counted.outcome = Outcome::Result;
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

/// The reply to one request in the answer to a batch.
#[cfg(any(test, fuzzing))]
pub(crate) fn reply_in_batch(body: &str, id: &str) -> Option<String> {
    let response = ServiceResponse::bare(body.to_owned());
    let reply::BatchReply::Each(replies) = response.read_batch() else { return None };
    let id = RequestId::Text(id.to_owned().into());
    let (parts, _) = replies.hand_out([&id].into_iter());
    parts.into_iter().find_map(Result::ok).map(ToOwned::to_owned)
}

/// The result in a body that came with HTTP 200.
#[cfg(any(test, fuzzing))]
pub(crate) fn result_of(body: &str, id: &str) -> Option<String> {
    let response = ServiceResponse::bare(body.to_owned());
    let result = response.read(&RequestId::Text(id.into())).ok()?;
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
