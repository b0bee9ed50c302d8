//! Questions of a program that is no gateway, such as an import.

use http::StatusCode;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::time::timeout;

use super::credential::Authentication;
use super::failure::Failure;
use super::refusal::SentCredential;
use super::reply::ServiceResponse;
use super::stats::Outcome;
use super::target::Target;
use super::{Forward, Ordering, request};
use crate::access::Caller;
use crate::model::method::Safety;
use crate::upstream::Call;
use crate::upstream::budget::BudgetReservation;
use crate::upstream::client::Client;
use crate::wire::jsonrpc::RpcError;

/// Why a service did not say it.
#[derive(Debug, Error)]
pub enum AskError {
    /// The method made an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// There is no reply.
    #[error("{words}")]
    Failed {
        /// What became of it.
        outcome: Outcome,
        /// HTTP status of the response, if there was one.
        status: Option<u16>,
        /// For people who know where the service is.
        words: String,
    },
}

impl From<Failure> for AskError {
    fn from(failure: Failure) -> Self {
        let status = failure.status().map(|status| status.as_u16());
        let failure = match failure {
            Failure::Error(error) | Failure::Denied(error) => return Self::Rpc(error),
            failure => failure,
        };
        Self::Failed { outcome: failure.outcome(), status, words: failure.to_string() }
    }
}

impl Forward {
    /// Calls a method that only reads, on nobody's behalf. It is in no counter.
    pub async fn ask(&self, method: &str, params: &RawValue) -> Result<Box<RawValue>, AskError> {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed);
        let call = Call {
            id: &format!("mcp_ask_{number}"),
            method,
            params,
            safety: Safety::ReadOnly,
            caller: &Caller::anonymous(),
            client: &Client::default(),
            reservation: &BudgetReservation::default(),
        };
        Ok(self.answer(&call, None, &mut Authentication::default()).await?)
    }

    /// Returns what is at the service's URL, as text.
    pub async fn get(&self) -> Result<String, AskError> {
        self.get_at(&self.options.target).await
    }

    /// Returns what is at another URL of the same server, as text. It is asked with the same credentials.
    pub async fn get_at(&self, target: &Target) -> Result<String, AskError> {
        let limits = self.options.limits;
        let reading = async {
            let mut auth = Authentication::of_upstream(self.tokens.as_ref()).await?;
            let mut read = self.get_with(target, &auth).await?;
            if let (Some(token), StatusCode::UNAUTHORIZED) = (&auth.token, read.status)
                && let Some(token) = token.renewed().await?
            {
                auth.bearer = token.bearer();
                read = self.get_with(target, &auth).await?;
            }
            read.into_text()
        };
        let read = timeout(limits.timeout, reading).await;
        match read.unwrap_or(Err(Failure::TimedOut(limits.timeout))) {
            Ok(text) => Ok(text),
            Err(Failure::Status(status)) => {
                let status = status.as_u16();
                let words = format!("HTTP {status}");
                Err(AskError::Failed { outcome: Outcome::Status, status: Some(status), words })
            }
            Err(failure) if self.options.has_shared_credential() => Err(failure.into()),
            Err(failure) => Err(failure.sent_with(SentCredential::None { is_known: false }).into()),
        }
    }

    async fn get_with(
        &self,
        target: &Target,
        auth: &Authentication,
    ) -> Result<ServiceResponse, Failure> {
        let headers = request::headers(&self.options, &Caller::anonymous(), auth);
        self.client.get(target.uri().clone(), headers, self.options.limits.result_bytes).await
    }
}
