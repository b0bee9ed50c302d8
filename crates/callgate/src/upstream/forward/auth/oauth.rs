//! OAuth 2.0: access tokens of the upstream and of each user.
//!
//! [`AccessTokens`] has one [`TokenSource`] for the upstream and one for each user. A source requests a token from the
//! [`TokenEndpoint`], caches it, and renews it.

mod token_error;
mod token_response;
mod token_endpoint;
mod refresh_token_store;
mod token_state;
mod token_source;
mod refresh;

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde::Deserialize;

use crate::access::Caller;
use crate::http_client::endpoint::{Endpoint, EndpointError};
use crate::http_client::tls::TlsSetupError;
use crate::lru_cache::LruCache;
use crate::secret::Secret;
use crate::upstream::credentials::Credentials;
use crate::upstream::forward::options::first_conflict;
use crate::upstream::forward::{CredentialLocation, ForwardOptions};
use refresh_token_store::UserRefreshToken;
use token_endpoint::TokenEndpoint;
use token_source::{TokenGrant, TokenSource};

pub use refresh_token_store::{InMemoryRefreshToken, RefreshTokenFile, RefreshTokenStore};
pub(crate) use token_error::TokenUnavailable;
pub use token_source::wait_for_token_requests;
pub(crate) use token_state::AccessToken;

/// Maximum number of users with a cached access token, per upstream.
const MAX_USERS: usize = 10_000;

/// An OAuth 2.0 client. `Debug` shows no secrets.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use callgate::Secret;
/// use callgate::forward::{
///     ClientAuth, Forward, ForwardOptions, OAuthClient, RefreshTokenFile, wait_for_token_requests,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = OAuthClient::new("https://example.com/oauth/token")?
///     .client("callgate", Secret::new("s3cret"))
///     .client_auth(ClientAuth::Post)
///     .scope("content:read content:write")
///     .refresh_token(Arc::new(RefreshTokenFile::new("example.refresh")));
/// let options = ForwardOptions::new("https://example.com/jsonrpc".parse()?).oauth(client);
/// let upstream = Forward::new("example", options)?;
/// // Before the program ends:
/// wait_for_token_requests(Duration::from_secs(5)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct OAuthClient {
    token_url: Endpoint,
    client: Option<ClientCredentials>,
    scope: Option<String>,
    refresh_token: Option<Arc<dyn RefreshTokenStore>>,
    client_auth: ClientAuth,
}

/// Client authentication at the token endpoint (RFC 6749, section 2.3.1).
///
/// Argument of [`OAuthClient::client_auth`]. [`OAuthClient`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// HTTP Basic.
    #[default]
    Basic,
    /// `client_id` and `client_secret` in the body.
    Post,
}

/// How a user's stored credential is used to request an access token.
///
/// Value of [`CredentialOptions::oauth`](crate::upstream::forward::CredentialOptions::oauth). If a grant is set,
/// [`ForwardOptions::oauth`] must be set as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserGrant {
    /// The credential is a refresh token. It is used with the upstream's client.
    RefreshToken,
    /// The credential is `client_id:client_secret` of the user's own client.
    ClientCredentials,
}

/// The id of a client, and the secret of the client. A public client has no secret.
#[derive(Debug, Clone)]
pub(crate) struct ClientCredentials {
    id: String,
    secret: Option<Secret>,
}

impl ClientCredentials {
    fn parse(stored: &Secret) -> Option<Self> {
        let (id, secret) = stored.expose().split_once(':')?;
        let secret = Secret::new(secret)?;
        (!id.is_empty()).then(|| Self { id: id.to_owned(), secret: Some(secret) })
    }
}

impl OAuthClient {
    /// Creates a client without an id.
    pub fn new(token_url: &str) -> Result<Self, EndpointError> {
        Ok(Self {
            token_url: token_url.parse()?,
            client: None,
            scope: None,
            refresh_token: None,
            client_auth: ClientAuth::default(),
        })
    }

    /// Sets the id and the secret. A public client has no secret.
    pub fn client(mut self, id: impl Into<String>, secret: Option<Secret>) -> Self {
        self.client = Some(ClientCredentials { id: id.into(), secret });
        self
    }

    /// Sets the requested scopes, separated by spaces.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Uses the grant `refresh_token` instead of `client_credentials`.
    pub fn refresh_token(mut self, store: Arc<dyn RefreshTokenStore>) -> Self {
        self.refresh_token = Some(store);
        self
    }

    /// Sets the client authentication.
    pub fn client_auth(mut self, client_auth: ClientAuth) -> Self {
        self.client_auth = client_auth;
        self
    }
}

/// Describes a conflict between OAuth and other options, if there is one.
pub(crate) fn conflict(options: &ForwardOptions) -> Option<&'static str> {
    let user_grant = options.user_grant();
    let Some(client) = &options.oauth else {
        return user_grant.map(
            |_| "`credential.oauth` needs a table `oauth` with the `token_url` of the service",
        );
    };
    let credential_in_header = matches!(
        options.credential_location(),
        Some(CredentialLocation::Header(name)) if *name == AUTHORIZATION
    );
    first_conflict([
        (
            options.target.is_websocket(),
            "`oauth` cannot be used with WebSocket: a connection keeps its access token even after the token has expired",
        ),
        (
            !may_receive_secrets(&client.token_url, options.target.endpoint()),
            "`token_url` of `oauth` must begin with `https://`, so that secrets are encrypted; `http://` is \
             allowed for this machine (`localhost`, `127.0.0.1`, `[::1]`), and for the host of an `http://` \
             upstream",
        ),
        (
            client.client.is_none() && user_grant != Some(UserGrant::ClientCredentials),
            "`oauth` needs `client_id`",
        ),
        (
            options.headers.contains_key(AUTHORIZATION),
            "`oauth` sends an access token in the header `Authorization`, which `headers` or \
             `basic_user` also sets; remove one of them",
        ),
        (
            options.caller_headers.names().any(|name| *name == AUTHORIZATION),
            "`oauth` sends an access token in the header `Authorization`, which `pass_caller` also sets; \
             remove one of them",
        ),
        (
            credential_in_header && user_grant.is_none(),
            "`oauth` sends an access token in the header `Authorization`, which `credential` also sets; \
             remove one of them, or set `credential.oauth`",
        ),
    ])
}

/// Returns `true` if secrets may be sent to a token endpoint. This is allowed over TLS, to this machine, and to a host
/// that already receives access tokens without TLS.
fn may_receive_secrets(token_url: &Endpoint, upstream: Option<&Endpoint>) -> bool {
    let same_host = |upstream: &Endpoint| {
        !upstream.is_https() && upstream.uri().host() == token_url.uri().host()
    };
    token_url.is_https() || is_loopback(token_url) || upstream.is_some_and(same_host)
}

fn is_loopback(endpoint: &Endpoint) -> bool {
    let host = endpoint.uri().host().unwrap_or_default();
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[derive(Debug)]
pub(crate) struct AccessTokens {
    upstream: String,
    endpoint: Arc<TokenEndpoint>,
    /// Source of the upstream's own token; `None` if the upstream has no client and only users have clients.
    upstream_source: Option<Arc<TokenSource>>,
    users: LruCache<Option<i64>, Arc<TokenSource>>,
}

/// Returns a copy of the caller that has no permissions and no token.
fn only_user(caller: &Caller) -> Caller {
    let mut user_caller = Caller::anonymous();
    user_caller.user.clone_from(&caller.user);
    user_caller
}

#[derive(Debug, Clone)]
pub(crate) struct RenewableToken {
    source: Arc<TokenSource>,
    token: Arc<AccessToken>,
}

impl AccessTokens {
    /// Returns `None` if the upstream does not use OAuth.
    pub(crate) fn new(
        upstream: &str,
        options: &ForwardOptions,
    ) -> Result<Option<Self>, TlsSetupError> {
        let Some(client) = &options.oauth else { return Ok(None) };
        let endpoint = Arc::new(TokenEndpoint::new(client, options)?);
        let grant = client.refresh_token.clone().map_or(TokenGrant::Client, TokenGrant::Refresh);
        let upstream_source = client
            .client
            .as_ref()
            .map(|_| Arc::new(TokenSource::new(upstream, None, Arc::clone(&endpoint), grant)));
        let users = LruCache::new(MAX_USERS);
        Ok(Some(Self { upstream: upstream.to_owned(), endpoint, upstream_source, users }))
    }

    /// Returns the upstream's own access token, or `None` if the upstream has no client.
    pub(crate) async fn upstream_token(&self) -> Result<Option<RenewableToken>, TokenUnavailable> {
        let Some(source) = &self.upstream_source else { return Ok(None) };
        let token = source.token(None).await?;
        Ok(Some(RenewableToken { source: Arc::clone(source), token }))
    }

    pub(crate) async fn of_user(
        &self,
        caller: &Caller,
        stored: &Secret,
        grant: UserGrant,
        credentials: &Arc<dyn Credentials>,
    ) -> Result<RenewableToken, TokenUnavailable> {
        let key = caller.user_id();
        let source = self.users.get_or_insert_with(key, || {
            let grant = match grant {
                UserGrant::ClientCredentials => TokenGrant::UserClient,
                UserGrant::RefreshToken => TokenGrant::Refresh(Arc::new(UserRefreshToken {
                    caller: only_user(caller),
                    credentials: Arc::clone(credentials),
                })),
            };
            let (name, endpoint) = (caller.name().to_owned(), Arc::clone(&self.endpoint));
            Arc::new(TokenSource::new(&self.upstream, Some(name), endpoint, grant))
        });
        let token = source.token(Some(stored)).await?;
        Ok(RenewableToken { source, token })
    }
}

impl RenewableToken {
    pub(crate) fn secret(&self) -> &Secret {
        &self.token.secret
    }

    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        self.token.bearer.clone()
    }

    /// Returns a new token after the service refused this one, or `None` if the token was renewed recently.
    pub(crate) async fn renewed(&self) -> Result<Option<Self>, TokenUnavailable> {
        let renewed = self.source.renewed(&self.token).await?;
        Ok(renewed.map(|token| Self { source: Arc::clone(&self.source), token }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_may_be_sent_over_tls_or_to_loopback_or_to_the_host_of_an_http_upstream() {
        let endpoint = |url: &str| url.parse::<Endpoint>().unwrap();
        let service = |url: &str| Some(endpoint(url));
        for (token_url, upstream, expected) in [
            ("https://a.example/token", service("http://b.example/"), true),
            ("http://127.0.0.1:1/token", service("https://b.example/"), true),
            ("http://[::1]:1/token", service("https://b.example/"), true),
            ("http://LOCALHOST/token", None, true),
            ("http://b.example:8080/token", service("http://b.example/"), true),
            ("http://b.example/token", service("https://b.example/"), false),
            ("http://a.example/token", service("http://b.example/"), false),
            ("http://a.example/token", None, false),
        ] {
            let is_allowed = may_receive_secrets(&endpoint(token_url), upstream.as_ref());
            assert_eq!(is_allowed, expected, "{token_url}, {upstream:?}");
        }
    }

    #[test]
    fn the_client_credentials_of_a_user_are_an_id_and_a_secret() {
        let parse = |text: &str| ClientCredentials::parse(&Secret::new(text).unwrap());
        let client = parse("ada:s3:cret").unwrap();
        assert_eq!((client.id.as_str(), client.secret.unwrap().expose()), ("ada", "s3:cret"));
        for invalid in ["ada", ":s3cret", "ada:"] {
            assert!(parse(invalid).is_none(), "{invalid}");
        }
    }
}
