//! Why a call has no reply: for the log, for the counters, and in words for the agent.
//!
//! Nothing that was sent or that came back is repeated, since both may hold secrets. Only the text of an
//! error with the code -32603 is in the log, without the secrets that were sent.

use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use super::credential::NoCredential;
use super::oauth::NoToken;
use super::refusal::{Refusal, SentCredential};
use super::stats::Outcome;
use crate::budget::OverBudget;
use crate::http_client::body::BodyError;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::SendError;
use crate::method::Safety;

/// Why a call has no reply.
#[derive(Debug, Clone, Error)]
pub(super) enum Failure {
    #[error(transparent)]
    NoCredential(#[from] NoCredential),
    #[error(transparent)]
    NoToken(#[from] NoToken),
    #[error("no access token within {0:?}")]
    NoTokenInTime(Duration),
    #[error("no place among the calls under way became free within {0:?}")]
    Busy(Duration),
    #[error("not tried, since connections to it have failed")]
    Down,
    #[error("no connection: {0}")]
    Unreachable(String),
    #[error("no connection that can be trusted: {0}")]
    Untrusted(String),
    #[error("what it answers is not HTTP")]
    NoHttp,
    #[cfg(feature = "websocket")]
    #[error("HTTP {}: it does not open a WebSocket", .0.as_u16())]
    NoWebSocket(StatusCode),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the connection ended without an answer: {0}")]
    Broken(String),
    #[error("the connection ended within the answer: {0}")]
    Truncated(String),
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    #[error("HTTP {}, a redirect to {}", .status.as_u16(), elsewhere(.to.as_ref()))]
    Redirected { status: StatusCode, to: Option<Endpoint> },
    #[error("{0}")]
    Refused(Refusal),
    #[error("there is no such tool at the URL that it has by `tool_path`")]
    NoSuchTool,
    /// An error with the code -32603, whose text is for the log.
    #[error("the method failed there: {0}")]
    Internal(String),
    #[error("HTTP {} without a JSON-RPC error", .0.as_u16())]
    Status(StatusCode),
    #[error("the answer is `{0}`, not JSON")]
    ContentType(String),
    #[error("the answer is not JSON")]
    NotJson,
    #[error("HTTP {} without an answer", .0.as_u16())]
    Empty(StatusCode),
    #[error("the answer is no JSON-RPC reply: {0}")]
    NotRpc(&'static str),
    #[error("the reply has another id than the request")]
    WrongId,
    #[error("the answer to a batch has no reply with the id of the request")]
    LeftOut,
    #[error(
        "the answer to a batch has an error for no or another request, and no reply to this one"
    )]
    Unmatched,
}

fn elsewhere(to: Option<&Endpoint>) -> String {
    to.map_or_else(|| "another place".to_owned(), ToString::to_string)
}

/// For those who do not know whether it ran.
fn try_again(safety: Safety) -> &'static str {
    match safety {
        Safety::ReadOnly => "It only reads, so it can be tried again.",
        Safety::Destructive => "It may have run all the same: look before you try again.",
    }
}

impl Failure {
    /// With the credential that was sent, where that is what was refused.
    pub(super) fn sent_with(self, sent: SentCredential) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(Refusal { sent, ..refusal }),
            other => other,
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::NoCredential(_) => Outcome::NoCredential,
            Self::NoToken(_) | Self::NoTokenInTime(_) => Outcome::NoToken,
            Self::Busy(_) => Outcome::Busy,
            Self::Down => Outcome::Down,
            Self::Unreachable(_) => Outcome::Unreachable,
            Self::Untrusted(_) => Outcome::Untrusted,
            Self::NoHttp => Outcome::NoHttp,
            #[cfg(feature = "websocket")]
            Self::NoWebSocket(_) => Outcome::NoWebSocket,
            Self::TimedOut(_) => Outcome::TimedOut,
            Self::Broken(_) => Outcome::Broken,
            Self::Truncated(_) => Outcome::Truncated,
            Self::TooLarge(_) => Outcome::TooLarge,
            Self::OverBudget(_) => Outcome::OverBudget,
            Self::Redirected { .. } => Outcome::Redirected,
            Self::Refused(_) => Outcome::Refused,
            Self::Internal(_) => Outcome::Error,
            Self::Status(_) | Self::NoSuchTool => Outcome::Status,
            Self::ContentType(_) => Outcome::ContentType,
            Self::NotJson => Outcome::NotJson,
            Self::Empty(_) => Outcome::Empty,
            Self::NotRpc(_) => Outcome::NotRpc,
            Self::WrongId | Self::LeftOut | Self::Unmatched => Outcome::WrongId,
        }
    }

    /// Returns `true` if the service refused the credential, or wants one.
    pub(super) fn is_unauthorized(&self) -> bool {
        self.status() == Some(StatusCode::UNAUTHORIZED)
    }

    /// Returns the HTTP status of the response, if that is what the failure is about.
    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Status(status) | Self::Empty(status) => Some(*status),
            Self::Redirected { status, .. } => Some(*status),
            Self::NoSuchTool => Some(StatusCode::NOT_FOUND),
            #[cfg(feature = "websocket")]
            Self::NoWebSocket(status) => Some(*status),
            _ => None,
        }
    }

    /// What is wrong and what somebody could do, for an agent and who reads along.
    pub(super) fn words(&self, safety: Safety) -> String {
        let again = try_again(safety);
        let what = match self {
            Self::NoCredential(why) => why.words().to_owned(),
            Self::NoToken(why) => why.words(),
            Self::NoTokenInTime(limit) => format!(
                "needs an access token, and there was none within {limit:?}. Nothing was run: try again \
                 later, or tell an administrator."
            ),
            Self::Busy(limit) => format!(
                "is busy: too many calls are under way, and none ended within {limit:?}. Nothing was \
                 run: try again later."
            ),
            Self::Down => "cannot be reached, and is not tried for some seconds. Nothing was run: try \
                           again later, or tell an administrator."
                .to_owned(),
            Self::Unreachable(_) => "cannot be reached. Nothing was run: try again later, or tell an \
                                     administrator."
                .to_owned(),
            Self::Untrusted(_) => "cannot be reached safely: its certificate is not trusted, or it \
                                   does not speak TLS. Nothing was run; an administrator has to mend it."
                .to_owned(),
            Self::TimedOut(limit) => format!("did not answer within {limit:?}. {again}"),
            Self::Broken(_) => format!("ended the connection without an answer. {again}"),
            Self::Truncated(_) => format!("broke off within its answer. {again}"),
            Self::TooLarge(limit) => format!(
                "answered with more than {limit} bytes, which is the limit. It ran; ask for less, such \
                 as fewer items, or ask an administrator to raise `max_result_bytes`."
            ),
            Self::OverBudget(_) => format!(
                "answered, but the results of other calls have all the memory that the gateway has for \
                 them. {again}"
            ),
            wrong => return wrong.words_on_answer(again),
        };
        format!("The service behind this tool {what}")
    }

    /// The same, where the service answered and the answer is wrong.
    fn words_on_answer(&self, again: &str) -> String {
        const LOOK: &str = "An administrator should look at its URL.";
        let what = match self {
            Self::Redirected { status, .. } => format!(
                "answered with a redirect (HTTP {}), which is not followed. An administrator has to \
                 correct its URL.",
                status.as_u16()
            ),
            Self::Refused(refusal) => refusal.words(),
            Self::NoSuchTool => {
                "has no such tool (any more). Nothing was run; an administrator has \
                                 to import its methods again."
                    .to_owned()
            }
            Self::Internal(_) => format!(
                "failed inside the method; only the gateway's log has what it said. {again}"
            ),
            #[cfg(feature = "websocket")]
            Self::NoWebSocket(status) => {
                format!(
                    "does not open a WebSocket (HTTP {}). Nothing was run. {LOOK}",
                    status.as_u16()
                )
            }
            Self::Status(StatusCode::SERVICE_UNAVAILABLE) => format!(
                "is not available now, such as a site in maintenance (HTTP 503). Try again later. {again}"
            ),
            Self::Status(status) => {
                format!("answered HTTP {} without saying why. {again}", status.as_u16())
            }
            Self::ContentType(media) => {
                format!("answered with `{media}`, not with JSON. {again} {LOOK}")
            }
            Self::NotJson => format!("answered with something that is not JSON. {again} {LOOK}"),
            Self::Empty(status) => {
                format!("answered with nothing (HTTP {}). {again} {LOOK}", status.as_u16())
            }
            Self::NotRpc(_) => {
                format!("answered with JSON that is no JSON-RPC reply. {again} {LOOK}")
            }
            Self::WrongId => format!("answered another request than this one. {again}"),
            Self::LeftOut => format!("answered a batch of requests without this one. {again}"),
            Self::Unmatched => format!(
                "answered a batch of requests with an error that is not clearly about this one. {again}"
            ),
            _ => format!("answered with something that is not HTTP. {again} {LOOK}"),
        };
        format!("The service behind this tool {what}")
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let words = error.words().to_owned();
        match error {
            SendError::NotSent(_) | SendError::Silent(_) | SendError::HungUp(_) => {
                Self::Unreachable(words)
            }
            SendError::Untrusted(_) | SendError::NoTls => Self::Untrusted(words),
            SendError::NoHttp => Self::NoHttp,
            SendError::Broken(_) => Self::Broken(words),
        }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLong(limit) => Self::TooLarge(limit),
            BodyError::Broken(words) => Self::Truncated(words),
            BodyError::NotText => Self::NotJson,
        }
    }
}

/// A failure as the log has it.
#[derive(Debug, Error)]
#[error("upstream `{upstream}`: {failure}")]
pub(super) struct Logged {
    pub(super) upstream: String,
    pub(super) failure: Failure,
}
