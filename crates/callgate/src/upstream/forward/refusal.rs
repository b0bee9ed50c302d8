//! HTTP 401, 403 and 407: a service that wants a credential, another one, or one that may do more.

use http::{HeaderMap, StatusCode};

use super::challenge::missing_scope;
use crate::model::oauth_scope::OAuthScope;

/// A request that was refused for its credential.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The scope that the credential lacks, if the service names it.
    pub(super) scope: Option<OAuthScope>,
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
    /// None. `is_known` says whether the caller is a user of the gateway.
    None { is_known: bool },
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

    /// Returns the text for the log, and the words for the caller.
    pub(super) fn texts(&self) -> (String, String) {
        use SentCredential::{None as Nobodys, OfCaller, Shared};
        let status = self.status.as_u16();
        if let Some(scope) = &self.scope {
            let (log, whose) = match &self.sent {
                Shared => (
                    format!("the credentials that are configured lack the scope `{scope}`"),
                    "which the gateway's credential does not have",
                ),
                OfCaller(user) => (
                    format!("the credential of `{user}` lacks the scope `{scope}`"),
                    "which your credential does not have",
                ),
                Nobodys { .. } => (
                    format!("it needs the scope `{scope}`, and was sent no credential"),
                    "and is sent no credential of yours",
                ),
            };
            let words = format!(
                "needs the scope `{scope}`, {whose} (HTTP {status}). An administrator has to set a \
                 credential that has it."
            );
            return (log, words);
        }
        let (log, what, advice) = match (self.status, &self.sent) {
            (StatusCode::FORBIDDEN, sent) => return forbidden(sent),
            (_, Shared) => (
                "it does not accept the credentials that are configured".to_owned(),
                "does not accept the gateway's credentials",
                ". An administrator has to correct them.",
            ),
            (_, OfCaller(user)) => (
                format!("it does not accept the credential of `{user}`"),
                "does not accept your credential",
                ": it may have expired or been revoked. An administrator has to set another.",
            ),
            (_, Nobodys { is_known: false }) => (
                "it wants a credential, and was sent none".to_owned(),
                "wants somebody who is logged in, and you are anonymous here",
                ". Connect with a token.",
            ),
            (_, Nobodys { is_known: true }) => (
                "it wants a credential, and was sent none".to_owned(),
                "wants somebody who is logged in, and is sent no credential of yours",
                ". An administrator has to set one.",
            ),
        };
        (log, format!("{what} (HTTP {status}){advice}"))
    }
}

/// HTTP 403 without a scope.
fn forbidden(sent: &SentCredential) -> (String, String) {
    const GRANT: &str =
        "An administrator has to grant the permission, or to correct the credential.";
    let (log, what) = match sent {
        SentCredential::Shared => (
            "the credentials that are configured lack a permission there, or are wrong".to_owned(),
            "does not let the gateway do this: the user whose credentials it has lacks a permission \
             there, or they are wrong",
        ),
        SentCredential::OfCaller(user) => (
            format!("`{user}` lacks a permission there, or their credential is wrong"),
            "does not let you do this: you lack a permission there, or your credential is wrong",
        ),
        SentCredential::None { .. } => (
            "it needs a permission, and was sent no credential".to_owned(),
            "does not let you do this without a credential, or not with the permissions of anonymous \
             users",
        ),
    };
    let advice = match sent {
        SentCredential::None { is_known: false } => {
            "Connect with a token, or ask an administrator."
        }
        _ => GRANT,
    };
    (log, format!("{what} (HTTP 403). {advice}"))
}
