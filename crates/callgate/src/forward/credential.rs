//! The credential of the user who asks, put into their request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use thiserror::Error;

use super::options::Hidden;
use crate::credentials::Credentials;
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
#[derive(Debug)]
pub(super) enum Sent {
    Header(HeaderName, HeaderValue),
    /// As JSON.
    FirstParam(Hidden),
    /// `,"name":value`
    Member(Hidden),
}

impl Mapped {
    /// What goes with a call; `None` where it may go without.
    pub(super) async fn of(&self, call: &Call<'_>) -> Result<Option<Sent>, NoCredential> {
        let name = || call.caller.name().to_owned();
        let UserCredential { place, prefix, missing } = &self.how;
        let known = self.known.of(call.caller).await;
        let secret =
            match known.map_err(|error| NoCredential::Unknown(name(), error.to_string()))? {
                Some(secret) => secret,
                None if *missing == MissingCredential::Anonymous => return Ok(None),
                None if call.caller.user.is_none() => return Err(NoCredential::Anonymous),
                None => return Err(NoCredential::Missing(name())),
            };
        let text = format!("{prefix}{}", secret.expose());
        Ok(Some(match place {
            CredentialPlace::Header(header) => {
                let value = HeaderValue::from_str(&text);
                let mut value = value.map_err(|_| NoCredential::Unfit(name()))?;
                value.set_sensitive(true);
                Sent::Header(header.clone(), value)
            }
            CredentialPlace::FirstParam if !call.params.get().trim_start().starts_with('[') => {
                return Err(NoCredential::ByName);
            }
            CredentialPlace::FirstParam => Sent::FirstParam(Hidden(Value::from(text).to_string())),
            CredentialPlace::Member(member) => Sent::Member(Hidden::member(member, &text.into())),
        }))
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
