//! A JSON-RPC service over HTTP, or over WebSocket with the feature `websocket`, as an [`Upstream`].
//!
//! ```no_run
//! use callgate::forward::{Forward, ForwardOptions};
//! use callgate::{Callgate, Method, ParamStyle};
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
mod mailbox;
mod oauth;
mod options;
mod refusal;
mod reply;
mod reply_id;
mod request;
mod scrub;
mod send_failure;
mod stats;
mod target;
mod tool_path;
#[cfg(feature = "websocket")]
mod websocket;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::arguments::ParamStyle;
use crate::gateway::{CallError, CallFailure, NotFound};
use crate::jsonrpc::{INTERNAL_ERROR, RpcError};
use crate::upstream::{BoxFuture, Call, Counters, Returned, Upstream};
use crate::visibility::ListsMethods;
use batch::Batches;
use breaker::{Attempt, Breaker};
use client::Client;
use credential::{Authentication, NoCredential, Sent};
use failure::{Failure, Logged};
use mailbox::{Answered, Asked, Terms};
use oauth::Tokens;
use refusal::{Meaning, SentCredential};
use reply::Reply;
use request::RequestId;
use send_failure::SendFailure;
use stats::Counted;
#[cfg(feature = "websocket")]
use websocket::WebSocket;

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
pub use options::{
    ForwardLimits, ForwardOptions, Http2, Ids, OptionError, PassCaller, header_name,
};
pub use stats::{ForwardStats, Outcome};
pub use target::{Target, TargetError};
pub use tool_path::{ToolPath, ToolPathError};

/// Before a request that found no connection is sent once more.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A JSON-RPC service over HTTP or WebSocket.
pub struct Forward {
    name: String,
    options: ForwardOptions,
    wire: Wire,
    tokens: Option<Tokens>,
    places: Semaphore,
    breaker: Breaker,
    stats: Arc<ForwardStats>,
    last_id: AtomicU64,
}

/// How requests get to it.
enum Wire {
    /// Each as a request of its own.
    Http(Box<Client>),
    /// Those that arrive together as one.
    Batches(Batches),
    #[cfg(feature = "websocket")]
    WebSocket(WebSocket),
}

impl Wire {
    fn new(name: &str, options: &ForwardOptions, stats: &Arc<ForwardStats>) -> Result<Self, NoTls> {
        let stats = || Arc::clone(stats);
        #[cfg(feature = "websocket")]
        if options.target.is_websocket() {
            return Ok(Self::WebSocket(WebSocket::new(options, stats())?));
        }
        Ok(if options.batch {
            Self::Batches(Batches::new(name, options, stats())?)
        } else {
            Self::Http(Client::new(options)?.into())
        })
    }

    /// For requests that are no calls.
    fn client(&self) -> &Client {
        match self {
            Self::Http(client) => client,
            Self::Batches(batches) => batches.client(),
            #[cfg(feature = "websocket")]
            Self::WebSocket(socket) => socket.client(),
        }
    }
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

/// A call as it is sent.
#[derive(Clone)]
struct Request<'a> {
    id: RequestId<'a>,
    auth: &'a Authentication,
    body: Bytes,
    /// The URL of the tool, where that is not the service's.
    uri: Option<Uri>,
}

/// Maximum length of an error's text in the log.
const MAX_LOGGED_ERROR: usize = 2000;

/// What the method gave, or said.
type Replied = Result<Box<RawValue>, Reply>;

impl Forward {
    /// A service, under a name for the log.
    pub fn new(name: impl Into<String>, options: ForwardOptions) -> Result<Self, ForwardError> {
        if let Some(conflict) = conflict(&options) {
            return Err(conflict.into());
        }
        let (name, stats) = (name.into(), Arc::new(ForwardStats::default()));
        Ok(Self {
            wire: Wire::new(&name, &options, &stats)?,
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

    /// Has the call of a tool answered at the URL that it has.
    async fn answer_tool(&self, call: &Call<'_>) -> Result<Replied, Failure> {
        let uri = match &self.options.tool_path {
            Some(path) => {
                let uri = path.uri(self.options.target.uri(), call.method);
                Some(uri.ok_or(Failure::NoSuchTool)?)
            }
            None => None,
        };
        let mut auth = Authentication::default();
        match self.answer_as(call, uri, &mut auth).await? {
            Err(Reply::Error(error)) if !self.options.trust_errors => match internal_text(&error) {
                Some(text) => Err(Failure::Internal(self.loggable(call, &auth, &text))),
                None => Ok(Err(Reply::Error(error))),
            },
            replied => Ok(replied),
        }
    }

    /// What the service said, for the log: without the secrets of the request, and not too much of it.
    fn loggable(&self, call: &Call<'_>, auth: &Authentication, text: &str) -> String {
        let headers = self.headers(call, auth);
        let text = scrub::without_secrets(text, &self.options, &headers, auth.own.as_ref());
        text.chars().take(MAX_LOGGED_ERROR).collect()
    }

    /// Waits for a place, and has the call answered within the time that there is.
    async fn answer(&self, call: &Call<'_>, uri: Option<Uri>) -> Result<Replied, Failure> {
        self.answer_as(call, uri, &mut Authentication::default()).await
    }

    /// The same; what the request was sent with is in `auth` then.
    async fn answer_as(
        &self,
        call: &Call<'_>,
        uri: Option<Uri>,
        auth: &mut Authentication,
    ) -> Result<Replied, Failure> {
        let limit = self.options.limits.timeout;
        let end = Instant::now() + limit;
        *auth = timeout_at(end, self.authentication(call)).await.map_err(|_| {
            let is_token = self.tokens.is_some();
            if is_token { Failure::NoTokenInTime(limit) } else { Failure::TimedOut(limit) }
        })??;
        // Who waits longer would have no time left to be answered.
        let wait = limit / 2;
        let place = timeout(wait, self.places.acquire()).await;
        let _place = place.map_err(|_| Failure::Busy(wait))?;
        let mut attempt = self.breaker.attempt().ok_or(Failure::Down)?;
        let exchanged = timeout_at(end, self.exchange(call, uri, auth, &mut attempt)).await;
        match exchanged {
            Ok(answered) => answered.map_err(|failure| failure.sent_with(self.sent(call, auth))),
            Err(_) => {
                // Connections have less time than that, so there was one.
                attempt.reached();
                Err(Failure::TimedOut(limit))
            }
        }
    }

    /// What the call goes with: the caller's credential, or an access token, or neither.
    async fn authentication(&self, call: &Call<'_>) -> Result<Authentication, Failure> {
        match &self.options.credential {
            Some(mapped) => mapped.of(call, self.tokens.as_ref()).await,
            None => Authentication::of_upstream(self.tokens.as_ref()).await,
        }
    }

    async fn exchange(
        &self,
        call: &Call<'_>,
        uri: Option<Uri>,
        auth: &mut Authentication,
        attempt: &mut Attempt<'_>,
    ) -> Result<Replied, Failure> {
        let id = match self.options.ids {
            Ids::Text => RequestId::Text(call.id),
            Ids::Number => RequestId::Number(self.last_id.fetch_add(1, Ordering::Relaxed) + 1),
        };
        let is_tool_url = uri.is_some();
        let mut answered = self.send_with(call, id, uri.clone(), auth, attempt).await;
        // Nothing was run, so it may go out again whatever it does, once.
        if is_unauthorized(&answered, &id)
            && let Some(renewed) = auth.renewed(call, self.options.credential.as_ref()).await?
        {
            *auth = renewed;
            self.stats.count_retry();
            answered = self.send_with(call, id, uri, auth, attempt).await;
        }
        let whole = answered.map_err(SendFailure::into_failure)?;
        // Where it was not counted as it came.
        call.hold.at_least(whole.body.len())?;
        if is_tool_url { whole.read_at_tool_url(&id) } else { whole.read(&id) }
    }

    /// The headers of a request.
    fn headers(&self, call: &Call<'_>, auth: &Authentication) -> HeaderMap {
        let mut headers = request::headers(&self.options, call.caller, auth.own.as_ref());
        auth.add_to(&mut headers);
        headers
    }

    /// Whose credential a request was sent with.
    fn sent(&self, call: &Call<'_>, auth: &Authentication) -> SentCredential {
        let passes_token = self.options.pass_caller.token.is_some();
        if auth.own.is_some() || passes_token && call.caller.token().is_some() {
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

    async fn send_with(
        &self,
        call: &Call<'_>,
        id: RequestId<'_>,
        uri: Option<Uri>,
        auth: &Authentication,
        attempt: &mut Attempt<'_>,
    ) -> Answered {
        let body = request::body(&self.options, call, id, auth.own.as_ref());
        let answered = self.send(call, Request { id, auth, body, uri }).await;
        match &answered {
            Err(failure) if failure.found_no_connection() => attempt.failed(),
            _ => attempt.reached(),
        }
        answered
    }

    /// Sends a request, and once more where that is safe (D31).
    async fn send(&self, call: &Call<'_>, request: Request<'_>) -> Answered {
        match self.send_once(call, request.clone()).await {
            Err(failure) if failure.may_be_sent_again(call.safety) => {
                tracing::debug!(upstream = self.name, call = call.id, "sent once more");
                self.stats.count_retry();
                if failure.found_no_connection() {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                self.send_once(call, request).await
            }
            first => first,
        }
    }

    async fn send_once(&self, call: &Call<'_>, request: Request<'_>) -> Answered {
        let Request { id, auth, body, uri } = request;
        let credential = auth.own.as_ref();
        let headers = || self.headers(call, auth);
        match &self.wire {
            Wire::Http(client) => {
                let limit = self.options.limits.result_bytes;
                let uri = uri.unwrap_or_else(|| client.uri().clone());
                client.ask_at(uri, headers(), body, limit, call.hold).await
            }
            Wire::Batches(batches) => {
                let credential = credential.map(Sent::in_body).unwrap_or_default();
                let terms = Terms { headers: headers(), credential };
                let hold = call.hold.another();
                batches.ask(Asked::new(id.into(), terms, body, call.safety, hold)).await
            }
            // It has headers of its own, of when it was opened.
            #[cfg(feature = "websocket")]
            Wire::WebSocket(socket) => {
                let terms = Terms::default();
                let hold = call.hold.another();
                socket.ask(Asked::new(id.into(), terms, body, call.safety, hold)).await
            }
        }
    }

    fn call_error(&self, call: &Call<'_>, failure: Failure) -> CallError {
        let message = failure.words(call.safety);
        let (is_gone, refusal) = match &failure {
            Failure::Refused(refusal) => (false, Some((refusal.meaning(), refusal.scope.clone()))),
            Failure::NoCredential(NoCredential::Anonymous) => {
                (false, Some((Meaning::Unauthorized, None)))
            }
            Failure::NoCredential(NoCredential::Missing(_)) => {
                (false, Some((Meaning::Forbidden, None)))
            }
            failure => (matches!(failure, Failure::NoSuchTool), None),
        };
        let failure = CallFailure::new(message, Logged { upstream: self.name.clone(), failure });
        match refusal {
            Some((Meaning::Unauthorized, _)) => CallError::Unauthorized(failure),
            Some((Meaning::Forbidden, scope)) => CallError::Forbidden(failure, scope),
            _ if is_gone => CallError::Gone(NotFound(call.method.to_owned()), failure),
            _ => CallError::Failed(failure),
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

/// What does not go together.
fn conflict(options: &ForwardOptions) -> Option<OptionError> {
    let is_websocket = options.target.is_websocket();
    if is_websocket && !cfg!(feature = "websocket") {
        Some(OptionError::NoWebSocket)
    } else if options.style == ParamStyle::Named && options.has_first_params() {
        Some(OptionError::FirstParams)
    } else if is_websocket && options.has_headers_of_callers() {
        Some(OptionError::CallerOverWebSocket)
    } else if is_websocket && options.http2 == Http2::Always {
        Some(OptionError::Http2OverWebSocket)
    } else if is_websocket && options.batch {
        Some(OptionError::BatchOverWebSocket)
    } else if is_websocket && options.tool_path.is_some() {
        Some(OptionError::PerToolOverWebSocket)
    } else if options.batch && options.tool_path.is_some() {
        Some(OptionError::PerToolBatch)
    } else if is_websocket && options.is_described_over_http() {
        Some(OptionError::DescribedOverWebSocket)
    } else {
        oauth::conflict(options)
    }
}

/// Whether the service refused the request for want of a good token, and ran nothing.
fn is_unauthorized(answered: &Answered, id: &RequestId<'_>) -> bool {
    match answered {
        Ok(whole) => whole.is_unauthorized(id),
        Err(failure) => failure.is_unauthorized(),
    }
}

impl Upstream for Forward {
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

    fn visibility(&self) -> Option<&dyn ListsMethods> {
        self.options.visibility.is_some().then_some(self)
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Returned, CallError>> {
        Box::pin(async move {
            let mut counted = Counted::begin(&self.stats);
            let answered = self.answer_tool(&call).await;
            counted.outcome = match &answered {
                Ok(Ok(_)) => Outcome::Result,
                Ok(Err(Reply::Error(_))) => Outcome::Error,
                Ok(Err(Reply::Denied(_))) => Outcome::Denied,
                Err(failure) => failure.outcome(),
            };
            match answered {
                Ok(Ok(result)) => Ok(result.into()),
                Ok(Err(Reply::Error(error))) => Err(error.into()),
                Ok(Err(Reply::Denied(error))) => Err(CallError::denied(call.method, error)),
                Err(failure) => Err(self.call_error(&call, failure)),
            }
        })
    }
}

/// The reply to one request in the answer to a batch.
#[cfg(any(test, fuzzing))]
pub(crate) fn reply_in_batch(body: &str, id: &str) -> Option<String> {
    let whole = reply::Whole::bare(body.to_owned());
    let reply::BatchReply::Each(replies) = whole.read_batch() else { return None };
    let (parts, _) = replies.hand_out(&[RequestId::Text(id).into()]);
    parts.into_iter().find_map(|part| match part {
        reply::Part::Reply(reply) => Some(reply.to_owned()),
        _ => None,
    })
}

/// The result in a body that came with HTTP 200.
#[cfg(any(test, fuzzing))]
pub(crate) fn result_of(body: &str, id: &str) -> Option<String> {
    let headers = HeaderMap::new();
    let answer = reply::Answer { status: http::StatusCode::OK, headers: &headers, body };
    let result = answer.read(&RequestId::Text(id)).ok()?.ok()?;
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
