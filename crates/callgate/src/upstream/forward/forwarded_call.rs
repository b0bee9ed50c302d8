//! A call of a method of the service: its limits and its credentials.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Forward;
use super::auth::credential::Authentication;
use super::auth::redact::Secrets;
use super::auth::rejection::SentCredential;
use super::breaker::Attempt;
use super::failure::Failure;
use super::options::SecretJson;
use super::reply::ServiceResponse;
use super::request::{self, RequestId};
use super::send::client::Post;
use super::send::queue::{QueuedRequest, ResponseReceiver};
use crate::access::Share;
use crate::upstream::Call;

/// A call of a method of the service.
pub(super) struct ForwardedCall<'a> {
    pub(super) forward: &'a Forward,
    pub(super) call: &'a Call<'a>,
    pub(super) id: RequestId<'a>,
    /// URL of the tool, if tools have their own URLs.
    uri: Option<Uri>,
    /// Credentials of the request.
    auth: Authentication,
    /// Permission of the circuit breaker. Set before the request is sent.
    pub(super) attempt: Option<Attempt<'a>>,
}

impl<'a> ForwardedCall<'a> {
    pub(super) fn new(forward: &'a Forward, call: &'a Call<'a>, uri: Option<Uri>) -> Self {
        let (id, auth) = (forward.request_id(call.id), Authentication::default());
        Self { forward, call, id, uri, auth, attempt: None }
    }

    /// Calls the method within the limits on time and concurrency, unless the circuit breaker is open.
    pub(super) async fn run(&mut self) -> Result<Box<RawValue>, Failure> {
        self.run_within_limits().await.map_err(|failure| {
            failure.sent_with(self.sent_credential()).redacted(|| self.secrets())
        })
    }

    async fn run_within_limits(&mut self) -> Result<Box<RawValue>, Failure> {
        let (forward, start) = (self.forward, Instant::now());
        let limit = forward.options.limits.timeout;
        let mut timer = pin!(sleep_until(start + limit));
        match until(timer.as_mut(), pin!(self.authenticate())).await {
            Some(authenticated) => authenticated?,
            None if forward.tokens.is_some() || forward.sessions.is_some() => {
                return Err(Failure::NoTokenInTime(limit));
            }
            None => return Err(Failure::TimedOut(limit)),
        }
        let _share = self.share(timer.as_mut(), start).await?;
        self.attempt = Some(forward.breaker.attempt().ok_or(Failure::Down)?);
        let replied = until(timer, pin!(self.exchange())).await;
        replied.unwrap_or_else(|| {
            // The time limit of a connection is shorter, so there was one.
            self.attempt.iter_mut().for_each(Attempt::reached);
            Err(Failure::TimedOut(limit))
        })
    }

    /// Waits until the call may run, for at most half of the time limit: a longer wait would leave no time for
    /// the call.
    async fn share(&self, mut timer: Pin<&mut Sleep>, start: Instant) -> Result<Share, Failure> {
        let (calls, principal) = (&self.forward.calls, self.call.caller.principal());
        if let Some(share) = calls.take_now(principal) {
            return Ok(share);
        }
        let (end, wait) = (timer.deadline(), self.forward.options.limits.timeout / 2);
        timer.as_mut().reset(start + wait);
        let share = until(timer.as_mut(), pin!(calls.take(principal))).await;
        timer.reset(end);
        share.ok_or(Failure::Busy(wait))?.map_err(|_| Failure::TooManyCalls)
    }

    /// Determines the credentials of the request.
    pub(super) async fn authenticate(&mut self) -> Result<(), Failure> {
        let Forward { options, tokens, .. } = self.forward;
        if options.without_credential.iter().any(|method| method == self.call.remote_name) {
            self.auth.is_omitted = true;
            return Ok(());
        }
        // Boxed, since they are larger than the rest of a call, and most upstreams need none of them.
        if let Some(credentials) = &options.credential {
            self.auth = Box::pin(credentials.of(self.call, tokens.as_ref())).await?;
        } else if tokens.is_some() {
            self.auth = Box::pin(Authentication::of_upstream(tokens.as_ref())).await?;
        }
        if let Some(sessions) = &self.forward.sessions {
            self.auth.session = Box::pin(sessions.session()).await?;
        }
        request::check_first_params(options, self.call, &self.auth)
    }

    /// Replaces the access token or the session of a refused request. Returns `false` if there is no new one.
    pub(super) async fn renew(&mut self, failure: &Failure) -> Result<bool, Failure> {
        let auth = &mut self.auth;
        let Some(sessions) = self.forward.sessions.as_ref().filter(|_| !auth.is_omitted) else {
            let credentials = self.forward.options.credential.as_ref();
            return auth.renew(credentials.map(|credentials| (credentials, self.call))).await;
        };
        let Some(session) = sessions.renewed(auth.session.as_ref(), failure).await? else {
            return Ok(false);
        };
        auth.session = Some(session);
        Ok(true)
    }

    pub(super) fn body(&self) -> Bytes {
        request::body(&self.forward.options, self.call, &self.id, &self.auth)
    }

    /// Returns the headers, or `None` if they are those that are configured for all requests.
    pub(super) fn headers(&self) -> Option<HeaderMap> {
        request::headers(&self.forward.options, self.call.caller, &self.auth)
    }

    /// Returns the HTTP request. The response may have `limit` bytes.
    pub(super) fn post<'b>(
        &'b self,
        headers: Option<&'b HeaderMap>,
        body: &'b Bytes,
        limit: usize,
    ) -> Post<'b> {
        Post { uri: self.uri.as_ref(), headers, body, limit, reservation: self.call.reservation }
    }

    /// Returns the request for a queue, and the receiver of its response.
    pub(super) fn queued(&self, is_batch: bool, body: Bytes) -> (QueuedRequest, ResponseReceiver) {
        let (reply, response) = oneshot::channel();
        let (headers, credential) =
            if is_batch { (self.headers(), self.auth.in_body()) } else { Default::default() };
        let request = QueuedRequest {
            id: self.id.clone().into_owned(),
            headers,
            credential: SecretJson(credential),
            body,
            safety: self.call.safety,
            reservation: self.call.reservation.another(),
            reply,
        };
        (request, response)
    }

    /// Returns the result in a response.
    pub(super) fn read(
        &self,
        response: Result<ServiceResponse, Failure>,
    ) -> Result<Box<RawValue>, Failure> {
        let response = response?;
        // A reply over WebSocket was not counted against the memory budget while it was read.
        self.call.reservation.at_least(response.body.len())?;
        if self.uri.is_some() {
            response.read_at_tool_url(&self.id)
        } else {
            response.read(&self.id)
        }
    }

    pub(super) fn secrets(&self) -> Secrets {
        self.forward.secrets(self.call.caller, &self.auth)
    }

    fn sent_credential(&self) -> SentCredential {
        let Forward { options, .. } = self.forward;
        let (caller, passes_token) = (self.call.caller, options.caller_headers.token.is_some());
        if self.auth.is_omitted {
            SentCredential::NotConfigured
        } else if self.auth.is_own || passes_token && caller.token().is_some() {
            SentCredential::OfCaller(caller.name().to_owned())
        } else if passes_token || options.credential.is_some() {
            SentCredential::None { is_known: caller.user.is_some() }
        } else {
            self.forward.shared_credential()
        }
    }
}

/// Runs a future until the timer ends, and then returns `None`. A call has only one timer, since each timer takes a
/// lock twice.
fn until<T>(
    timer: Pin<&mut Sleep>,
    mut future: Pin<&mut impl Future<Output = T>>,
) -> impl Future<Output = Option<T>> {
    // The timer is checked even if the future has used up the task's budget.
    let mut timer = unconstrained(timer);
    poll_fn(move |context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut timer).poll(context).map(|()| None),
    })
}
