//! What a service says of itself, to a program that is no gateway before it.

use serde_json::value::RawValue;
use thiserror::Error;
use tokio::time::timeout;

use super::failure::Failure;
use super::send_failure::SendFailure;
use super::stats::Outcome;
use super::{Forward, Ordering, request};
use crate::access::Caller;
use crate::budget::Hold;
use crate::client::Client;
use crate::jsonrpc::RpcError;
use crate::method::Safety;
use crate::upstream::Call;

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
        /// For people who know where the service is.
        words: String,
    },
}

impl AskError {
    /// Whether nobody is there who could be asked something else.
    pub fn is_nobody(&self) -> bool {
        let Self::Failed { outcome, .. } = self else { return false };
        matches!(
            outcome,
            Outcome::Busy
                | Outcome::Down
                | Outcome::Unreachable
                | Outcome::Untrusted
                | Outcome::NoHttp
                | Outcome::NoWebSocket
                | Outcome::TimedOut
        )
    }
}

impl From<Failure> for AskError {
    fn from(failure: Failure) -> Self {
        Self::Failed { outcome: failure.outcome(), words: failure.to_string() }
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
            hold: &Hold::default(),
        };
        self.answer(&call).await?.map_err(|reply| AskError::Rpc(reply.into()))
    }

    /// What is at the service's URL, as text.
    pub async fn get(&self) -> Result<String, AskError> {
        let limits = self.options.limits;
        let reading = async {
            let headers = request::headers(&self.options, &Caller::anonymous(), None);
            let read = self.wire.client().get(headers, limits.result_bytes).await;
            read.map_err(SendFailure::into_failure)?.into_text()
        };
        let read = timeout(limits.timeout, reading).await;
        match read.unwrap_or(Err(Failure::TimedOut(limits.timeout))) {
            Ok(text) => Ok(text),
            Err(Failure::Status(status)) => {
                let words = format!("HTTP {}", status.as_u16());
                Err(AskError::Failed { outcome: Outcome::Status, words })
            }
            Err(failure) => Err(failure.into()),
        }
    }
}
