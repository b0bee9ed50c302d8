//! Caches one access token. Requests the token when it is first used, renews it before it expires, and shares one
//! request among concurrent calls.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::ClientCredentials;
use super::refresh_token_store::RefreshTokenStore;
use super::token_endpoint::TokenEndpoint;
use super::token_error::{TokenError, TokenUnavailable};
use super::token_state::{AccessToken, TokenState};
use crate::secret::Secret;
use crate::upstream::forward::auth::credential_cache::{self, PendingCredential};

/// Maximum delay after a failed request.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

type PendingToken = PendingCredential<AccessToken, TokenError>;

static IN_FLIGHT: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Counts a token request until its response is stored.
struct TokenRequestGuard;

impl TokenRequestGuard {
    fn begin() -> Self {
        IN_FLIGHT.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for TokenRequestGuard {
    fn drop(&mut self) {
        IN_FLIGHT.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Waits until no token request is in flight, but at most for `limit`.
///
/// Applications with an [`OAuthClient`] call this function before they end. If a process exited earlier, the process
/// could lose a rotated refresh token. [`OAuthClient`] has an example.
///
/// [`OAuthClient`]: crate::upstream::forward::OAuthClient
pub async fn wait_for_token_requests(limit: Duration) {
    let mut count = IN_FLIGHT.subscribe();
    let _ = tokio::time::timeout(limit, count.wait_for(|count| *count == 0)).await;
}

#[derive(Debug)]
pub(crate) enum TokenGrant {
    /// The grant `client_credentials` with the upstream's client.
    Client,
    /// The grant `client_credentials` with the user's client, which is the stored credential.
    UserClient,
    Refresh(Arc<dyn RefreshTokenStore>),
}

#[derive(Debug)]
pub(crate) struct TokenSource {
    pub(crate) upstream: String,
    /// Name of the user; `None` if the token is the upstream's own.
    pub(crate) user: Option<String>,
    pub(crate) endpoint: Arc<TokenEndpoint>,
    grant: TokenGrant,
    state: Mutex<TokenState>,
}

pub(crate) struct FetchedToken {
    pub(crate) token: Result<AccessToken, TokenError>,
    /// The new and the previous stored credential, if the credential has changed.
    pub(crate) stored: Option<(Secret, Secret)>,
    pub(crate) unstored: Option<super::refresh::Unstored>,
}

impl FetchedToken {
    pub(crate) fn token_only(token: Result<AccessToken, TokenError>) -> Self {
        Self { token, stored: None, unstored: None }
    }
}

impl TokenSource {
    pub(crate) fn new(
        upstream: &str,
        user: Option<String>,
        endpoint: Arc<TokenEndpoint>,
        grant: TokenGrant,
    ) -> Self {
        let upstream = upstream.to_owned();
        Self { upstream, user, endpoint, grant, state: Mutex::default() }
    }

    /// Returns a valid token. `stored` is the credential of the user.
    pub(crate) async fn token(
        self: &Arc<Self>,
        stored: Option<&Secret>,
    ) -> Result<Arc<AccessToken>, TokenUnavailable> {
        let pending = {
            let (mut state, now) = (self.state(), Instant::now());
            if let Some(stored) = stored {
                state.adopt(stored, matches!(self.grant, TokenGrant::Refresh(_)), now);
            }
            if let Some(token) = state.valid_token(now) {
                if token.is_renewal_due(now) {
                    // No call waits for this request. If it fails, the error is logged.
                    let _ = self.join_or_start(&mut state, now);
                }
                return Ok(token);
            }
            self.join_or_start(&mut state, now)?
        };
        self.wait(pending).await
    }

    /// Returns a new token after the service refused the old one, or `None` if a token was requested recently.
    pub(crate) async fn renewed(
        self: &Arc<Self>,
        refused: &Arc<AccessToken>,
    ) -> Result<Option<Arc<AccessToken>>, TokenUnavailable> {
        let pending = {
            let (mut state, now) = (self.state(), Instant::now());
            let other = state.valid_token(now).filter(|token| !Arc::ptr_eq(token, refused));
            if other.is_some() || !state.cache.refused(now) {
                return Ok(other);
            }
            self.join_or_start(&mut state, now)?
        };
        self.wait(pending).await.map(Some)
    }

    fn state(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unavailable(&self, error: TokenError) -> TokenUnavailable {
        TokenUnavailable {
            token_url: self.endpoint.url().to_string(),
            user: self.user.clone(),
            is_user_client: matches!(self.grant, TokenGrant::UserClient),
            error,
        }
    }

    /// Returns the request in flight. If there is none, starts a request, unless the last request failed recently.
    fn join_or_start(
        self: &Arc<Self>,
        state: &mut TokenState,
        now: Instant,
    ) -> Result<PendingToken, TokenUnavailable> {
        let (generation, credential) = (state.generation, state.credential.clone());
        let unstored = state.unstored.clone();
        let pending = state.cache.join_or_start(now, |sender| {
            let source = Arc::clone(self);
            // Runs in a separate task, so that a dropped call does not lose a rotated refresh token.
            let guard = TokenRequestGuard::begin();
            tokio::spawn(async move {
                let _guard = guard;
                let fetched = match &source.grant {
                    TokenGrant::Client => source.fetch(None).await,
                    TokenGrant::UserClient => {
                        match credential.as_ref().and_then(ClientCredentials::parse) {
                            Some(client) => source.fetch(Some(&client)).await,
                            None => FetchedToken::token_only(Err(TokenError::NotAClient)),
                        }
                    }
                    TokenGrant::Refresh(store) => {
                        source.refresh(&**store, credential, unstored).await
                    }
                };
                let _ = sender.send(Some(source.finish(generation, fetched)));
            });
        });
        pending.map_err(|error| self.unavailable(error))
    }

    async fn fetch(&self, user_client: Option<&ClientCredentials>) -> FetchedToken {
        FetchedToken::token_only(
            self.endpoint.request(user_client, None).await.map(AccessToken::from),
        )
    }

    fn finish(
        &self,
        generation: u64,
        fetched: FetchedToken,
    ) -> Result<Arc<AccessToken>, TokenError> {
        let (mut state, now) = (self.state(), Instant::now());
        let FetchedToken { token, stored, unstored } = fetched;
        let token = token.map(Arc::new);
        if let Err(error) = &token {
            let (upstream, user) = (&self.upstream, self.user.as_deref().unwrap_or("(none)"));
            tracing::warn!(upstream, user, token_url = %self.endpoint.url(), %error, "failed to get an access token");
        }
        if state.generation != generation {
            // The credential was replaced meanwhile, so only the calls that wait for this request get its result.
            return token;
        }
        state.unstored = unstored;
        if let Some((current, previous)) = stored.filter(|_| state.credential.is_some()) {
            state.credential = Some(current);
            state.superseded = Some(previous);
        }
        state.cache.finish(&token, MAX_BACKOFF, now);
        token
    }

    async fn wait(&self, pending: PendingToken) -> Result<Arc<AccessToken>, TokenUnavailable> {
        let aborted = || Err(TokenError::Unreachable("the request was aborted".to_owned()));
        let result = credential_cache::wait(pending).await;
        result.unwrap_or_else(aborted).map_err(|error| self.unavailable(error))
    }

    /// Logs once that a rotated refresh token will be lost when the process ends.
    pub(crate) fn warn_not_durable(&self) {
        if !std::mem::replace(&mut self.state().has_warned, true) {
            tracing::warn!(
                upstream = self.upstream,
                "the authorization server rotated the refresh token, and the new token is only in \
                 memory; set `refresh_token = {{ file = … }}` in the configuration file to keep it after a restart"
            );
        }
    }
}
