//! The credential of the user who asks, put into their request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use thiserror::Error;

use super::failure::Failure;
use super::oauth::{Held, Tokens, UserGrant};
use super::options::Hidden;
use crate::credentials::Credentials;
use crate::secret::Secret;
use crate::upstream::Call;

/// How the credential of the user who asks is sent.
#[derive(Debug, Clone)]
pub struct UserCredential {
    /// Where it stands in a request.
    pub place: CredentialPlace,
    /// What stands before it, such as `Bearer `.
    pub prefix: String,
    /// What becomes of a call whose caller has none.
    pub missing: MissingCredential,
    /// What an access token is requested with it for; without, it is sent as it is.
    pub oauth: Option<UserGrant>,
}

impl UserCredential {
    /// Returns `true` if it is sent in this header.
    pub(super) fn is_header(&self, name: &HeaderName) -> bool {
        matches!(&self.place, CredentialPlace::Header(own) if own == name)
    }
}

/// Where a credential stands in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialPlace {
    /// In a header.
    Header(HeaderName),
    /// Before all other parameters, which go by position.
    FirstParam,
    /// In a member beside `params`.
    Member(String),
}

/// What becomes of a call whose caller has no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingCredential {
    /// It fails, and nothing is sent.
    #[default]
    Refuse,
    /// It is sent without one.
    Anonymous,
}

/// Why a call has no credential to go with.
#[derive(Debug, Clone, Error)]
pub(super) enum NoCredential {
    #[error("the caller is anonymous, and has no credential for it")]
    Anonymous,
    #[error("`{0}` has no credential for it")]
    Missing(String),
    #[error("the credential of `{0}` has characters that no header can have")]
    Unfit(String),
    #[error("the method takes its parameters by name, so that no credential can stand before them")]
    ByName,
    #[error("the credential of `{0}` cannot be looked up: {1}")]
    Unknown(String, String),
}

impl NoCredential {
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Anonymous => {
                "knows its users by credentials of their own, and you did not say who you are. \
                 Nothing was run; connect with a token."
            }
            Self::Missing(_) => {
                "knows its users by credentials of their own, and there is none of yours. Nothing \
                 was run; an administrator has to set it."
            }
            Self::Unfit(_) | Self::ByName | Self::Unknown(..) => {
                "knows its users by credentials of their own, and yours cannot be sent. Nothing was \
                 run; an administrator has to mend it."
            }
        }
    }
}

/// How credentials are sent, and who knows them.
#[derive(Clone)]
pub(super) struct Mapped {
    pub(super) how: UserCredential,
    pub(super) known: Arc<dyn Credentials>,
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.how.fmt(f)
    }
}

/// A credential as it stands in a request.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    Header(HeaderName, HeaderValue),
    /// As JSON.
    FirstParam(Hidden),
    /// `,"name":value`
    Member(Hidden),
}

/// What a call is authenticated with, beside what every request has.
#[derive(Debug, Default)]
pub(super) struct Authentication {
    /// The caller's own, as it stands in the request.
    pub(super) own: Option<Sent>,
    /// The upstream's access token.
    pub(super) bearer: Option<HeaderValue>,
    /// The access token that is in one of them.
    pub(super) token: Option<Held>,
}

impl Authentication {
    /// With the upstream's own access token, if it has a client.
    pub(super) async fn of_upstream(tokens: Option<&Tokens>) -> Result<Self, Failure> {
        let token = match tokens {
            Some(tokens) => tokens.own().await?,
            None => None,
        };
        let bearer = token.as_ref().and_then(Held::bearer);
        Ok(Self { own: None, bearer, token })
    }

    /// With another access token, after the service has refused this one; `None` where there is no
    /// other.
    pub(super) async fn renewed(
        &self,
        call: &Call<'_>,
        mapped: Option<&Mapped>,
    ) -> Result<Option<Self>, Failure> {
        let Some(token) = &self.token else { return Ok(None) };
        let Some(token) = token.renewed().await? else { return Ok(None) };
        Ok(Some(match mapped.filter(|_| self.own.is_some() && self.bearer.is_none()) {
            Some(mapped) => {
                let own = Some(mapped.placed(call, token.secret().expose())?);
                Self { own, bearer: None, token: Some(token) }
            }
            None => Self { own: self.own.clone(), bearer: token.bearer(), token: Some(token) },
        }))
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
    }
}

impl Mapped {
    /// What goes with a call; nothing of the caller where it may go without.
    pub(super) async fn of(
        &self,
        call: &Call<'_>,
        tokens: Option<&Tokens>,
    ) -> Result<Authentication, Failure> {
        let secret = self.secret(call).await?;
        match (self.how.oauth, tokens, secret) {
            (Some(grant), Some(tokens), Some(secret)) => {
                let token = tokens.of_user(call.caller, &secret, grant, &self.known).await?;
                let own = Some(self.placed(call, token.secret().expose())?);
                Ok(Authentication { own, bearer: None, token: Some(token) })
            }
            // Not the upstream's: the caller would act as somebody else.
            (Some(_), ..) => Ok(Authentication::default()),
            (None, _, secret) => {
                let own = secret.map(|secret| self.placed(call, secret.expose())).transpose()?;
                Ok(Authentication { own, ..Authentication::of_upstream(tokens).await? })
            }
        }
    }

    /// The caller's credential; `None` where a call may go without.
    async fn secret(&self, call: &Call<'_>) -> Result<Option<Secret>, NoCredential> {
        let name = || call.caller.name().to_owned();
        let known = self.known.of(call.caller).await;
        match known.map_err(|error| NoCredential::Unknown(name(), error.to_string()))? {
            Some(secret) => Ok(Some(secret)),
            None if self.how.missing == MissingCredential::Anonymous => Ok(None),
            None if call.caller.user.is_none() => Err(NoCredential::Anonymous),
            None => Err(NoCredential::Missing(name())),
        }
    }

    /// A secret as it stands in a request.
    fn placed(&self, call: &Call<'_>, secret: &str) -> Result<Sent, NoCredential> {
        let UserCredential { place, prefix, .. } = &self.how;
        let text = format!("{prefix}{secret}");
        Ok(match place {
            CredentialPlace::Header(header) => {
                let value = HeaderValue::from_str(&text);
                let unfit = |_| NoCredential::Unfit(call.caller.name().to_owned());
                let mut value = value.map_err(unfit)?;
                value.set_sensitive(true);
                Sent::Header(header.clone(), value)
            }
            CredentialPlace::FirstParam if !call.params.get().trim_start().starts_with('[') => {
                return Err(NoCredential::ByName);
            }
            CredentialPlace::FirstParam => Sent::FirstParam(Hidden(Value::from(text).to_string())),
            CredentialPlace::Member(member) => Sent::Member(Hidden::member(member, &text.into())),
        })
    }
}

impl Sent {
    /// With the parameters that every call has first.
    pub(super) fn before<'a>(&'a self, first: &'a str) -> Cow<'a, str> {
        match self {
            Self::FirstParam(Hidden(own)) if first.is_empty() => own.into(),
            Self::FirstParam(Hidden(own)) => format!("{own},{first}").into(),
            _ => first.into(),
        }
    }

    /// The member that it is, if it is one.
    pub(super) fn as_member(&self) -> &str {
        match self {
            Self::Member(Hidden(member)) => member,
            _ => "",
        }
    }

    /// It, unless it is among the headers.
    pub(super) fn in_body(&self) -> Hidden {
        match self {
            Self::FirstParam(own) | Self::Member(own) => own.clone(),
            Self::Header(..) => Hidden::default(),
        }
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if let Self::Header(name, value) = self {
            headers.insert(name.clone(), value.clone());
        }
    }
}
