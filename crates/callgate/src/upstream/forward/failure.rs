//! Failures of calls: their messages for the log and for the agent, and their counters.
//!
//! The messages contain no data of the request, because a request may contain secrets. Two kinds of text come from the
//! response: its body, and the message of an error with the code -32603. Both are logged without the secrets of the
//! request. Agents see these texts only if the service is trusted.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, LOCATION};
use thiserror::Error;

use crate::http_client::body::BodyError;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::model::method::Safety;
use crate::upstream::forward::auth::login::LoginError;
use crate::upstream::forward::auth::oauth::TokenUnavailable;
use crate::upstream::forward::auth::redact::Secrets;
use crate::upstream::forward::auth::refusal::AuthRefusal;
use crate::upstream::forward::reply::{ResponseProblem, ServiceText, UnexpectedResponse};
use crate::upstream::forward::{CallOutcome, SentCredential};
use crate::upstream::memory_budget::BudgetExceeded;
use crate::upstream::{Call, CallError, CallFailure, NotFound};
use crate::wire::jsonrpc::RpcError;

/// Reason why a call has no result. `Display` is for the log, [`Failure::user_message`] for the agent.
#[derive(Debug, Clone, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Error(RpcError),
    /// A denial by Drupal: an error with the id null and the reason in its data.
    #[error(transparent)]
    Denied(RpcError),
    /// An error with the code -32603. Its message and data are only logged.
    #[error("the method failed with an internal error: {0}")]
    Internal(String),
    #[error("the caller is anonymous and has no credential for the service")]
    AnonymousCaller,
    #[error("`{0}` has no credential for the service")]
    NoCredential(String),
    #[error("the credential of `{0}` has characters that are not allowed in a header")]
    InvalidCredential(String),
    #[error(
        "the credential must be the first parameter, but the parameters of the method are sent by name; set `params_by` of the method to `position`"
    )]
    CredentialByName,
    #[error("failed to look up the credential of `{0}`: {1}")]
    CredentialLookup(String, String),
    #[error(transparent)]
    NoToken(#[from] TokenUnavailable),
    #[error("failed to log in: {0}")]
    NoSession(LoginError),
    #[error("no access token or session within {0:?}")]
    NoTokenInTime(Duration),
    #[error("the call waited {0:?} because of too many concurrent calls")]
    Busy(Duration),
    #[error("the caller has too many calls waiting for the service")]
    TooManyCalls,
    #[error("the request was not sent, because recent connections failed")]
    Down,
    #[error("{}", send_error(.0))]
    Send(SendError),
    #[cfg(feature = "websocket")]
    #[error("HTTP {}: the service did not open a WebSocket", .0.as_u16())]
    NoWebSocket(StatusCode),
    #[error("no response within {0:?}")]
    TimedOut(Duration),
    #[error("the connection closed in the middle of the response: {0}")]
    Truncated(String),
    #[error("the response is longer than {0} bytes")]
    TooLarge(usize),
    #[error(transparent)]
    BudgetExceeded(#[from] BudgetExceeded),
    #[error("HTTP {}, a redirect to {}", .status.as_u16(), redirect_target(.to.as_ref()))]
    Redirected { status: StatusCode, to: Option<Endpoint> },
    #[error("HTTP {}: {}{}", .0.status.as_u16(), .0.messages().0, .0.text)]
    Refused(AuthRefusal),
    #[error("the service has no tool at the URL from `tool_path`")]
    NoSuchTool,
    #[error("{}", .0.description())]
    Unexpected(UnexpectedResponse),
    #[error("the reply has a different id than the request")]
    WrongId,
    #[error("the response to a batch has no reply to this request")]
    MissingReply,
    #[error(
        "the response to a batch has no reply to this request, but it has an error that matches no request"
    )]
    Unmatched,
}

fn send_error(SendError { kind, message }: &SendError) -> String {
    match kind {
        SendErrorKind::Untrusted | SendErrorKind::NotTls => {
            format!("no trusted connection: {message}")
        }
        SendErrorKind::NotHttp => "the response is not HTTP".to_owned(),
        SendErrorKind::Broken { .. } => {
            format!("the connection closed without a response: {message}")
        }
        _ => format!("no connection: {message}"),
    }
}

fn redirect_target(to: Option<&Endpoint>) -> String {
    to.map_or_else(|| "another URL".to_owned(), ToString::to_string)
}

impl Failure {
    /// Returns the failure for a connection that closed before the request was written.
    pub(crate) fn never_sent(message: impl Into<String>) -> Self {
        Self::Send(SendError::new(SendErrorKind::NotSent, message))
    }

    /// Returns the failure for a connection that closed after the request was written, without a byte of a response.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::Send(SendError::new(SendErrorKind::Broken { has_response_bytes: false }, message))
    }

    pub(crate) fn redirected(status: StatusCode, headers: &HeaderMap) -> Self {
        let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
        Self::Redirected { status, to: to.and_then(|to| to.parse().ok()) }
    }

    /// Records which credential the service refused.
    pub(crate) fn sent_with(self, sent: SentCredential) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(AuthRefusal { sent, ..refusal }),
            other => other,
        }
    }

    /// Returns the text of the response, if it is not a JSON-RPC reply.
    fn text(&self) -> Option<&ServiceText> {
        match self {
            Self::Refused(refusal) => Some(&refusal.text),
            Self::Unexpected(response) => Some(&response.text),
            _ => None,
        }
    }

    /// Removes secrets from the text of the response, so that the text can be shown.
    pub(crate) fn redacted(mut self, secrets: impl FnOnce() -> Secrets) -> Self {
        let text = match &mut self {
            Self::Refused(refusal) => &mut refusal.text,
            Self::Unexpected(response) => &mut response.text,
            _ => return self,
        };
        *text = text.redacted(&secrets());
        self
    }

    pub(crate) fn is_connection_failure(&self) -> bool {
        let Self::Send(error) = self else { return false };
        let has_no_tls = matches!(error.kind, SendErrorKind::Untrusted | SendErrorKind::NotTls);
        error.was_not_sent() || has_no_tls
    }

    pub(crate) fn is_unauthorized(&self) -> bool {
        self.status() == Some(StatusCode::UNAUTHORIZED)
    }

    pub(crate) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Unexpected(response) => Some(response.status),
            Self::Redirected { status, .. } => Some(*status),
            Self::NoSuchTool => Some(StatusCode::NOT_FOUND),
            #[cfg(feature = "websocket")]
            Self::NoWebSocket(status) => Some(*status),
            _ => None,
        }
    }

    pub(crate) fn outcome(&self) -> CallOutcome {
        self.row().0
    }

    /// Returns the problem and the remedy, for the agent and its user. If the service is trusted, adds the text of the
    /// response.
    pub(crate) fn user_message(&self, safety: Safety, is_trusted: bool) -> String {
        let retry_advice = match safety {
            Safety::ReadOnly => "The method only reads, so the call can be repeated.",
            Safety::Destructive => "The method may have run: check before you try again.",
        };
        let message = match self {
            Self::NoToken(error) => error.user_message(),
            Self::Refused(refusal) => refusal.messages().1,
            _ => {
                let (_, problem, advice) = self.row();
                format!("{problem} {advice}")
                    .replace("{again}", retry_advice)
                    .replace("{}", &self.detail())
            }
        };
        let text = self.text().filter(|text| !text.as_str().is_empty());
        let text = match text {
            Some(text) if is_trusted => format!(" The service responded{text}"),
            Some(_) => " The service's response is in Callgate's log.".to_owned(),
            None => String::new(),
        };
        format!("The service behind this tool {message}{text}")
    }

    /// Returns the text that replaces `{}` in the texts of [`Self::row`].
    fn detail(&self) -> String {
        match self {
            Self::NoTokenInTime(limit) | Self::Busy(limit) | Self::TimedOut(limit) => {
                format!("{limit:?}")
            }
            Self::TooLarge(limit) | Self::BudgetExceeded(BudgetExceeded::Tool(limit)) => {
                limit.to_string()
            }
            Self::Unexpected(response) => response.detail(),
            _ => self.status().map_or_else(String::new, |status| status.as_u16().to_string()),
        }
    }

    fn row(&self) -> Row {
        match self {
            Self::Error(_) => (CallOutcome::Error, "", ""),
            Self::Denied(_) => (CallOutcome::Denied, "", ""),
            Self::NoToken(_) => (CallOutcome::NoToken, "", ""),
            Self::Refused(_) => (CallOutcome::Refused, "", ""),
            Self::Internal(_) => (
                CallOutcome::Error,
                "failed inside the method; the error is in Callgate's log.",
                RETRY_ADVICE,
            ),
            Self::NoSession(_) => {
                (CallOutcome::NoToken, "does not accept Callgate's login.", ADMIN_MUST_FIX)
            }
            Self::NoTokenInTime(_) => (
                CallOutcome::NoToken,
                "needs an access token or a session, and neither was available within {}.",
                RETRY_LATER,
            ),
            Self::Busy(_) => (
                CallOutcome::Busy,
                "is busy: it has too many concurrent calls, and none ended within {}.",
                "Nothing was run.",
            ),
            Self::TooManyCalls => (
                CallOutcome::Busy,
                "is busy: too many of your calls are waiting.",
                "Nothing was run; send fewer at the same time.",
            ),
            Self::Down => (
                CallOutcome::Down,
                "cannot be reached, and calls to it are suspended for some seconds.",
                RETRY_LATER,
            ),
            Self::Send(error) => send_row(error.kind),
            Self::TimedOut(_) => {
                (CallOutcome::TimedOut, "did not respond within {}.", RETRY_ADVICE)
            }
            Self::NoSuchTool => (
                CallOutcome::Status,
                "no longer has this tool.",
                "Nothing was run; an administrator has to import its methods again.",
            ),
            Self::AnonymousCaller
            | Self::NoCredential(_)
            | Self::CredentialByName
            | Self::InvalidCredential(_)
            | Self::CredentialLookup(..) => {
                let (problem, advice) = self.credential_row();
                (CallOutcome::NoCredential, problem, advice)
            }
            failure => failure.response_row(),
        }
    }

    fn credential_row(&self) -> (&'static str, &'static str) {
        match self {
            Self::AnonymousCaller => (
                "needs a credential for each user, and you are anonymous.",
                "Nothing was run; connect with a token.",
            ),
            Self::NoCredential(_) => (
                "needs a credential for each user, and there is none for you.",
                "Nothing was run; an administrator has to set one.",
            ),
            Self::CredentialByName => (
                "needs a credential as the first parameter, but the parameters of this tool are sent by name.",
                ADMIN_MUST_FIX,
            ),
            _ => ("needs a credential for each user, and yours cannot be sent.", ADMIN_MUST_FIX),
        }
    }

    fn response_row(&self) -> Row {
        match self {
            Self::Truncated(_) => (
                CallOutcome::Truncated,
                "closed the connection in the middle of its response.",
                RETRY_ADVICE,
            ),
            Self::TooLarge(_) => (
                CallOutcome::TooLarge,
                "responded with more than {} bytes, which is the limit.",
                "The method ran; request less data, such as fewer items, or ask an administrator to raise \
                 `max_result_bytes`.",
            ),
            Self::BudgetExceeded(BudgetExceeded::Tool(_)) => (
                CallOutcome::TooLarge,
                "responded with more than {} bytes, which is the limit of this tool.",
                "The method ran; request less data, such as fewer items.",
            ),
            Self::BudgetExceeded(exceeded) => {
                (CallOutcome::OverBudget, budget_text(*exceeded), RETRY_ADVICE)
            }
            Self::Redirected { .. } => (
                CallOutcome::Redirected,
                "responded with a redirect (HTTP {}), which is not followed.",
                "An administrator has to correct the URL of the service.",
            ),
            #[cfg(feature = "websocket")]
            Self::NoWebSocket(_) => (
                CallOutcome::NoWebSocket,
                "does not open a WebSocket (HTTP {}). Nothing was run.",
                "An administrator should check the URL of the service.",
            ),
            Self::Unexpected(response) => response.row(),
            Self::MissingReply => (
                CallOutcome::WrongId,
                "replied to a batch of requests, but not to this one.",
                RETRY_ADVICE,
            ),
            Self::Unmatched => (
                CallOutcome::WrongId,
                "replied to a batch of requests with an error that cannot be matched to this one.",
                RETRY_ADVICE,
            ),
            _ => (CallOutcome::WrongId, "sent a reply to a different request.", RETRY_ADVICE),
        }
    }

    /// Converts the failure. If the service is trusted, the caller also gets the text of the response.
    pub(crate) fn into_error(self, upstream: &str, call: &Call<'_>, is_trusted: bool) -> CallError {
        let failure = match self {
            Self::Error(error) => return error.into(),
            Self::Denied(error) => return CallError::denied(call.method, error),
            failure @ (Self::Busy(_) | Self::TooManyCalls) => {
                return CallError::Busy(failure.user_message(call.safety, false).into());
            }
            failure => failure,
        };
        let log = format!("upstream `{upstream}`: {failure}");
        let message = CallFailure::new(failure.user_message(call.safety, is_trusted), log);
        match failure {
            Self::NoSuchTool => CallError::Gone(NotFound(call.method.to_owned()), message),
            Self::NoCredential(_) => CallError::Forbidden(message, None),
            Self::Refused(AuthRefusal { status: StatusCode::FORBIDDEN, scope, .. }) => {
                CallError::Forbidden(message, scope)
            }
            Self::AnonymousCaller
            | Self::Refused(AuthRefusal {
                status: StatusCode::UNAUTHORIZED,
                sent: SentCredential::OfCaller(_) | SentCredential::None { .. },
                ..
            }) => CallError::Unauthorized(message),
            _ => CallError::Failed(message),
        }
    }
}

/// The counter of a failure, the problem, and the remedy. `{}` is replaced by [`Failure::detail`]. `{again}` is
/// replaced by a sentence that says whether the call can be tried again.
type Row = (CallOutcome, &'static str, &'static str);

const RETRY_ADVICE: &str = "{again}";
const CHECK_URL_ADVICE: &str = "{again} An administrator should check the URL of the service.";
const RETRY_LATER: &str = "Nothing was run: try again later, or tell an administrator.";
const ADMIN_MUST_FIX: &str = "Nothing was run; an administrator has to fix it.";

fn budget_text(exceeded: BudgetExceeded) -> &'static str {
    match exceeded {
        BudgetExceeded::Total(_) => "responded, but Callgate has no memory left for the result.",
        BudgetExceeded::Batch | BudgetExceeded::Tool(_) => {
            "responded, but the replies to the batch are too large."
        }
    }
}

fn send_row(kind: SendErrorKind) -> Row {
    match kind {
        SendErrorKind::NotSent
        | SendErrorKind::ConnectTimeout
        | SendErrorKind::ClosedInHandshake => {
            (CallOutcome::Unreachable, "cannot be reached.", RETRY_LATER)
        }
        SendErrorKind::Untrusted | SendErrorKind::NotTls => (
            CallOutcome::Untrusted,
            "cannot be reached safely: its certificate is not trusted, or it does not speak TLS.",
            ADMIN_MUST_FIX,
        ),
        SendErrorKind::NotHttp => {
            (CallOutcome::NoHttp, "responded with data that is not HTTP.", CHECK_URL_ADVICE)
        }
        SendErrorKind::Broken { .. } => {
            (CallOutcome::Broken, "closed the connection without a response.", RETRY_ADVICE)
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLong(limit) => Self::TooLarge(limit),
            BodyError::Broken(message) => Self::Truncated(message),
            BodyError::NotText => Self::Unexpected(UnexpectedResponse::new(
                StatusCode::OK,
                ResponseProblem::NotJson,
                "",
            )),
        }
    }
}
