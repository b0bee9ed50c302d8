//! HTTP 401, 403 and 407: the credential is missing, invalid or insufficient.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};

use crate::model::oauth_scope::OAuthScope;
use crate::upstream::forward::auth::challenge::missing_scope;
use crate::upstream::forward::reply::ServiceText;

#[derive(Debug, Clone)]
pub(crate) struct AuthRefusal {
    pub(crate) status: StatusCode,
    pub(crate) scope: Option<OAuthScope>,
    pub(crate) sent: SentCredential,
    pub(crate) scheme: Scheme,
    pub(crate) text: ServiceText,
}

/// The authentication scheme in `WWW-Authenticate`. If the service offers several, a supported one is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scheme {
    Basic,
    Bearer,
    /// HTTP Digest, which is not supported.
    Digest,
    Other,
}

impl Scheme {
    fn of(headers: &HeaderMap) -> Self {
        let values =
            headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        // Challenges and their parameters are separated by commas.
        let parts: Vec<&str> = values.flat_map(|value| value.split(',')).collect();
        let is_offered = |scheme: &str| {
            let mut names = parts.iter().filter_map(|part| part.split_whitespace().next());
            names.any(|name| name.eq_ignore_ascii_case(scheme))
        };
        let schemes = [("basic", Self::Basic), ("bearer", Self::Bearer), ("digest", Self::Digest)];
        let offered = schemes.into_iter().find(|(name, _)| is_offered(name));
        offered.map_or(Self::Other, |(_, scheme)| scheme)
    }
}

/// The owner of the credential that a request was sent with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum SentCredential {
    /// The credential that is configured for all callers.
    #[default]
    Shared,
    /// The credential of the caller with this name.
    OfCaller(String),
    /// The caller has no credential, so none was sent. `is_user` is set if the caller is a user of the registry.
    None { is_user: bool },
    /// No credential was sent, because none is configured.
    NotConfigured,
}

impl AuthRefusal {
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let scope = match status {
            StatusCode::FORBIDDEN => missing_scope(headers),
            StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => None,
            _ => return None,
        };
        let (scheme, text) = (Scheme::of(headers), ServiceText::default());
        Some(Self { status, scope, sent: SentCredential::default(), scheme, text })
    }

    /// Returns the configuration keys for the credential that the service asks for.
    fn keys(&self) -> &'static str {
        match self.scheme {
            Scheme::Basic => "`basic_user` and `basic_password`",
            Scheme::Bearer => "`headers.Authorization` or `oauth`",
            Scheme::Digest | Scheme::Other => {
                "`basic_user` and `basic_password`, `headers`, `login` or `credential`"
            }
        }
    }

    /// Returns the messages for the log and for the caller.
    pub(crate) fn messages(&self) -> (String, String) {
        use SentCredential::{None as Missing, NotConfigured, OfCaller, Shared};
        let status = self.status.as_u16();
        if let Some(scope) = &self.scope {
            let (log, clause) = match &self.sent {
                Shared => (
                    format!("the configured credentials lack the scope `{scope}`"),
                    "which Callgate's credential does not have",
                ),
                OfCaller(user) => (
                    format!("the credential of `{user}` lacks the scope `{scope}`"),
                    "which your credential does not have",
                ),
                Missing { .. } | NotConfigured => (
                    format!("the service needs the scope `{scope}`, and no credential was sent"),
                    "and no credential was sent",
                ),
            };
            let message = format!(
                "needs the scope `{scope}`, {clause} (HTTP {status}). An administrator has to set a \
                 credential that has this scope."
            );
            return (log, message);
        }
        let (log, problem, advice) = match (self.status, &self.sent) {
            (StatusCode::FORBIDDEN, sent) => return forbidden(sent),
            _ if matches!(self.scheme, Scheme::Digest) => (
                "the service needs a login with HTTP Digest, which is not supported; turn that login off, or use a proxy \
                 that logs in"
                    .to_owned(),
                "needs a login with HTTP Digest, which Callgate does not support",
                ". Nothing was run; an administrator has to turn that login off.",
            ),
            (_, NotConfigured) => (
                format!("the service needs a credential, and none is configured; set {}", self.keys()),
                "needs a login, and none is configured for it",
                ". Nothing was run; an administrator has to set one.",
            ),
            (_, Shared) => (
                "the service does not accept the configured credentials".to_owned(),
                "does not accept Callgate's credentials",
                ". An administrator has to correct them.",
            ),
            (_, OfCaller(user)) => (
                format!("the service does not accept the credential of `{user}`"),
                "does not accept your credential",
                ": it may have expired or been revoked. An administrator has to set a new one.",
            ),
            (_, Missing { is_user: false }) => (
                "the service needs a credential, and none was sent".to_owned(),
                "needs a login, and you are anonymous",
                ". Connect with a token.",
            ),
            (_, Missing { is_user: true }) => (
                "the service needs a credential, and none was sent".to_owned(),
                "needs a login, and no credential is stored for you",
                ". An administrator has to set one.",
            ),
        };
        (log, format!("{problem} (HTTP {status}){advice}"))
    }
}

fn forbidden(sent: &SentCredential) -> (String, String) {
    const GRANT: &str = "An administrator has to grant the permission or correct the credential.";
    let (log, problem) = match sent {
        SentCredential::Shared => (
            "the configured credentials lack a permission or are wrong".to_owned(),
            "does not allow this: Callgate's credentials lack a permission or are wrong",
        ),
        SentCredential::OfCaller(user) => (
            format!("`{user}` lacks a permission, or their credential is wrong"),
            "does not allow this: you lack a permission, or your credential is wrong",
        ),
        SentCredential::None { .. } | SentCredential::NotConfigured => (
            "the service needs a permission, and no credential was sent".to_owned(),
            "does not allow this, and no credential was sent",
        ),
    };
    let advice = match sent {
        SentCredential::None { is_user: false } => "Connect with a token, or ask an administrator.",
        _ => GRANT,
    };
    (log, format!("{problem} (HTTP 403). {advice}"))
}
