//! The credential of the user who asks, put into their request.

use std::fmt;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use super::failure::Failure;
use super::oauth::{Held, Tokens, UserGrant};
use super::options::Hidden;
use crate::secret::Secret;
use crate::upstream::Call;
use crate::upstream::credentials::Credentials;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingCredential {
    /// It fails, and nothing is sent.
    #[default]
    Refuse,
    /// It is sent without one.
    Anonymous,
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

/// The credentials of a call, beside those that every request has.
#[derive(Debug, Clone, Default)]
pub(super) struct Authentication {
    /// Set if the caller's own credential is in one of the next three.
    pub(super) is_own: bool,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// As JSON.
    pub(super) first_param: Hidden,
    /// `,"name":value`
    pub(super) member: Hidden,
    /// The upstream's access token.
    pub(super) bearer: Option<HeaderValue>,
    /// The access token that is in one of them.
    pub(super) token: Option<Held>,
}

impl Authentication {
    /// With the upstream's own access token, if it has a client.
    pub(super) async fn of_upstream(tokens: Option<&Tokens>) -> Result<Self, Failure> {
        let Some(tokens) = tokens else { return Ok(Self::default()) };
        let token = tokens.own().await?;
        let bearer = token.as_ref().and_then(Held::bearer);
        Ok(Self { bearer, token, ..Self::default() })
    }

    /// With another access token, after the service has refused this one; `None` if there is no other.
    pub(super) async fn renewed(
        &self,
        call: &Call<'_>,
        mapped: Option<&Mapped>,
    ) -> Result<Option<Self>, Failure> {
        let Some(token) = &self.token else { return Ok(None) };
        let Some(token) = token.renewed().await? else { return Ok(None) };
        Ok(Some(match mapped.filter(|mapped| mapped.how.oauth.is_some()) {
            Some(mapped) => mapped.with_token(call, token)?,
            None => Self { bearer: token.bearer(), token: Some(token), ..self.clone() },
        }))
    }
}

impl Mapped {
    /// Returns the credentials of a call; none of the caller's if it may go without.
    pub(super) async fn of(
        &self,
        call: &Call<'_>,
        tokens: Option<&Tokens>,
    ) -> Result<Authentication, Failure> {
        let secret = self.secret(call).await?;
        match (self.how.oauth, tokens, secret) {
            (Some(grant), Some(tokens), Some(secret)) => {
                let token = tokens.of_user(call.caller, &secret, grant, &self.known).await?;
                self.with_token(call, token)
            }
            // Not the upstream's: the caller would act as somebody else.
            (Some(_), ..) => Ok(Authentication::default()),
            (None, _, secret) => {
                let own = secret.map(|secret| self.placed(call, secret.expose())).transpose()?;
                let Authentication { bearer, token, .. } =
                    Authentication::of_upstream(tokens).await?;
                Ok(Authentication { bearer, token, ..own.unwrap_or_default() })
            }
        }
    }

    fn with_token(&self, call: &Call<'_>, token: Held) -> Result<Authentication, Failure> {
        let own = self.placed(call, token.secret().expose())?;
        Ok(Authentication { token: Some(token), ..own })
    }

    /// Returns the caller's credential; `None` if a call may go without.
    async fn secret(&self, call: &Call<'_>) -> Result<Option<Secret>, Failure> {
        let name = || call.caller.name().to_owned();
        let known = self.known.of(call.caller).await;
        match known.map_err(|error| Failure::CredentialLookup(name(), error.to_string()))? {
            Some(secret) => Ok(Some(secret)),
            None if self.how.missing == MissingCredential::Anonymous => Ok(None),
            None if call.caller.user.is_none() => Err(Failure::AnonymousCaller),
            None => Err(Failure::NoCredential(name())),
        }
    }

    /// Puts a secret of the caller's into a request.
    fn placed(&self, call: &Call<'_>, secret: &str) -> Result<Authentication, Failure> {
        let UserCredential { place, prefix, .. } = &self.how;
        let text = format!("{prefix}{secret}");
        let mut auth = Authentication { is_own: true, ..Authentication::default() };
        match place {
            CredentialPlace::Header(header) => {
                let unfit = |_| Failure::UnfitCredential(call.caller.name().to_owned());
                let mut value = HeaderValue::from_str(&text).map_err(unfit)?;
                value.set_sensitive(true);
                auth.header = Some((header.clone(), value));
            }
            CredentialPlace::FirstParam if !call.params.get().trim_start().starts_with('[') => {
                return Err(Failure::CredentialByName);
            }
            CredentialPlace::FirstParam => auth.first_param.0 = Value::from(text).to_string(),
            CredentialPlace::Member(member) => auth.member = Hidden::member(member, &text.into()),
        }
        Ok(auth)
    }
}
