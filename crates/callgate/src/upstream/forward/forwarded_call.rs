//! Sends a request, and sends it again if that is safe.

use std::time::Duration;

use http::{StatusCode, Uri};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::Forward;
use super::auth::credential::Authentication;
use super::breaker::Attempt;
use super::failure::Failure;
use super::options::SecretJson;
use super::reply::ServiceResponse;
use super::request::{self, RequestId};
use super::send::queue::QueuedRequest;
use crate::upstream::Call;

/// Delay before a request that got no connection is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

impl Forward {
    /// Sends a request and reads its reply. If the service refuses the access token or session, retries once with a new
    /// one.
    pub(super) async fn exchange(
        &self,
        call: &Call<'_>,
        uri: Option<Uri>,
        auth: &mut Authentication,
        attempt: &mut Attempt<'_>,
    ) -> Result<Box<RawValue>, Failure> {
        let (id, at_tool_url) = (self.request_id(call.id), uri.is_some());
        let read = |response: Result<ServiceResponse, Failure>| {
            let response = response?;
            // A reply over WebSocket was not counted against the memory budget while it was read.
            call.reservation.at_least(response.body.len())?;
            if at_tool_url { response.read_at_tool_url(&id) } else { response.read(&id) }
        };
        let response = self.send(call, &id, uri.clone(), auth, attempt).await;
        // A JSON-RPC reply means that the method has run, whatever the HTTP status is.
        let has_run = response.as_ref().is_ok_and(|response| {
            response.status == StatusCode::UNAUTHORIZED && !response.is_unauthorized(&id)
        });
        match read(response) {
            // A refused request has not run, so it may be repeated even if the method has side effects.
            Err(failure)
                if !has_run
                    && self.is_refused(&failure)
                    && Box::pin(self.renew(call, auth, &failure)).await? =>
            {
                self.stats.count_retry();
                read(Box::pin(self.send(call, &id, uri, auth, attempt)).await)
            }
            result => result,
        }
    }

    /// Sends a request. Retries once if the method cannot have run, or if it is read-only.
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
                        (headers(), auth.in_body())
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
                    Box::pin(queue.send(request, response)).await
                }
            };
            let (may_retry, pauses) = match &response {
                Ok(response) => (response.is_discarded(), true),
                Err(failure) => (failure.may_be_retried(call.safety), failure.needs_pause()),
            };
            if !is_first || !may_retry {
                attempt.settle(response.as_ref().is_err_and(Failure::found_no_connection));
                return response;
            }
            tracing::debug!(upstream = self.name, call = call.id, "retrying the request");
            self.stats.count_retry();
            if pauses {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            is_first = false;
        }
    }
}
