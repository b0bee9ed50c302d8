//! Requests that are not calls of a client, such as those of an import.

use http::StatusCode;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::time::timeout;

use crate::access::Caller;
use crate::model::method::Safety;
use crate::upstream::Call;
use crate::upstream::client::Client;
use crate::upstream::forward::auth::refusal::{AuthRefusal, Scheme};
use crate::upstream::forward::known_errors::is_session_refused;
use crate::upstream::forward::reply::ResponseProblem;
use crate::upstream::forward::{
    Authentication, CallOutcome, Failure, Forward, ForwardedCall, Ordering, ServiceResponse,
    Target, request,
};
use crate::upstream::memory_budget::BudgetReservation;
use crate::wire::jsonrpc::RpcError;

/// Error of [`Forward::query`] and [`Forward::get`]. [`Forward`] has an example.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The method returned an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// There is no valid reply.
    #[error("{message}")]
    Failed {
        /// Kind of failure.
        outcome: CallOutcome,
        /// HTTP status of the response, if there was one.
        status: Option<u16>,
        /// Whether the service needs a login with HTTP Digest, which is not supported.
        needs_digest: bool,
        /// Description of the failure for an administrator.
        message: String,
    },
}

impl QueryError {
    /// Returns `true` if the service returned an error because there is no session.
    pub fn is_session_refused(&self) -> bool {
        matches!(self, Self::Rpc(error) if is_session_refused(error, &[]))
    }
}

impl From<Failure> for QueryError {
    fn from(failure: Failure) -> Self {
        let status = failure.status().map(|status| status.as_u16());
        let failure = match failure {
            Failure::Error(error) | Failure::Denied(error) => return Self::Rpc(error),
            failure => failure,
        };
        let needs_digest =
            matches!(&failure, Failure::Refused(AuthRefusal { scheme: Scheme::Digest, .. }));
        let (outcome, message) = (failure.outcome(), failure.to_string());
        Self::Failed { outcome, status, needs_digest, message }
    }
}

impl Forward {
    /// Calls a read-only method without a caller. The call does not appear in the statistics.
    pub async fn query(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<Box<RawValue>, QueryError> {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed);
        let call = Call {
            id: &format!("mcp_ask_{number}"),
            method,
            remote_name: method,
            params,
            safety: Safety::ReadOnly,
            caller: &Caller::anonymous(),
            client: &Client::default(),
            reservation: &BudgetReservation::default(),
        };
        Ok(ForwardedCall::new(self, &call, None).run().await?)
    }

    /// Sends a `GET` request to `target`, and returns the body of the response. If `target` is `None`, uses the
    /// address of the service. Sends the credentials that are configured for all callers.
    pub async fn get(&self, target: Option<&Target>) -> Result<String, QueryError> {
        let (limits, target) = (self.options().limits, target.unwrap_or(&self.options().target));
        let mut auth = Authentication::default();
        let reading = async {
            auth.add_upstream_token(self.tokens.as_ref()).await?;
            if let Some(sessions) = &self.sessions {
                auth.session = sessions.session().await?;
            }
            let mut response = self.get_with(target, &auth).await?;
            if response.status == StatusCode::UNAUTHORIZED && auth.renew(None).await? {
                response = self.get_with(target, &auth).await?;
            }
            response.into_text()
        };
        let read = timeout(limits.timeout, reading).await;
        match read.unwrap_or(Err(Failure::TimedOut(limits.timeout))) {
            Ok(text) => Ok(text),
            Err(failure) => {
                let failure = failure.sent_with(self.shared_credential());
                let failure = failure.redacted(|| self.secrets(&Caller::anonymous(), &auth));
                let mut error = QueryError::from(failure.clone());
                // Not every service has the document, so the message does not ask to check the URL.
                if let (QueryError::Failed { message, .. }, Failure::Unexpected(response)) =
                    (&mut error, &failure)
                    && matches!(response.problem, ResponseProblem::Status)
                {
                    *message = format!("HTTP {}{}", response.status.as_u16(), response.text);
                }
                Err(error)
            }
        }
    }

    async fn get_with(
        &self,
        target: &Target,
        auth: &Authentication,
    ) -> Result<ServiceResponse, Failure> {
        let headers = request::headers(self.options(), &Caller::anonymous(), auth);
        self.service.get(target.uri(), headers, self.options().limits.result_bytes).await
    }
}
