//! Why there is no access token.

use http::StatusCode;
use thiserror::Error;

/// Why there is no access token. Nothing that was sent is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(in crate::upstream::forward) enum TokenError {
    #[error("it does not accept the client's id or secret (`invalid_client`)")]
    InvalidClient,
    #[error("it does not accept the refresh token or the grant (`invalid_grant`)")]
    InvalidGrant,
    #[error("it refuses the request (`{0}`)")]
    Refused(&'static str),
    #[error("HTTP {}", .0.as_u16())]
    Status(StatusCode),
    #[error("no connection: {0}")]
    Unreachable(String),
    #[error("no connection that can be trusted: {0}")]
    Untrusted(String),
    #[error("no answer in time")]
    TimedOut,
    #[error("its answer is no token response: {0}")]
    Malformed(&'static str),
    #[error("the stored credential is not `client_id:client_secret`")]
    NotAClient,
    #[error("there is no refresh token, or it cannot be read: {0}")]
    NoRefreshToken(String),
    #[error("the new refresh token cannot be stored: {0}")]
    NotStored(String),
    #[error("the stored credential was replaced while a token was requested")]
    Replaced,
}

/// Why a call has no access token to go with.
#[derive(Debug, Clone, Error)]
#[error("no access token from {token_url}{}: {error}", of(.user.as_deref()))]
pub(in crate::upstream::forward) struct NoToken {
    /// Without the query.
    pub(super) token_url: String,
    /// Whose it would be, unless it is the upstream's own.
    pub(super) user: Option<String>,
    /// Whether the client is the user's own.
    pub(super) is_own_client: bool,
    pub(super) error: TokenError,
}

impl NoToken {
    /// Returns `true` if the credential of a user is not accepted, and not that of the gateway.
    pub(in crate::upstream::forward) fn is_of_user(&self) -> bool {
        let is_refused = match self.error {
            TokenError::InvalidGrant | TokenError::NotAClient => true,
            TokenError::InvalidClient => self.is_own_client,
            _ => false,
        };
        self.user.is_some() && is_refused
    }
}

fn of(user: Option<&str>) -> String {
    user.map_or_else(String::new, |user| format!(" for `{user}`"))
}

/// Whether the same request may be answered otherwise later.
pub(super) fn is_temporary(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}

const NEEDS: &str = "needs an access token, and";
const AGAIN: &str = "Nothing was run: try again later, or tell an administrator.";
const MEND: &str = "Nothing was run; an administrator has to";

impl NoToken {
    /// Describes what somebody could do, for an agent and its user.
    pub(in crate::upstream::forward) fn words(&self) -> String {
        let is_users = self.user.is_some();
        let refused = "does not accept your credential: it has expired or was revoked.";
        match &self.error {
            TokenError::InvalidClient if self.is_own_client => {
                format!("{refused} {MEND} set another.")
            }
            TokenError::InvalidGrant if is_users => format!("{refused} {MEND} set another."),
            TokenError::NotAClient | TokenError::NoRefreshToken(_) if is_users => format!(
                "{NEEDS} your credential is not of the kind to get one with. {MEND} set another."
            ),
            TokenError::InvalidClient => format!(
                "{NEEDS} its authorization server does not accept the gateway's client id and secret. \
                 {MEND} correct them."
            ),
            TokenError::InvalidGrant | TokenError::NotAClient | TokenError::NoRefreshToken(_) => {
                format!(
                    "{NEEDS} the gateway's refresh token has expired or was revoked. {MEND} set another."
                )
            }
            TokenError::Refused(_) => format!(
                "{NEEDS} its authorization server refuses to issue one. {MEND} correct the \
                 configuration."
            ),
            TokenError::Status(status) if !is_temporary(*status) => malformed(),
            TokenError::Untrusted(_) | TokenError::Malformed(_) => malformed(),
            TokenError::Unreachable(_) | TokenError::TimedOut | TokenError::Status(_) => {
                format!("{NEEDS} its authorization server cannot be reached or fails. {AGAIN}")
            }
            TokenError::NotStored(_) | TokenError::Replaced => {
                format!("{NEEDS} there is none at the moment. {AGAIN}")
            }
        }
    }
}

fn malformed() -> String {
    format!(
        "{NEEDS} its authorization server does not answer as it has to. {MEND} look at the gateway's log."
    )
}
