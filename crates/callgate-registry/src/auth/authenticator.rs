//! Identifies callers by their tokens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use callgate::access::{Access, Caller};
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::upstream::BoxFuture;
use tokio::sync::{Notify, watch};

use crate::auth::token_cache::{KnownToken, LookupError, TokenCache};
use crate::auth::tracked_store::TrackedStore;
use crate::store::Store;

/// Maximum time that a request waits for newer access rows if the user of its token is unknown.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Header in which Festi's clients send the token, without a scheme.
const FESTI_HEADER: &str = "x-authorization";
/// Maximum number of tokens whose time of last use is kept in memory until it is written to the registry.
const MAX_USES: usize = 100_000;

const NOT_READ: &str = "the registry has not been read yet, so tokens cannot be checked; try again";
const UNAVAILABLE: &str = "the registry is unavailable, so this token cannot be checked; the \
                    token may be valid, so try again";
const TOO_MANY: &str = "too many tokens are being checked; try again";

/// Options for tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenOptions {
    /// Time for which known tokens stay valid after the registry was last read. At least one second.
    pub grace: Duration,
    /// Maximum number of cached tokens.
    pub cache_size: u64,
    /// Whether the token is read from Festi's header `X-Authorization` if there is no bearer token. If a request has
    /// `X-Authorization`, an `Authorization` header with a scheme other than `Bearer` is ignored. An example is
    /// `Basic`, for a site that is not public yet.
    pub accepts_festi_header: bool,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self { grace: Duration::from_mins(1), cache_size: 100_000, accepts_festi_header: false }
    }
}

/// Identifies callers by their tokens. Tokens that are found in the registry are cached.
#[derive(Debug)]
pub struct TokenAuthenticator {
    access: ArcSwap<Access>,
    tokens: Arc<TokenCache>,
    store: Arc<TrackedStore>,
    /// Unix time of the last use, by token id.
    pending_uses: Mutex<HashMap<i64, i64>>,
    reads: ReadProgress,
    accepts_festi_header: bool,
}

/// Progress of reading the registry. The user of a new token may be newer than the access snapshot, so the user is
/// looked up again after the next read.
#[derive(Debug, Default)]
struct ReadProgress {
    requested: Notify,
    started: AtomicU64,
    finished: watch::Sender<u64>,
}

impl TokenAuthenticator {
    pub(crate) fn new(store: Arc<dyn Store>, options: TokenOptions) -> Self {
        Self {
            access: ArcSwap::default(),
            tokens: Arc::new(TokenCache::new(options.cache_size)),
            store: Arc::new(TrackedStore::new(store, options.grace)),
            pending_uses: Mutex::default(),
            reads: ReadProgress::default(),
            accepts_festi_header: options.accepts_festi_header,
        }
    }

    pub(crate) fn set_access(&self, access: Access) {
        self.access.store(Arc::new(access));
    }

    pub(crate) fn tokens(&self) -> &Arc<TokenCache> {
        &self.tokens
    }

    pub(crate) fn store(&self) -> &Arc<TrackedStore> {
        &self.store
    }

    /// Returns the tokens whose time of last use has not been written yet: their ids, with this time as Unix time.
    pub(crate) fn uses(&self) -> Vec<(i64, i64)> {
        let pending_uses = self.pending_uses.lock().unwrap_or_else(PoisonError::into_inner);
        pending_uses.iter().map(|(id, at)| (*id, *at)).collect()
    }

    /// Removes uses that were written, except those of tokens that were used again since then.
    pub(crate) fn remove_uses(&self, written: &[(i64, i64)]) {
        let mut pending_uses = self.pending_uses.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, at) in written {
            if pending_uses.get(id) == Some(at) {
                pending_uses.remove(id);
            }
        }
    }

    /// Records a use, unless the token was already used in the same second.
    fn record_use(&self, token: &KnownToken, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        if !token.record_use(now) {
            return;
        }
        let mut pending_uses = self.pending_uses.lock().unwrap_or_else(PoisonError::into_inner);
        if pending_uses.len() < MAX_USES || pending_uses.contains_key(&token.id) {
            pending_uses.insert(token.id, now);
        }
    }

    /// Waits until a token refers to an unknown user. Newer access rows are then needed.
    pub(crate) async fn newer_access_requested(&self) {
        self.reads.requested.notified().await;
    }

    /// Records that a read of the registry begins. Must be called before the read. Returns the number for
    /// [`Self::end_read`].
    pub(crate) fn begin_read(&self) -> u64 {
        self.reads.started.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Records that a read of the registry has ended. Must be called after the snapshots were replaced.
    pub(crate) fn end_read(&self, number: u64) {
        self.reads.finished.send_replace(number);
    }

    /// Waits for a read that begins after this call. Returns `false` if the read fails or takes too long.
    async fn wait_for_newer_access(&self) -> bool {
        let started = self.reads.started.load(Ordering::SeqCst);
        let mut finished = self.reads.finished.subscribe();
        self.reads.requested.notify_one();
        let read = finished.wait_for(|number| *number > started);
        tokio::time::timeout(MAX_WAIT, read).await.is_ok() && !self.store.is_unavailable()
    }

    /// Returns the caller with this token. Without a token, returns the anonymous caller.
    pub async fn caller_of(&self, token: Option<&str>) -> Result<Caller, AuthenticateError> {
        match self.cached_caller(token) {
            Some(caller) => caller,
            None => self.look_up_caller(token.unwrap_or_default()).await,
        }
    }

    /// Like [`Self::caller_of`], but returns `None` if the token must be looked up in the registry.
    fn cached_caller(&self, token: Option<&str>) -> Option<Result<Caller, AuthenticateError>> {
        let Some(token) = token else { return Some(Ok(self.access.load().anonymous().clone())) };
        let unavailable = |reason| Some(Err(AuthenticateError::Unavailable(reason)));
        if self.store.grace_left().is_zero() {
            return unavailable(if self.store.age().is_none() { NOT_READ } else { UNAVAILABLE });
        }
        match self.tokens.get(self.tokens.tag(token)) {
            Some(known) => self.caller(&known),
            None if self.store.is_unavailable() => unavailable(UNAVAILABLE),
            None => None,
        }
    }

    /// Reads the token from the registry, and its user if the user is not known yet.
    async fn look_up_caller(&self, token: &str) -> Result<Caller, AuthenticateError> {
        let unavailable = |reason| Err(AuthenticateError::Unavailable(reason));
        let known = match self.tokens.look_up(token).await {
            Ok(known) => known.ok_or(AuthenticateError::InvalidToken)?,
            Err(LookupError::TooMany) => return unavailable(TOO_MANY),
            Err(LookupError::Failed) => return unavailable(UNAVAILABLE),
        };
        if let Some(caller) = self.caller(&known) {
            return caller;
        }
        if !self.wait_for_newer_access().await {
            return unavailable(UNAVAILABLE);
        }
        self.caller(&known).unwrap_or(Err(AuthenticateError::InvalidToken))
    }

    /// Returns the caller of a token, or an error if the token has expired. Returns `None` if the token's user is
    /// unknown.
    fn caller(&self, token: &KnownToken) -> Option<Result<Caller, AuthenticateError>> {
        let now = SystemTime::now();
        if token.is_expired(now) {
            return Some(Err(AuthenticateError::InvalidToken));
        }
        let caller = self.access.load().caller(token.user_id)?.clone();
        self.record_use(token, now);
        Some(Ok(caller.with_expiry(token.expires_at)))
    }
}

impl Authenticate for TokenAuthenticator {
    fn known_caller(&self, request: &Parts) -> Option<Result<Caller, AuthenticateError>> {
        match self.token(request) {
            Ok(token) => self.cached_caller(token),
            Err(error) => Some(Err(error)),
        }
    }

    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async move { self.caller_of(self.token(request)?).await })
    }

    fn token<'a>(&self, request: &'a Parts) -> Result<Option<&'a str>, AuthenticateError> {
        if !self.accepts_festi_header {
            return bearer_token(&request.headers);
        }
        let mut values = request.headers.get_all(FESTI_HEADER).iter();
        let Some(value) = values.next() else { return bearer_token(&request.headers) };
        if !has_other_scheme(request)
            && let Some(token) = bearer_token(&request.headers)?
        {
            return Ok(Some(token));
        }
        let token = value.to_str().map_err(|_| AuthenticateError::Malformed)?.trim();
        if values.next().is_some() || token.is_empty() {
            return Err(AuthenticateError::Malformed);
        }
        Ok(Some(token))
    }
}

/// Returns `true` if all `Authorization` headers are readable and have a scheme other than `Bearer`, or if there
/// are no such headers.
fn has_other_scheme(request: &Parts) -> bool {
    let mut values = request.headers.get_all("authorization").iter();
    values.all(|value| {
        let scheme = value.to_str().ok().and_then(|value| value.split(' ').next());
        scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case("bearer"))
    })
}
