//! OAuth 2.0 towards a service: access tokens that the gateway gets for itself or for its users.
//!
//! `endpoint.rs` sends token requests and `answer.rs` reads what comes back; `source.rs` keeps one access
//! token and renews it, with `state.rs` for what it knows and `refresh.rs` for refresh tokens, which
//! `store.rs` keeps. A [`Tokens`] has the sources of one upstream.

mod answer;
mod endpoint;
mod error;
mod refresh;
mod source;
mod state;
mod store;

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use serde::Deserialize;

use super::credential::CredentialPlace;
use super::options::ForwardOptions;
use crate::access::Caller;
use crate::http_client::endpoint::{Endpoint, EndpointError};
use crate::http_client::tls::NoTls;
use crate::secret::Secret;
use crate::upstream::credentials::Credentials;
use endpoint::TokenEndpoint;
use source::{Grant, TokenSource};
use store::OfUser;

pub(super) use error::NoToken;
pub use source::token_requests_ended;
pub(super) use state::AccessToken;
pub use store::{FixedRefreshToken, RefreshTokenFile, RefreshTokenStore};

/// Maximum number of users whose access tokens are kept, per upstream.
const MAX_USERS: u64 = 10_000;

/// An OAuth 2.0 client of the authorization server that a service trusts. Its secrets show in no `Debug`
/// and in no log.
#[derive(Debug, Clone)]
#[must_use]
pub struct OAuthClient {
    token_url: Endpoint,
    client: Option<ClientId>,
    scope: Option<String>,
    refresh_token: Option<Arc<dyn RefreshTokenStore>>,
    client_auth: ClientAuth,
}

/// How the client authenticates itself at the token endpoint (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// In HTTP Basic.
    #[default]
    Basic,
    /// With `client_id` and `client_secret` in the body.
    Post,
}

/// What the stored credential of a user is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserGrant {
    /// It is a refresh token, for the client of the upstream.
    RefreshToken,
    /// It is the `client_id:client_secret` of a client of the user's own.
    ClientCredentials,
}

/// A client's identifier, and its secret unless it is a public client.
#[derive(Debug, Clone)]
pub(super) struct ClientId {
    id: String,
    secret: Option<Secret>,
}

impl ClientId {
    /// Reads `client_id:client_secret`.
    fn parse(stored: &Secret) -> Option<Self> {
        let (id, secret) = stored.expose().split_once(':')?;
        let secret = Secret::new(secret)?;
        (!id.is_empty()).then(|| Self { id: id.to_owned(), secret: Some(secret) })
    }
}

impl OAuthClient {
    /// A client at a token endpoint, not yet named.
    pub fn new(token_url: &str) -> Result<Self, EndpointError> {
        Ok(Self {
            token_url: token_url.parse()?,
            client: None,
            scope: None,
            refresh_token: None,
            client_auth: ClientAuth::default(),
        })
    }

    /// Names the client. A public client has no secret.
    pub fn client(mut self, id: impl Into<String>, secret: Option<Secret>) -> Self {
        self.client = Some(ClientId { id: id.into(), secret });
        self
    }

    /// Requests these scopes, separated by spaces.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Uses the grant `refresh_token` in place of `client_credentials`.
    pub fn refresh_token(mut self, store: Arc<dyn RefreshTokenStore>) -> Self {
        self.refresh_token = Some(store);
        self
    }

    /// How the client authenticates itself.
    pub fn client_auth(mut self, client_auth: ClientAuth) -> Self {
        self.client_auth = client_auth;
        self
    }
}

/// Returns why OAuth does not go together with the other options.
pub(super) fn conflict(options: &ForwardOptions) -> Option<&'static str> {
    let user_grant = options.credential.as_ref().and_then(|mapped| mapped.how.oauth);
    let Some(client) = &options.oauth else {
        return user_grant.map(|_| {
            "`credential` with `oauth` needs a table `oauth` with the `token_url` of the service"
        });
    };
    let place = options.credential.as_ref().map(|mapped| &mapped.how.place);
    let credential_in_header =
        matches!(place, Some(CredentialPlace::Header(name)) if *name == AUTHORIZATION);
    let conflicts = [
        (
            options.target.is_websocket(),
            "`oauth` is not for WebSocket: an access token expires, and a connection keeps the one that \
             it was opened with",
        ),
        (
            !may_be_asked(&client.token_url, options.target.endpoint()),
            "`token_url` of `oauth` must begin with `https://`, so that secrets do not go over a network \
             in the clear; `http://` is for this machine (`localhost`, `127.0.0.1`, `[::1]`), and for the \
             host of an upstream that is `http://` too",
        ),
        (
            client.client.is_none() && user_grant != Some(UserGrant::ClientCredentials),
            "`oauth` needs `client_id`",
        ),
        (
            options.headers.contains_key(AUTHORIZATION),
            "`oauth` sends an access token in the header `Authorization`, which `headers`, or \
             `basic_user`, sets too; leave one of them out",
        ),
        (
            options.pass_caller.names().any(|name| *name == AUTHORIZATION),
            "`oauth` sends an access token in the header `Authorization`, which `pass_caller` sets too; \
             leave one of them out",
        ),
        (
            credential_in_header && user_grant.is_none(),
            "`oauth` sends an access token in the header `Authorization`, which `credential` without \
             `oauth` sets too; leave one of them out",
        ),
    ];
    conflicts.into_iter().find_map(|(is_there, words)| is_there.then_some(words))
}

/// Whether secrets may be sent to a token endpoint: over TLS, on this machine, or to a host that is
/// sent access tokens without TLS anyway.
fn may_be_asked(token_url: &Endpoint, upstream: Option<&Endpoint>) -> bool {
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

/// The access tokens for one upstream.
#[derive(Debug)]
pub(super) struct Tokens {
    upstream: String,
    endpoint: Arc<TokenEndpoint>,
    /// The upstream's own, unless only its users have clients.
    own: Option<Arc<TokenSource>>,
    users: Cache<Option<i64>, Arc<TokenSource>>,
}

/// A caller without the grants and the token that they came with.
fn only_user(caller: &Caller) -> Caller {
    let mut known = Caller::anonymous();
    known.user.clone_from(&caller.user);
    known
}

/// An access token that was sent, and where another can be had.
#[derive(Debug, Clone)]
pub(super) struct Held {
    source: Arc<TokenSource>,
    token: Arc<AccessToken>,
}

impl Tokens {
    /// Those of an upstream, if it uses OAuth.
    pub(super) fn new(upstream: &str, options: &ForwardOptions) -> Result<Option<Self>, NoTls> {
        let Some(client) = &options.oauth else { return Ok(None) };
        let endpoint = Arc::new(TokenEndpoint::new(client, options)?);
        let grant = client.refresh_token.clone().map_or(Grant::Client, Grant::Refresh);
        let own = client
            .client
            .as_ref()
            .map(|_| Arc::new(TokenSource::new(upstream, None, Arc::clone(&endpoint), grant)));
        // The least recently used goes: a new one must not be turned away, or each of its calls would
        // request a token.
        let users = Cache::builder().max_capacity(MAX_USERS).eviction_policy(EvictionPolicy::lru());
        let users = users.build();
        Ok(Some(Self { upstream: upstream.to_owned(), endpoint, own, users }))
    }

    /// The upstream's own access token; `None` where it has no client.
    pub(super) async fn own(&self) -> Result<Option<Held>, NoToken> {
        let Some(source) = &self.own else { return Ok(None) };
        let token = source.token(None).await?;
        Ok(Some(Held { source: Arc::clone(source), token }))
    }

    /// The access token of a user, whose credential is `stored`.
    pub(super) async fn of_user(
        &self,
        caller: &Caller,
        stored: &Secret,
        grant: UserGrant,
        known: &Arc<dyn Credentials>,
    ) -> Result<Held, NoToken> {
        let key = caller.user.as_ref().map(|user| user.id);
        let source = self.users.get_with(key, || {
            let grant = match grant {
                UserGrant::ClientCredentials => Grant::OwnClient,
                UserGrant::RefreshToken => Grant::Refresh(Arc::new(OfUser {
                    caller: only_user(caller),
                    known: Arc::clone(known),
                })),
            };
            let (name, endpoint) = (caller.name().to_owned(), Arc::clone(&self.endpoint));
            Arc::new(TokenSource::new(&self.upstream, Some(name), endpoint, grant))
        });
        let token = source.token(Some(stored)).await?;
        Ok(Held { source, token })
    }
}

impl Held {
    /// The token itself, for where it is sent.
    pub(super) fn secret(&self) -> &Secret {
        &self.token.secret
    }

    /// It as the value of `Authorization`.
    pub(super) fn bearer(&self) -> Option<HeaderValue> {
        self.token.bearer.clone()
    }

    /// Another token, after the service has refused this one; `None` where no other is requested so
    /// soon.
    pub(super) async fn renewed(&self) -> Result<Option<Self>, NoToken> {
        let renewed = self.source.renewed(&self.token).await?;
        Ok(renewed.map(|token| Self { source: Arc::clone(&self.source), token }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_over_tls_or_to_this_machine() {
        let endpoint = |url: &str| url.parse::<Endpoint>().unwrap();
        let service = |url: &str| Some(endpoint(url));
        for (token_url, upstream, may) in [
            ("https://a.example/token", service("http://b.example/"), true),
            ("http://127.0.0.1:1/token", service("https://b.example/"), true),
            ("http://[::1]:1/token", service("https://b.example/"), true),
            ("http://LOCALHOST/token", None, true),
            ("http://b.example:8080/token", service("http://b.example/"), true),
            ("http://b.example/token", service("https://b.example/"), false),
            ("http://a.example/token", service("http://b.example/"), false),
            ("http://a.example/token", None, false),
        ] {
            let found = may_be_asked(&endpoint(token_url), upstream.as_ref());
            assert_eq!(found, may, "{token_url}, {upstream:?}");
        }
    }

    #[test]
    fn a_users_own_client_is_an_id_and_a_secret() {
        let parse = |text: &str| ClientId::parse(&Secret::new(text).unwrap());
        let client = parse("ada:s3:cret").unwrap();
        assert_eq!((client.id.as_str(), client.secret.unwrap().expose()), ("ada", "s3:cret"));
        for wrong in ["ada", ":s3cret", "ada:"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
