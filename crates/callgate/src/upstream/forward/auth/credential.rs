//! Adds the caller's credential to a request.

use std::fmt;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, InvalidHeaderValue};
use serde::Deserialize;
use serde_json::Value;

use crate::http_client::sensitive;
use crate::secret::Secret;
use crate::upstream::Call;
use crate::upstream::credentials::Credentials;
use crate::upstream::forward::auth::oauth::RenewableToken;
use crate::upstream::forward::{AccessTokens, Failure, SecretJson, UserGrant};

/// How the credential of the calling user is sent.
///
/// ```
/// use std::sync::Arc;
/// use callgate::forward::{
///     CredentialLocation, CredentialOptions, Forward, ForwardOptions, MissingCredential, header_name,
/// };
/// use callgate::upstream::Credentials;
///
/// /// Sends the API key of the calling user with each call.
/// fn shop(keys: Arc<dyn Credentials>) -> Result<Forward, Box<dyn std::error::Error>> {
///     let options = CredentialOptions {
///         location: CredentialLocation::Header(header_name("Authorization")?),
///         prefix: "Bearer ".to_owned(),
///         missing: MissingCredential::Refuse,
///         oauth: None,
///     };
///     let target = "https://shop.example.com/rpc".parse()?;
///     Ok(Forward::new("shop", ForwardOptions::new(target).credential(options, keys)?)?)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct CredentialOptions {
    /// Part of the request that holds the credential.
    pub location: CredentialLocation,
    /// Text before the credential, such as `Bearer `.
    pub prefix: String,
    /// How to handle callers without a credential.
    pub missing: MissingCredential,
    /// If set, the credential is exchanged for an access token, and the access token is sent instead.
    pub oauth: Option<UserGrant>,
}

/// Part of a request that holds a credential.
///
/// Value of [`CredentialOptions::location`] and [`Login::location`](crate::upstream::forward::Login::location).
/// [`CredentialOptions`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialLocation {
    /// A header.
    Header(HeaderName),
    /// The first of the positional parameters.
    FirstParam,
    /// A member of the request beside `params`.
    Member(String),
}

/// How to handle calls of users without a credential.
///
/// Value of [`CredentialOptions::missing`]. [`CredentialOptions`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingCredential {
    /// The call fails without being sent.
    #[default]
    Refuse,
    /// The call is sent without a credential.
    Anonymous,
}

#[derive(Clone)]
pub(crate) struct UserCredentials {
    pub(crate) options: CredentialOptions,
    pub(crate) source: Arc<dyn Credentials>,
}

impl fmt::Debug for UserCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

/// The parts of a request that contain a credential.
#[derive(Debug, Clone, Default)]
pub(crate) struct CredentialParts {
    pub(crate) headers: HeaderMap,
    pub(crate) first_param: SecretJson,
    /// A member of the request, in the form `,"name":value`.
    pub(crate) member: SecretJson,
}

impl CredentialParts {
    /// Adds a credential. Fails if it has characters that are not allowed in a header.
    pub(crate) fn add(
        &mut self,
        location: &CredentialLocation,
        text: String,
    ) -> Result<(), InvalidHeaderValue> {
        match location {
            CredentialLocation::Header(name) => {
                self.headers.insert(name.clone(), sensitive(&text)?);
            }
            CredentialLocation::FirstParam => self.first_param.0 = Value::from(text).to_string(),
            CredentialLocation::Member(name) => {
                self.member = SecretJson::member(name, &text.into());
            }
        }
        Ok(())
    }
}

/// The credentials of one request, in addition to those that are configured for all requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Authentication {
    /// The caller's credential or the upstream's access token, or both.
    pub(crate) parts: CredentialParts,
    /// Whether `parts` contains the caller's credential.
    pub(crate) is_of_caller: bool,
    /// The access token in `parts`.
    pub(crate) token: Option<RenewableToken>,
    pub(crate) session: Option<Arc<CredentialParts>>,
    /// Whether the method is called without any credentials.
    pub(crate) is_omitted: bool,
}

impl Authentication {
    /// Returns `true` if the headers differ from those that are configured for all requests.
    pub(crate) fn has_headers(&self) -> bool {
        self.is_omitted || self.all_parts().any(|parts| !parts.headers.is_empty())
    }

    /// Returns the session and `parts`.
    pub(crate) fn all_parts(&self) -> impl Iterator<Item = &CredentialParts> {
        self.session.as_deref().into_iter().chain([&self.parts])
    }

    /// Returns the credentials that are sent in the body, as fragments of JSON.
    pub(crate) fn body_parts(&self) -> String {
        self.all_parts().flat_map(|parts| [&*parts.first_param.0, &*parts.member.0]).collect()
    }

    /// Adds the upstream's own access token, if the upstream has an OAuth client.
    pub(crate) async fn add_upstream_token(
        &mut self,
        tokens: Option<&AccessTokens>,
    ) -> Result<(), Failure> {
        let Some(tokens) = tokens else { return Ok(()) };
        if let Some(token) = Box::pin(tokens.upstream_token()).await? {
            self.set_bearer(token);
        }
        Ok(())
    }

    fn set_bearer(&mut self, token: RenewableToken) {
        if let Some(bearer) = token.bearer() {
            self.parts.headers.insert(AUTHORIZATION, bearer);
        }
        self.token = Some(token);
    }

    /// Replaces an access token that the service refused. Returns `false` if the request has no access token, or if
    /// the token was renewed recently.
    pub(crate) async fn renew(
        &mut self,
        user: Option<(&UserCredentials, &Call<'_>)>,
    ) -> Result<bool, Failure> {
        let Some(token) = &self.token else { return Ok(false) };
        let Some(token) = token.renewed().await? else { return Ok(false) };
        match user.filter(|(credentials, _)| credentials.options.oauth.is_some()) {
            Some((credentials, call)) => *self = credentials.with_token(call, token)?,
            None => self.set_bearer(token),
        }
        Ok(true)
    }
}

impl UserCredentials {
    pub(crate) async fn of(
        &self,
        call: &Call<'_>,
        tokens: Option<&AccessTokens>,
    ) -> Result<Authentication, Failure> {
        let secret = self.secret(call).await?;
        match (self.options.oauth, tokens, secret) {
            (Some(grant), Some(tokens), Some(secret)) => {
                let token = tokens.of_user(call.caller, &secret, grant, &self.source).await?;
                self.with_token(call, token)
            }
            // The upstream's own token is not sent, because the caller would then act as another user.
            (Some(_), ..) => Ok(Authentication::default()),
            (None, _, secret) => {
                let caller_auth =
                    secret.map(|secret| self.authentication(call, secret.expose())).transpose()?;
                let mut auth = caller_auth.unwrap_or_default();
                auth.add_upstream_token(tokens).await?;
                Ok(auth)
            }
        }
    }

    fn with_token(
        &self,
        call: &Call<'_>,
        token: RenewableToken,
    ) -> Result<Authentication, Failure> {
        let auth = self.authentication(call, token.secret().expose())?;
        Ok(Authentication { token: Some(token), ..auth })
    }

    /// Returns the caller's credential, or `None` if the caller has none and none is required.
    async fn secret(&self, call: &Call<'_>) -> Result<Option<Secret>, Failure> {
        let name = || call.caller.name().to_owned();
        let secret = self.source.of(call.caller).await;
        match secret.map_err(|error| Failure::CredentialLookup(name(), error.to_string()))? {
            Some(secret) => Ok(Some(secret)),
            None if self.options.missing == MissingCredential::Anonymous => Ok(None),
            None if call.caller.user.is_none() => Err(Failure::AnonymousCaller),
            None => Err(Failure::NoCredential(name())),
        }
    }

    fn authentication(&self, call: &Call<'_>, secret: &str) -> Result<Authentication, Failure> {
        let CredentialOptions { location, prefix, .. } = &self.options;
        let mut parts = CredentialParts::default();
        let added = parts.add(location, format!("{prefix}{secret}"));
        added.map_err(|_| Failure::InvalidCredential(call.caller.name().to_owned()))?;
        Ok(Authentication { parts, is_of_caller: true, ..Authentication::default() })
    }
}
