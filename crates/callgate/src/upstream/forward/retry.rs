//! Decides whether a request is sent again.
//!
//! `ForwardedCall::send` sends a request again if the first attempt failed. `ForwardedCall::exchange` sends a request
//! again if the service refused the access token or the session. Requests are also sent again in `send/batch.rs` (calls
//! of a refused batch) and in `http_client/http1.rs` (a closed idle connection).

use std::time::Duration;

use super::Forward;
use super::failure::Failure;
use super::known_errors;
use super::reply::{ResponseProblem, ServiceResponse};
use crate::http_client::send_error::SendErrorKind;
use crate::model::method::Safety;

/// Delay before a retry, if the request got no connection or the service discarded the request.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Returns `true` if the service certainly discarded the request.
pub(super) fn is_discarded(response: &ServiceResponse) -> bool {
    !response.status.is_success() && known_errors::is_queue_full(&response.body)
}

impl Forward {
    /// Returns `true` if the service refused the access token or the session of a request. A refused request has not
    /// run.
    pub(super) fn is_refused(&self, failure: &Failure) -> bool {
        failure.is_unauthorized()
            || self.sessions.as_ref().is_some_and(|sessions| sessions.is_refused(failure))
    }
}

impl Failure {
    /// Returns `true` if the request was not sent, if the service discarded the request, or if a read-only request
    /// got no response. Returns `false` after a timeout, and if there was no trusted TLS connection.
    pub(super) fn may_be_retried(&self, safety: Safety) -> bool {
        if let Self::Unexpected(response) = self {
            return matches!(response.problem, ResponseProblem::QueueFull);
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

    /// Returns `true` if an immediate retry would probably fail as well.
    pub(super) fn needs_pause(&self) -> bool {
        self.is_connection_failure() || matches!(self, Self::Unexpected(_))
    }
}
