//! Why a call has no result: for the log, for the counters, and in words for the agent.
//!
//! Nothing that was sent or that came back is repeated, since both may hold secrets. Only the text of an
//! error with the code -32603 is in the log, without the secrets that were sent.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, LOCATION};
use thiserror::Error;

use super::oauth::NoToken;
use super::refusal::{Refusal, SentCredential};
use super::stats::Outcome;
use crate::http_client::BodyError;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::model::method::Safety;
use crate::upstream::Call;
use crate::upstream::NotFound;
use crate::upstream::budget::BudgetExceeded;
use crate::upstream::{CallError, CallFailure};
use crate::wire::jsonrpc::RpcError;

/// Why a call has no result. The text of each variant is for the log; [`Failure::outcome`] and
/// [`Failure::words`] have the counter and the words for the caller.
#[derive(Debug, Clone, Error)]
pub(super) enum Failure {
    /// An error that the method returned.
    #[error(transparent)]
    Error(RpcError),
    /// An error that says that access is denied, as Drupal does: with an id of null, in its data.
    #[error(transparent)]
    Denied(RpcError),
    /// An error with the code -32603, whose text is for the log only.
    #[error("the method failed there: {0}")]
    Internal(String),
    #[error("the caller is anonymous, and has no credential for it")]
    AnonymousCaller,
    #[error("`{0}` has no credential for it")]
    NoCredential(String),
    #[error("the credential of `{0}` has characters that no header can have")]
    UnfitCredential(String),
    #[error("the method takes its parameters by name, so that no credential can stand before them")]
    CredentialByName,
    #[error("the credential of `{0}` cannot be looked up: {1}")]
    CredentialLookup(String, String),
    #[error(transparent)]
    NoToken(#[from] NoToken),
    #[error("no access token within {0:?}")]
    NoTokenInTime(Duration),
    #[error("no place among the calls under way became free within {0:?}")]
    Busy(Duration),
    #[error("not tried, since connections to it have failed")]
    Down,
    #[error("{}", send_error(.0))]
    Send(SendError),
    #[cfg(feature = "websocket")]
    #[error("HTTP {}: it does not open a WebSocket", .0.as_u16())]
    NoWebSocket(StatusCode),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the connection ended within the answer: {0}")]
    Truncated(String),
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
    #[error(transparent)]
    BudgetExceeded(#[from] BudgetExceeded),
    #[error("HTTP {}, a redirect to {}", .status.as_u16(), elsewhere(.to.as_ref()))]
    Redirected { status: StatusCode, to: Option<Endpoint> },
    #[error("HTTP {}: {}", .0.status.as_u16(), .0.texts().0)]
    Refused(Refusal),
    #[error("there is no such tool at the URL that it has by `tool_path`")]
    NoSuchTool,
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

fn send_error(SendError { kind, words }: &SendError) -> String {
    match kind {
        SendErrorKind::Untrusted | SendErrorKind::NoTls => {
            format!("no connection that can be trusted: {words}")
        }
        SendErrorKind::NoHttp => "what it answers is not HTTP".to_owned(),
        SendErrorKind::Broken { .. } => {
            format!("the connection ended without an answer: {words}")
        }
        _ => format!("no connection: {words}"),
    }
}

fn elsewhere(to: Option<&Endpoint>) -> String {
    to.map_or_else(|| "another place".to_owned(), ToString::to_string)
}

impl Failure {
    /// The connection was gone before the request could be written to it.
    pub(super) fn never_sent(words: impl Into<String>) -> Self {
        Self::Send(SendError::new(SendErrorKind::NotSent, words))
    }

    /// The connection ended after the request was written, without a byte of a response.
    pub(super) fn broken(words: impl Into<String>) -> Self {
        Self::Send(SendError::new(SendErrorKind::Broken { was_heard: false }, words))
    }

    /// A redirect, which is not followed.
    pub(super) fn redirected(status: StatusCode, headers: &HeaderMap) -> Self {
        let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
        Self::Redirected { status, to: to.and_then(|to| to.parse().ok()) }
    }

    /// Records the credential that was sent, if that is what was refused.
    pub(super) fn sent_with(self, sent: SentCredential) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(Refusal { sent, ..refusal }),
            other => other,
        }
    }

    /// Returns `true` if the request may be sent once more: it was not sent, or it only reads and nothing
    /// came back. Nothing is sent again after a timeout.
    pub(super) fn may_be_sent_again(&self, safety: Safety) -> bool {
        let Self::Send(error) = self else { return false };
        match error.kind {
            SendErrorKind::NotSent | SendErrorKind::HungUp => true,
            SendErrorKind::Broken { was_heard } => !was_heard && safety == Safety::ReadOnly,
            _ => false,
        }
    }

    /// Returns `true` if there was no connection to the service.
    pub(super) fn found_no_connection(&self) -> bool {
        let Self::Send(error) = self else { return false };
        let has_no_tls = matches!(error.kind, SendErrorKind::Untrusted | SendErrorKind::NoTls);
        error.never_left() || has_no_tls
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

    pub(super) fn outcome(&self) -> Outcome {
        self.row().0
    }

    /// Describes what is wrong and what somebody could do, for an agent and its user.
    pub(super) fn words(&self, safety: Safety) -> String {
        let again = match safety {
            Safety::ReadOnly => "It only reads, so it can be tried again.",
            Safety::Destructive => "It may have run all the same: look before you try again.",
        };
        let words = match self {
            Self::NoToken(why) => why.words(),
            Self::Refused(refusal) => refusal.texts().1,
            _ => {
                let (_, what, advice) = self.row();
                format!("{what} {advice}").replace("{again}", again).replace("{}", &self.detail())
            }
        };
        format!("The service behind this tool {words}")
    }

    /// Returns what `{}` stands for in the row of a failure.
    fn detail(&self) -> String {
        match self {
            Self::NoTokenInTime(limit) | Self::Busy(limit) | Self::TimedOut(limit) => {
                format!("{limit:?}")
            }
            Self::TooLarge(limit) => limit.to_string(),
            Self::ContentType(media) => media.clone(),
            _ => self.status().map_or_else(String::new, |status| status.as_u16().to_string()),
        }
    }

    fn row(&self) -> Row {
        match self {
            Self::Error(_) => (Outcome::Error, "", ""),
            Self::Denied(_) => (Outcome::Denied, "", ""),
            Self::NoToken(_) => (Outcome::NoToken, "", ""),
            Self::Refused(_) => (Outcome::Refused, "", ""),
            Self::Internal(_) => (
                Outcome::Error,
                "failed inside the method; only the gateway's log has what it said.",
                AGAIN,
            ),
            Self::AnonymousCaller => (
                Outcome::NoCredential,
                "knows its users by credentials of their own, and you did not say who you are.",
                "Nothing was run; connect with a token.",
            ),
            Self::NoCredential(_) => (
                Outcome::NoCredential,
                "knows its users by credentials of their own, and there is none of yours.",
                "Nothing was run; an administrator has to set it.",
            ),
            Self::UnfitCredential(_) | Self::CredentialByName | Self::CredentialLookup(..) => (
                Outcome::NoCredential,
                "knows its users by credentials of their own, and yours cannot be sent.",
                MEND,
            ),
            Self::NoTokenInTime(_) => {
                (Outcome::NoToken, "needs an access token, and there was none within {}.", LATER)
            }
            Self::Busy(_) => (
                Outcome::Busy,
                "is busy: too many calls are under way, and none ended within {}.",
                "Nothing was run: try again later.",
            ),
            Self::Down => {
                (Outcome::Down, "cannot be reached, and is not tried for some seconds.", LATER)
            }
            Self::Send(error) => send_row(error.kind),
            Self::TimedOut(_) => (Outcome::TimedOut, "did not answer within {}.", AGAIN),
            Self::NoSuchTool => (
                Outcome::Status,
                "has no such tool (any more).",
                "Nothing was run; an administrator has to import its methods again.",
            ),
            answered => answered.response_row(),
        }
    }

    /// Returns the row of a wrong response.
    fn response_row(&self) -> Row {
        match self {
            Self::Truncated(_) => (Outcome::Truncated, "broke off within its answer.", AGAIN),
            Self::TooLarge(_) => (
                Outcome::TooLarge,
                "answered with more than {} bytes, which is the limit.",
                "It ran; ask for less, such as fewer items, or ask an administrator to raise \
                 `max_result_bytes`.",
            ),
            Self::BudgetExceeded(_) => (
                Outcome::OverBudget,
                "answered, but the results of other calls have all the memory that the gateway has for \
                 them.",
                AGAIN,
            ),
            Self::Redirected { .. } => (
                Outcome::Redirected,
                "answered with a redirect (HTTP {}), which is not followed.",
                "An administrator has to correct its URL.",
            ),
            #[cfg(feature = "websocket")]
            Self::NoWebSocket(_) => (
                Outcome::NoWebSocket,
                "does not open a WebSocket (HTTP {}). Nothing was run.",
                "An administrator should look at its URL.",
            ),
            Self::Status(StatusCode::SERVICE_UNAVAILABLE) => (
                Outcome::Status,
                "is not available now, such as a site in maintenance (HTTP {}). Try again later.",
                AGAIN,
            ),
            Self::Status(_) => (Outcome::Status, "answered HTTP {} without saying why.", AGAIN),
            Self::ContentType(_) => {
                (Outcome::ContentType, "answered with `{}`, not with JSON.", AGAIN_LOOK)
            }
            Self::NotJson => {
                (Outcome::NotJson, "answered with something that is not JSON.", AGAIN_LOOK)
            }
            Self::Empty(_) => (Outcome::Empty, "answered with nothing (HTTP {}).", AGAIN_LOOK),
            Self::NotRpc(_) => {
                (Outcome::NotRpc, "answered with JSON that is no JSON-RPC reply.", AGAIN_LOOK)
            }
            Self::LeftOut => {
                (Outcome::WrongId, "answered a batch of requests without this one.", AGAIN)
            }
            Self::Unmatched => (
                Outcome::WrongId,
                "answered a batch of requests with an error that is not clearly about this one.",
                AGAIN,
            ),
            _ => (Outcome::WrongId, "answered another request than this one.", AGAIN),
        }
    }

    /// Returns the error for the gateway, which logs the name of the upstream with it.
    pub(super) fn into_error(self, upstream: &str, call: &Call<'_>) -> CallError {
        let failure = match self {
            Self::Error(error) => return error.into(),
            Self::Denied(error) => return CallError::denied(call.method, error),
            failure => failure,
        };
        let log = format!("upstream `{upstream}`: {failure}");
        let told = CallFailure::new(failure.words(call.safety), log);
        match failure {
            Self::NoSuchTool => CallError::Gone(NotFound(call.method.to_owned()), told),
            Self::AnonymousCaller => CallError::Unauthorized(told),
            Self::NoCredential(_) => CallError::Forbidden(told, None),
            Self::Refused(Refusal { status: StatusCode::FORBIDDEN, scope, .. }) => {
                CallError::Forbidden(told, scope)
            }
            Self::Refused(Refusal { status: StatusCode::UNAUTHORIZED, sent, .. })
                if sent != SentCredential::Shared =>
            {
                CallError::Unauthorized(told)
            }
            _ => CallError::Failed(told),
        }
    }
}

/// The counter of a failure, what the service did or lacks, and what to do about it. `{}` stands for the
/// detail of the failure, `{again}` for whether a call that may have run can be tried again.
type Row = (Outcome, &'static str, &'static str);

const AGAIN: &str = "{again}";
const AGAIN_LOOK: &str = "{again} An administrator should look at its URL.";
const LATER: &str = "Nothing was run: try again later, or tell an administrator.";
const MEND: &str = "Nothing was run; an administrator has to mend it.";

fn send_row(kind: SendErrorKind) -> Row {
    match kind {
        SendErrorKind::NotSent | SendErrorKind::ConnectTimeout | SendErrorKind::HungUp => {
            (Outcome::Unreachable, "cannot be reached.", LATER)
        }
        SendErrorKind::Untrusted | SendErrorKind::NoTls => (
            Outcome::Untrusted,
            "cannot be reached safely: its certificate is not trusted, or it does not speak TLS.",
            MEND,
        ),
        SendErrorKind::NoHttp => {
            (Outcome::NoHttp, "answered with something that is not HTTP.", AGAIN_LOOK)
        }
        SendErrorKind::Broken { .. } => {
            (Outcome::Broken, "ended the connection without an answer.", AGAIN)
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
