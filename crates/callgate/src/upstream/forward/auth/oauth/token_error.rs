//! Errors of token requests.

use http::StatusCode;
use thiserror::Error;

/// Reason why a token request failed. Contains no data of the request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TokenError {
    #[error("the server does not accept the client's id or secret (`invalid_client`)")]
    InvalidClient,
    #[error("the server does not accept the refresh token or the grant (`invalid_grant`)")]
    InvalidGrant,
    #[error("the server refuses the request ({0})")]
    Refused(&'static str),
    #[error("HTTP {}", .0.as_u16())]
    Status(StatusCode),
    #[error("no connection: {0}")]
    Unreachable(String),
    #[error("no trusted connection: {0}")]
    Untrusted(String),
    #[error("no response within the time limit")]
    TimedOut,
    #[error("not a token response: {0}")]
    Malformed(&'static str),
    #[error("the stored credential is not `client_id:client_secret`")]
    NotAClient,
    #[error("no refresh token is stored")]
    NoRefreshToken,
    #[error("failed to read the refresh token: {0}")]
    NotRead(String),
    #[error("failed to store the new refresh token: {0}")]
    NotStored(String),
    #[error("the stored credential was replaced while a token was requested")]
    Replaced,
}

#[derive(Debug, Clone, Error)]
#[error("no access token from {token_url}{}: {error}", for_user(.user.as_deref()))]
pub(crate) struct TokenUnavailable {
    /// URL of the token endpoint, without the query.
    pub(crate) token_url: String,
    /// Name of the user; `None` if the token is the upstream's own.
    pub(crate) user: Option<String>,
    /// Whether the client belongs to the user.
    pub(crate) is_user_client: bool,
    pub(crate) error: TokenError,
}

impl TokenUnavailable {
    /// Returns `true` if the credential of a user is refused or unusable. For the credential of the upstream, returns
    /// `false`.
    pub(crate) fn is_of_user(&self) -> bool {
        let is_refused = match self.error {
            TokenError::InvalidGrant | TokenError::NotAClient => true,
            TokenError::InvalidClient => self.is_user_client,
            _ => false,
        };
        self.user.is_some() && is_refused
    }
}

fn for_user(user: Option<&str>) -> String {
    user.map_or_else(String::new, |user| format!(" for `{user}`"))
}

/// Returns `true` if the same request may succeed later.
pub(crate) fn is_temporary(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}

const NEEDS_TOKEN: &str = "needs an access token, and";
const TRY_LATER: &str = "Nothing was run: try again later, or tell an administrator.";
const ADMIN_HAS_TO: &str = "Nothing was run; an administrator has to";

impl TokenUnavailable {
    /// Returns the problem and the remedy, for the agent and its user.
    pub(crate) fn user_message(&self) -> String {
        let is_users = self.user.is_some();
        let refused = "does not accept your credential: it has expired or was revoked.";
        match &self.error {
            TokenError::InvalidClient if self.is_user_client => {
                format!("{refused} {ADMIN_HAS_TO} set a new one.")
            }
            TokenError::InvalidGrant if is_users => {
                format!("{refused} {ADMIN_HAS_TO} set a new one.")
            }
            TokenError::NotAClient | TokenError::NoRefreshToken | TokenError::NotRead(_)
                if is_users =>
            {
                format!(
                    "{NEEDS_TOKEN} your credential cannot be used to request one. {ADMIN_HAS_TO} set a new credential."
                )
            }
            TokenError::InvalidClient => format!(
                "{NEEDS_TOKEN} its authorization server does not accept Callgate's client id and secret. \
                 {ADMIN_HAS_TO} correct them."
            ),
            TokenError::InvalidGrant
            | TokenError::NotAClient
            | TokenError::NoRefreshToken
            | TokenError::NotRead(_) => {
                format!(
                    "{NEEDS_TOKEN} Callgate's refresh token is missing, has expired or was revoked. {ADMIN_HAS_TO} set a new one."
                )
            }
            TokenError::Refused(_) => format!(
                "{NEEDS_TOKEN} its authorization server does not issue one. {ADMIN_HAS_TO} correct the \
                 configuration."
            ),
            TokenError::Status(status) if !is_temporary(*status) => malformed(),
            TokenError::Untrusted(_) | TokenError::Malformed(_) => malformed(),
            TokenError::Unreachable(_) | TokenError::TimedOut | TokenError::Status(_) => {
                format!(
                    "{NEEDS_TOKEN} its authorization server cannot be reached or fails. {TRY_LATER}"
                )
            }
            TokenError::NotStored(_) | TokenError::Replaced => {
                format!("{NEEDS_TOKEN} there is none at the moment. {TRY_LATER}")
            }
        }
    }
}

fn malformed() -> String {
    format!(
        "{NEEDS_TOKEN} its authorization server sends invalid responses. {ADMIN_HAS_TO} check Callgate's log."
    )
}
