//! Whether and when the request of a call is sent again.
//!
//! Requests are also sent again in `send/batch.rs` (calls of a refused batch) and in `http_client/http1.rs` (a closed
//! idle connection).

use std::time::Duration;

use http::StatusCode;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::forwarded_call::ForwardedCall;
use super::reply::{Problem, ServiceResponse, UnexpectedResponse};
use super::{Forward, known_errors};
use crate::http_client::send_error::SendErrorKind;
use crate::model::method::Safety;

/// Delay before a request that got no connection is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

impl ForwardedCall<'_> {
    /// Sends the request and reads its reply. If the service refuses the access token or session, retries once with a
    /// new one.
    pub(super) async fn exchange(&mut self) -> Result<Box<RawValue>, Failure> {
        let response = self.send().await;
        // A JSON-RPC reply means that the method has run, whatever the HTTP status is.
        let has_run = response.as_ref().is_ok_and(|response| {
            response.status == StatusCode::UNAUTHORIZED && !response.is_unauthorized(&self.id)
        });
        match self.read(response) {
            // A refused request has not run, so it may be repeated even if the method has side effects.
            Err(failure)
                if !has_run
                    && self.forward.is_refused(&failure)
                    && Box::pin(self.renew(&failure)).await? =>
            {
                self.forward.stats.count_retry();
                let response = Box::pin(self.send()).await;
                self.read(response)
            }
            result => result,
        }
    }

    /// Sends the request. Retries once if the method cannot have run, or if it is read-only.
    async fn send(&mut self) -> Result<ServiceResponse, Failure> {
        let body = self.body();
        let limit = self.forward.options.limits.result_bytes;
        let mut is_first = true;
        loop {
            let response = match &self.forward.queue {
                None => {
                    let headers = self.headers();
                    self.forward.client.post(self.post(headers.as_ref(), &body, limit)).await
                }
                Some(queue) => {
                    let (request, response) = self.queued(queue.is_batch(), body.clone());
                    Box::pin(queue.send(request, response)).await
                }
            };
            let (may_retry, pauses) = match &response {
                Ok(response) => (response.is_discarded(), true),
                Err(failure) => (failure.may_be_retried(self.call.safety), failure.needs_pause()),
            };
            if !is_first || !may_retry {
                if let Some(attempt) = &mut self.attempt {
                    attempt.settle(response.as_ref().is_err_and(Failure::found_no_connection));
                }
                return response;
            }
            let Forward { name, stats, .. } = self.forward;
            tracing::debug!(upstream = name, call = self.call.id, "retrying the request");
            stats.count_retry();
            if pauses {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            is_first = false;
        }
    }
}

impl Failure {
    /// Returns `true` if the request was not sent, if the service discarded it, or if it is read-only and got no
    /// response. Returns `false` after a timeout.
    fn may_be_retried(&self, safety: Safety) -> bool {
        if let Self::Unexpected(response) = self {
            return response.was_discarded();
        }
        let Self::Send(error) = self else { return false };
        match error.kind {
            SendErrorKind::NotSent | SendErrorKind::ClosedInHandshake => true,
            SendErrorKind::Broken { has_response_bytes } => {
                !has_response_bytes && safety == Safety::ReadOnly
            }
            _ => false,
        }
    }

    /// Returns `true` if an immediate retry would fail as well.
    fn needs_pause(&self) -> bool {
        self.found_no_connection() || matches!(self, Self::Unexpected(_))
    }
}

impl ServiceResponse {
    /// Returns `true` if the service certainly discarded the request.
    fn is_discarded(&self) -> bool {
        !self.status.is_success() && known_errors::is_queue_full(&self.body)
    }
}

impl UnexpectedResponse {
    /// Returns `true` if the service certainly discarded the request.
    fn was_discarded(&self) -> bool {
        matches!(self.problem, Problem::QueueFull)
    }
}
