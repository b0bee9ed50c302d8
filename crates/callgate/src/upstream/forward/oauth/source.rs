//! One access token: requested when it is first needed, renewed before it expires, and by one request for
//! all who wait.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::ClientId;
use super::endpoint::TokenEndpoint;
use super::error::{NoToken, TokenError};
use super::state::{AccessToken, PendingToken, State};
use super::store::RefreshTokenStore;
use crate::secret::Secret;

/// The number of token requests of this process that have not ended.
static UNDER_WAY: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// A token request until it has ended, and what it brought is stored.
struct UnderWay;

impl UnderWay {
    fn begin() -> Self {
        UNDER_WAY.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Waits until no token request is under way, and at most this long. A process that ends before would
/// lose refresh tokens that an authorization server has just replaced.
pub async fn token_requests_ended(limit: Duration) {
    let mut count = UNDER_WAY.subscribe();
    let _ = tokio::time::timeout(limit, count.wait_for(|count| *count == 0)).await;
}

/// What tokens are requested with.
#[derive(Debug)]
pub(super) enum Grant {
    /// The client of the upstream.
    Client,
    /// A client of the user's own, which is the stored credential.
    OwnClient,
    /// A refresh token.
    Refresh(Arc<dyn RefreshTokenStore>),
}

/// Where the access token of one upstream, or of one user, comes from.
#[derive(Debug)]
pub(super) struct TokenSource {
    pub(super) upstream: String,
    /// Whose it is, unless it is the upstream's own.
    pub(super) user: Option<String>,
    pub(super) endpoint: Arc<TokenEndpoint>,
    grant: Grant,
    state: Mutex<State>,
}

/// What became of a request, and of the credential that it was made with.
pub(super) struct Fetched {
    pub(super) token: Result<AccessToken, TokenError>,
    /// What is stored now, and what was before, where that changed.
    pub(super) stored: Option<(Secret, Secret)>,
    /// A rotated refresh token that could not be stored.
    pub(super) unstored: Option<super::refresh::Unstored>,
}

impl Fetched {
    pub(super) fn only(token: Result<AccessToken, TokenError>) -> Self {
        Self { token, stored: None, unstored: None }
    }
}

impl TokenSource {
    pub(super) fn new(
        upstream: &str,
        user: Option<String>,
        endpoint: Arc<TokenEndpoint>,
        grant: Grant,
    ) -> Self {
        let upstream = upstream.to_owned();
        Self { upstream, user, endpoint, grant, state: Mutex::default() }
    }

    /// A good token; `stored` is the credential of the user whose it is.
    pub(super) async fn token(
        self: &Arc<Self>,
        stored: Option<&Secret>,
    ) -> Result<Arc<AccessToken>, NoToken> {
        let pending = {
            let (mut state, now) = (self.state(), Instant::now());
            if let Some(stored) = stored {
                state.adopt(stored, matches!(self.grant, Grant::Refresh(_)), now);
            }
            if let Some(token) = state.good(now) {
                if token.is_due(now) {
                    // Nobody waits for it, so that nobody is told why there is none.
                    let _ = self.join_or_start(&mut state, now);
                }
                return Ok(token);
            }
            self.join_or_start(&mut state, now).map_err(|error| self.no_token(error))?
        };
        self.wait(pending).await
    }

    /// Another token than one that the service has refused; `None` where one was requested for that
    /// reason just before.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        refused: &Arc<AccessToken>,
    ) -> Result<Option<Arc<AccessToken>>, NoToken> {
        let pending = {
            let (mut state, now) = (self.state(), Instant::now());
            let other = state.good(now).filter(|token| !Arc::ptr_eq(token, refused));
            if let Some(token) = other {
                return Ok(Some(token));
            }
            if state.under_way().is_none() {
                if let Some(error) = state.backs_off(now) {
                    return Err(self.no_token(error));
                }
                if !state.rejected(now) {
                    return Ok(None);
                }
            }
            self.join_or_start(&mut state, now).map_err(|error| self.no_token(error))?
        };
        self.wait(pending).await.map(Some)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn no_token(&self, error: TokenError) -> NoToken {
        NoToken {
            token_url: self.endpoint.url().to_string(),
            user: self.user.clone(),
            is_own_client: matches!(self.grant, Grant::OwnClient),
            error,
        }
    }

    /// The request that is under way, or a new one unless the last has just failed.
    fn join_or_start(
        self: &Arc<Self>,
        state: &mut State,
        now: Instant,
    ) -> Result<PendingToken, TokenError> {
        if let Some(pending) = state.under_way() {
            return Ok(pending);
        }
        if let Some(error) = state.backs_off(now) {
            return Err(error);
        }
        let (sender, pending) = watch::channel(None);
        state.pending = Some(pending.clone());
        let source = Arc::clone(self);
        let (generation, basis) = (state.generation, state.basis.clone());
        let unstored = state.unstored.clone();
        // In a task of its own: a caller who goes must not take a rotated refresh token along.
        let under_way = UnderWay::begin();
        tokio::spawn(async move {
            let _under_way = under_way;
            let fetched = match &source.grant {
                Grant::Client => source.fetch(None).await,
                Grant::OwnClient => match basis.as_ref().and_then(ClientId::parse) {
                    Some(client) => source.fetch(Some(&client)).await,
                    None => Fetched::only(Err(TokenError::NotAClient)),
                },
                Grant::Refresh(store) => source.refresh(&**store, basis, unstored).await,
            };
            let _ = sender.send(Some(source.finish(generation, fetched)));
        });
        Ok(pending)
    }

    async fn fetch(&self, own_client: Option<&ClientId>) -> Fetched {
        Fetched::only(self.endpoint.request(own_client, None).await.map(AccessToken::from))
    }

    /// Puts what came of a request in force.
    fn finish(&self, generation: u64, fetched: Fetched) -> Result<Arc<AccessToken>, TokenError> {
        let (mut state, now) = (self.state(), Instant::now());
        let Fetched { token, stored, unstored } = fetched;
        let token = token.map(Arc::new);
        if let Err(error) = &token {
            let (upstream, user) = (&self.upstream, self.user.as_deref().unwrap_or("(none)"));
            tracing::warn!(upstream, user, token_url = %self.endpoint.url(), %error, "no access token");
        }
        if state.generation != generation {
            // The credential was replaced meanwhile: this is for those who asked before.
            return token;
        }
        state.pending = None;
        state.unstored = unstored;
        if let Some((now_stored, before)) = stored.filter(|_| state.basis.is_some()) {
            state.basis = Some(now_stored);
            state.superseded = Some(before);
        }
        match &token {
            Ok(token) => state.succeeded(token),
            Err(error) => state.failed(error.clone(), now),
        }
        token
    }

    async fn wait(&self, mut pending: PendingToken) -> Result<Arc<AccessToken>, NoToken> {
        let finished = match pending.wait_for(Option::is_some).await {
            Ok(finished) => finished.clone(),
            Err(_) => None,
        };
        let given_up = || Err(TokenError::Unreachable("the request was given up".to_owned()));
        finished.unwrap_or_else(given_up).map_err(|error| self.no_token(error))
    }

    /// Tells the log once that a rotated refresh token is lost when the process ends.
    pub(super) fn warn_not_kept(&self) {
        if !std::mem::replace(&mut self.state().has_warned, true) {
            tracing::warn!(
                upstream = self.upstream,
                "the authorization server has replaced the refresh token, and the new one is only in \
                 memory: after a restart another one is needed; with `refresh_token = {{ file = … }}` it \
                 is kept"
            );
        }
    }
}
