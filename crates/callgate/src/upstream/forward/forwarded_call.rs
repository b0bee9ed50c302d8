//! A call of a method of the service: its limits, its credentials, its request and its reply.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Forward;
use super::auth::credential::Authentication;
use super::auth::redact::Secrets;
use super::auth::refusal::SentCredential;
use super::breaker::Attempt;
use super::failure::Failure;
use super::options::SecretJson;
use super::reply::ServiceResponse;
use super::request::{self, RequestId};
use super::retry::{RETRY_PAUSE, is_discarded};
use super::send::queue::{QueuedRequest, ReplySender};
use super::service::{Post, Service};
use crate::access::Share;
use crate::upstream::Call;
use crate::upstream::timer::until;

/// A call of a method of the service.
pub(super) struct ForwardedCall<'a> {
    forward: &'a Forward,
    call: &'a Call<'a>,
    id: RequestId<'a>,
    /// URL of the tool, if tools have their own URLs.
    uri: Option<Uri>,
    /// Credentials of the request.
    auth: Authentication,
    /// Permission of the circuit breaker. Set before the request is sent.
    attempt: Option<Attempt<'a>>,
    /// Permit to run concurrently with other calls. Released only after the result is recorded in the circuit breaker,
    /// because the next call asks the circuit breaker as soon as it gets the permit.
    share: Option<Share>,
}

impl<'a> ForwardedCall<'a> {
    pub(super) fn new(forward: &'a Forward, call: &'a Call<'a>, uri: Option<Uri>) -> Self {
        let (id, auth) = (forward.request_id(call.id), Authentication::default());
        Self { forward, call, id, uri, auth, attempt: None, share: None }
    }

    /// Calls the method within the limits on time and concurrency, unless the circuit breaker is open.
    pub(super) async fn run(&mut self) -> Result<Box<RawValue>, Failure> {
        self.run_within_limits().await.map_err(|failure| {
            failure.sent_with(self.sent_credential()).redacted(|| self.secrets())
        })
    }

    async fn run_within_limits(&mut self) -> Result<Box<RawValue>, Failure> {
        let (forward, start) = (self.forward, Instant::now());
        let limit = forward.options().limits.timeout;
        let result = until(pin!(sleep_until(start + limit)), pin!(self.run_admitted(start))).await;
        result.unwrap_or_else(|| match &mut self.attempt {
            Some(attempt) => {
                // The time limit for connecting is shorter, so there was a connection.
                attempt.reached();
                Err(Failure::TimedOut(limit))
            }
            // The wait for a permit ends earlier, so the call was still waiting for a credential.
            None if forward.tokens.is_some() || forward.sessions.is_some() => {
                Err(Failure::NoTokenInTime(limit))
            }
            None => Err(Failure::TimedOut(limit)),
        })
    }

    async fn run_admitted(&mut self, start: Instant) -> Result<Box<RawValue>, Failure> {
        self.authenticate().await?;
        self.share = Some(self.share(start).await?);
        self.attempt = Some(self.forward.breaker.attempt().ok_or(Failure::Down)?);
        self.exchange().await
    }

    /// Waits until the call may run, for at most half of the time limit. The rest is left for the call itself.
    async fn share(&self, start: Instant) -> Result<Share, Failure> {
        let (calls, principal) = (&self.forward.calls, self.call.caller.principal());
        if let Some(share) = calls.try_acquire_one(principal) {
            return Ok(share);
        }
        let wait = self.forward.options().limits.timeout / 2;
        let share = Box::pin(timeout_at(start + wait, calls.acquire(principal))).await;
        share.map_err(|_| Failure::Busy(wait))?.map_err(|_| Failure::TooManyCalls)
    }

    /// Determines the credentials of the request.
    pub(super) async fn authenticate(&mut self) -> Result<(), Failure> {
        let Forward { service, tokens, sessions, .. } = self.forward;
        let options = &service.options;
        if options.without_credential.iter().any(|method| method == self.call.remote_name) {
            self.auth.is_omitted = true;
            return Ok(());
        }
        // These futures are boxed, because they are larger than the rest of a call, and most upstreams need none of
        // them.
        if let Some(credentials) = &options.credential {
            self.auth = Box::pin(credentials.of(self.call, tokens.as_ref())).await?;
        } else if tokens.is_some() {
            Box::pin(self.auth.add_upstream_token(tokens.as_ref())).await?;
        }
        if let Some(sessions) = sessions {
            self.auth.session = Box::pin(sessions.session()).await?;
        }
        request::check_first_params(options, self.call, &self.auth)
    }

    /// Replaces the access token or the session of a refused request. Returns `false` if there is no new token or
    /// session.
    pub(super) async fn renew(&mut self, failure: &Failure) -> Result<bool, Failure> {
        let auth = &mut self.auth;
        let Some(sessions) = self.forward.sessions.as_ref().filter(|_| !auth.is_omitted) else {
            let credentials = self.forward.options().credential.as_ref();
            return auth.renew(credentials.map(|credentials| (credentials, self.call))).await;
        };
        let Some(session) = sessions.renewed(auth.session.as_ref(), failure).await? else {
            return Ok(false);
        };
        auth.session = Some(session);
        Ok(true)
    }

    /// Sends the request and reads its reply. If the service refuses the access token or session, retries once with a
    /// new one.
    async fn exchange(&mut self) -> Result<Box<RawValue>, Failure> {
        let response = self.send().await;
        let has_run =
            response.as_ref().is_ok_and(|response| response.has_run_despite_401(&self.id));
        match self.read(response) {
            // A refused request has not run, so it may be repeated even if the method has side effects.
            Err(failure)
                if !has_run
                    && self.forward.is_refused(&failure)
                    && Box::pin(self.renew(&failure)).await? =>
            {
                self.forward.service.stats.count_retry();
                let response = Box::pin(self.send()).await;
                self.read(response)
            }
            result => result,
        }
    }

    /// Sends the request. Repeats a failed request once if `retry.rs` allows a retry.
    async fn send(&mut self) -> Result<ServiceResponse, Failure> {
        let Service { name, options, stats, .. } = &*self.forward.service;
        let body = self.body();
        let mut is_first = true;
        loop {
            let response = match self.forward.queue() {
                None => {
                    self.forward
                        .service
                        .post(self.http_request(&body, options.limits.result_bytes))
                        .await
                }
                Some(queue) => {
                    let request =
                        |reply| self.queued_request(queue.is_batch(), body.clone(), reply);
                    Box::pin(queue.send(request)).await
                }
            };
            let (may_retry, pauses) = match &response {
                Ok(response) => (is_discarded(response), true),
                Err(failure) => (failure.may_be_retried(self.call.safety), failure.needs_pause()),
            };
            if !is_first || !may_retry {
                if let Some(attempt) = &mut self.attempt {
                    attempt.settle(response.as_ref().is_err_and(Failure::is_connection_failure));
                }
                return response;
            }
            tracing::debug!(upstream = name, call = self.call.id, "retrying the request");
            stats.count_retry();
            if pauses {
                sleep(RETRY_PAUSE).await;
            }
            is_first = false;
        }
    }

    fn body(&self) -> Bytes {
        request::body(self.forward.options(), self.call, &self.id, &self.auth)
    }

    /// Returns the headers, or `None` if the request has only the configured headers.
    pub(super) fn headers(&self) -> Option<HeaderMap> {
        request::headers(self.forward.options(), self.call.caller, &self.auth)
    }

    /// Returns the HTTP request. The response may have at most `limit` bytes.
    fn http_request<'b>(&'b self, body: &'b Bytes, limit: usize) -> Post<'b> {
        let (uri, headers) = (self.uri.as_ref(), self.headers());
        Post { uri, headers, body, limit, reservation: self.call.reservation }
    }

    /// Returns the request for a queue.
    fn queued_request(&self, is_batch: bool, body: Bytes, reply: ReplySender) -> QueuedRequest {
        let (headers, credential) =
            if is_batch { (self.headers(), self.auth.body_parts()) } else { Default::default() };
        QueuedRequest {
            id: self.id.clone().into_owned(),
            headers,
            credential: SecretJson(credential),
            body,
            safety: self.call.safety,
            reservation: self.call.reservation.empty_for_same_caller(),
            reply,
        }
    }

    /// Sends the request once, without a limit on time or concurrency. The response may have at most `limit` bytes.
    pub(super) async fn send_once(&self, limit: usize) -> Result<ServiceResponse, Failure> {
        self.forward.service.post(self.http_request(&self.body(), limit)).await
    }

    /// Returns the result in a response.
    pub(super) fn read(
        &self,
        response: Result<ServiceResponse, Failure>,
    ) -> Result<Box<RawValue>, Failure> {
        let response = response?;
        // A reply over WebSocket or in a batch was not counted against the reservation of this call while it was read.
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
        let options = self.forward.options();
        let (caller, passes_token) = (self.call.caller, options.caller_headers.token.is_some());
        if self.auth.is_omitted {
            SentCredential::NotConfigured
        } else if self.auth.is_of_caller || passes_token && caller.token().is_some() {
            SentCredential::OfCaller(caller.name().to_owned())
        } else if passes_token || options.credential.is_some() {
            SentCredential::None { is_user: caller.user.is_some() }
        } else {
            self.forward.shared_credential()
        }
    }
}
