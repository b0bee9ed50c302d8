//! HTTP 401, 403 and 407: a service that wants a credential, another one, or one that may do more.

use std::fmt;

use http::{HeaderMap, StatusCode};

use super::challenge::missing_scope;
use crate::oauth_scope::OAuthScope;

/// A request that was refused for its credential.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The scope that the credential lacks, where the service names it.
    pub(super) scope: Option<OAuthScope>,
    /// What the request was sent with.
    pub(super) sent: SentCredential,
}

/// Whose credential a request was sent with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum SentCredential {
    /// The one that is configured for all callers.
    #[default]
    Shared,
    /// That of the caller with this name.
    OfCaller(String),
    /// None, for a caller who is known here or not.
    None { is_known: bool },
}

/// What a refusal means to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Who asks has to log in, or with another credential.
    Unauthorized,
    /// Who asks lacks a permission or a scope.
    Forbidden,
    /// The gateway is not configured well.
    Misconfigured,
}

impl Refusal {
    /// The refusal that a response is, if it is one.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let scope = match status {
            StatusCode::FORBIDDEN => missing_scope(headers),
            StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => None,
            _ => return None,
        };
        Some(Self { status, scope, sent: SentCredential::default() })
    }

    pub(super) fn meaning(&self) -> Meaning {
        match self.status {
            StatusCode::FORBIDDEN => Meaning::Forbidden,
            StatusCode::UNAUTHORIZED if self.sent != SentCredential::Shared => {
                Meaning::Unauthorized
            }
            _ => Meaning::Misconfigured,
        }
    }

    /// What is wrong and what somebody could do, for an agent and who reads along.
    pub(super) fn words(&self) -> String {
        let status = self.status.as_u16();
        match (&self.scope, self.meaning()) {
            (Some(scope), Meaning::Forbidden) => {
                let whose = match self.sent {
                    SentCredential::Shared => "which the gateway's credential does not have",
                    SentCredential::OfCaller(_) => "which your credential does not have",
                    SentCredential::None { .. } => "and is sent no credential of yours",
                };
                format!(
                    "needs the scope `{scope}`, {whose} (HTTP {status}). An administrator has \
                     to set a credential that has it."
                )
            }
            (None, Meaning::Forbidden) => {
                format!("{} (HTTP {status}).{}", self.denies(), self.advice())
            }
            (_, Meaning::Unauthorized | Meaning::Misconfigured) => match self.sent {
                SentCredential::Shared => format!(
                    "does not accept the gateway's credentials (HTTP {status}). An administrator has \
                     to correct them."
                ),
                SentCredential::OfCaller(_) => format!(
                    "does not accept your credential (HTTP {status}): it may have expired or been \
                     revoked. An administrator has to set another."
                ),
                SentCredential::None { is_known: false } => format!(
                    "wants somebody who is logged in, and you are anonymous here (HTTP {status}). \
                     Connect with a token."
                ),
                SentCredential::None { is_known: true } => format!(
                    "wants somebody who is logged in, and is sent no credential of yours (HTTP \
                     {status}). An administrator has to set one."
                ),
            },
        }
    }

    fn denies(&self) -> &'static str {
        match self.sent {
            SentCredential::Shared => {
                "does not let the gateway do this: the user whose credentials it has lacks a \
                 permission there, or they are wrong"
            }
            SentCredential::OfCaller(_) => {
                "does not let you do this: you lack a permission there, or your credential is wrong"
            }
            SentCredential::None { .. } => {
                "does not let you do this without a credential, or not with the permissions of \
                 anonymous users"
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self.sent {
            SentCredential::None { is_known: false } => {
                " Connect with a token, or ask an administrator."
            }
            _ => " An administrator has to grant the permission, or to correct the credential.",
        }
    }
}

/// As the log has it.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}: ", self.status.as_u16())?;
        match (&self.scope, self.status, &self.sent) {
            (Some(scope), _, SentCredential::OfCaller(user)) => {
                write!(f, "the credential of `{user}` lacks the scope `{scope}`")
            }
            (Some(scope), _, SentCredential::Shared) => {
                write!(f, "the credentials that are configured lack the scope `{scope}`")
            }
            (Some(scope), _, SentCredential::None { .. }) => {
                write!(f, "it needs the scope `{scope}`, and was sent no credential")
            }
            (None, StatusCode::FORBIDDEN, SentCredential::OfCaller(user)) => {
                write!(f, "`{user}` lacks a permission there, or their credential is wrong")
            }
            (None, StatusCode::FORBIDDEN, SentCredential::Shared) => f.write_str(
                "the credentials that are configured lack a permission there, or are wrong",
            ),
            (None, StatusCode::FORBIDDEN, SentCredential::None { .. }) => {
                f.write_str("it needs a permission, and was sent no credential")
            }
            (None, _, SentCredential::OfCaller(user)) => {
                write!(f, "it does not accept the credential of `{user}`")
            }
            (None, _, SentCredential::Shared) => {
                f.write_str("it does not accept the credentials that are configured")
            }
            (None, _, SentCredential::None { .. }) => {
                f.write_str("it wants a credential, and was sent none")
            }
        }
    }
}
