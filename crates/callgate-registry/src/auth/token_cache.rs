//! A cache of tokens.
//!
//! Only tokens that clients use are read. Concurrent lookups are combined into one query. When the registry's counter
//! of tokens changes, all cached tokens are looked up again.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use callgate::access::TokenDigest;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::auth::tracked_store::{ReadKind, TrackedStore};
use crate::db::pool::with_timeout;
use crate::hex::digest_from_hex;
use crate::hex::to_hex;
use crate::rows::TokenRow;
use crate::store::Result;
use crate::store::Store;

/// Minimum interval between lookups.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of tokens in one lookup.
const MAX_BATCH: usize = 500;
/// Maximum number of callers that wait for a lookup.
const MAX_WAITING: usize = 4096;
/// Time limit of a lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time that a caller waits for a lookup.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// A token that was found in the registry. It may have expired.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) expires_at: Option<SystemTime>,
    /// Unix time of the last use.
    used_at: AtomicI64,
}

impl KnownToken {
    fn of(row: &TokenRow) -> Self {
        let time =
            |seconds| UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        Self {
            id: row.id,
            user_id: row.id_user,
            expires_at: row.expires_at.map(time),
            used_at: AtomicI64::new(0),
        }
    }

    /// Returns `true` if the rows of both tokens have the same values.
    fn has_same_row(&self, other: &Self) -> bool {
        (self.id, self.user_id, self.expires_at) == (other.id, other.user_id, other.expires_at)
    }

    /// Records a use. Returns `false` if a use in the same second is already recorded.
    pub(crate) fn record_use(&self, now: i64) -> bool {
        let is_new = self.used_at.load(Ordering::Relaxed) != now;
        if is_new {
            self.used_at.store(now, Ordering::Relaxed);
        }
        is_new
    }

    pub(crate) fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// Identifies a token in the cache: 128 bits of `SipHash`, with keys that are random for each cache.
///
/// A token is cached after it was found in the registry by its SHA-256 digest. The cache then recognises it by its
/// tag alone. A different text has the same tag with a probability of 2^-128. To search for such a text, an
/// attacker needs the keys or tags, which never leave the process. The time of a lookup depends on the tags, but
/// reveals nothing to an attacker who has neither keys nor tags. Like a digest, a tag does not reveal its token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenTag(u64, u64);

/// Hashes only one half of the tag, because the bits of a tag are uniformly distributed.
impl Hash for TokenTag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

impl fmt::Debug for TokenTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenTag(…)")
    }
}

/// A cache of tokens, and the queue of lookups.
#[derive(Debug)]
pub(crate) struct TokenCache {
    tags: RandomState,
    /// The cached tokens. Texts that are no token of the registry are not cached.
    generations: RwLock<TokenGenerations>,
    lookup_sender: ArcSwapOption<mpsc::Sender<PendingLookup>>,
    /// Number of calls of [`Self::renew`]. Results of lookups that began before the last call are not cached.
    renewals: Mutex<u64>,
}

/// Tokens in two generations. When `recent` is full, it replaces `older`. A token in `older` that is used moves to
/// `recent`; the others are forgotten at the next replacement.
#[derive(Debug)]
struct TokenGenerations {
    recent: Generation,
    older: Generation,
    max_recent: usize,
}

type Generation = HashMap<TokenTag, CachedToken, foldhash::fast::RandomState>;
type CachedToken = (TokenDigest, Arc<KnownToken>);

impl TokenGenerations {
    fn insert(&mut self, tag: TokenTag, token: CachedToken) {
        self.older.remove(&tag);
        if self.recent.len() >= self.max_recent && !self.recent.contains_key(&tag) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(tag, token);
    }

    fn remove(&mut self, tag: &TokenTag) {
        self.recent.remove(tag);
        self.older.remove(tag);
    }
}

/// A token that is not cached, and its waiting caller.
#[derive(Debug)]
struct PendingLookup {
    tag: TokenTag,
    digest: TokenDigest,
    reply: oneshot::Sender<Result<Option<Arc<KnownToken>>, LookupError>>,
}

/// Reason why a token could not be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// Too many callers are waiting.
    TooMany,
    /// The registry failed or did not respond, or no task follows the registry.
    Failed,
}

type FoundTokens = HashMap<TokenDigest, Arc<KnownToken>>;

impl TokenCache {
    /// Creates a cache for `max_tokens` tokens. If `max_tokens` is less than 2, the cache has room for 2.
    pub(crate) fn new(max_tokens: u64) -> Self {
        let max_recent = usize::try_from(max_tokens / 2).unwrap_or(usize::MAX).max(1);
        let (recent, older) = (Generation::default(), Generation::default());
        Self {
            tags: RandomState::new(),
            generations: RwLock::new(TokenGenerations { recent, older, max_recent }),
            lookup_sender: ArcSwapOption::empty(),
            renewals: Mutex::new(0),
        }
    }

    pub(crate) fn tag(&self, token: &str) -> TokenTag {
        let mut hasher = self.tags.build_hasher();
        hasher.write(token.as_bytes());
        let first = hasher.finish();
        // Continues from the state after the token, so that the token is read only once.
        hasher.write_u8(1);
        TokenTag(first, hasher.finish())
    }

    /// Returns a cached token.
    pub(crate) fn get(&self, tag: TokenTag) -> Option<Arc<KnownToken>> {
        let generations = self.generations.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = generations.recent.get(&tag) {
            return Some(Arc::clone(known));
        }
        let token = generations.older.get(&tag)?.clone();
        drop(generations);
        let mut generations = self.generations.write().unwrap_or_else(PoisonError::into_inner);
        // The token may have been removed meanwhile.
        if generations.older.contains_key(&tag) {
            generations.insert(tag, token.clone());
        }
        Some(token.1)
    }

    /// Looks up a token in the registry. Returns `None` if the token is unknown.
    pub(crate) async fn look_up(
        &self,
        token: &str,
    ) -> Result<Option<Arc<KnownToken>>, LookupError> {
        let (tag, digest) = (self.tag(token), TokenDigest::of(token));
        let (reply, receiver) = oneshot::channel();
        let sender = self.lookup_sender.load_full().ok_or(LookupError::Failed)?;
        sender.try_send(PendingLookup { tag, digest, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => LookupError::TooMany,
            mpsc::error::TrySendError::Closed(_) => LookupError::Failed,
        })?;
        let reply = tokio::time::timeout(MAX_WAIT, receiver).await;
        reply.ok().and_then(std::result::Result::ok).unwrap_or(Err(LookupError::Failed))
    }

    /// Looks up all cached tokens again. Returns `true` if a token was changed or removed.
    pub(crate) async fn renew(&self, store: &TrackedStore) -> Result<bool> {
        *self.renewals.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let cached: Vec<_> = {
            let generations = self.generations.read().unwrap_or_else(PoisonError::into_inner);
            generations
                .recent
                .iter()
                .chain(&generations.older)
                .map(|(tag, token)| (*tag, token.clone()))
                .collect()
        };
        if cached.is_empty() {
            return Ok(false);
        }
        store.count_read(ReadKind::Tokens);
        let current =
            look_up_digests(&*store.inner, cached.iter().map(|(_, (digest, _))| digest)).await?;
        let mut has_changed = false;
        let mut tokens = self.generations.write().unwrap_or_else(PoisonError::into_inner);
        for (tag, (digest, before)) in cached {
            match current.get(&digest) {
                Some(known) if known.has_same_row(&before) => continue,
                Some(known) => tokens.insert(tag, (digest, Arc::clone(known))),
                None => tokens.remove(&tag),
            }
            has_changed = true;
        }
        Ok(has_changed)
    }

    /// Looks up tokens and caches them. Repeats the lookup if [`Self::renew`] ran meanwhile, because the result may be
    /// outdated.
    async fn look_up_and_cache(
        &self,
        store: &TrackedStore,
        pending: &[PendingLookup],
    ) -> Result<FoundTokens> {
        loop {
            let renewals = *self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
            store.count_read(ReadKind::Tokens);
            let found =
                look_up_digests(&*store.inner, pending.iter().map(|lookup| &lookup.digest)).await?;
            let current = self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
            if *current == renewals {
                let mut generations =
                    self.generations.write().unwrap_or_else(PoisonError::into_inner);
                for PendingLookup { tag, digest, .. } in pending {
                    if let Some(known) = found.get(digest) {
                        generations.insert(*tag, (*digest, Arc::clone(known)));
                    }
                }
                return Ok(found);
            }
        }
    }
}

async fn look_up_digests(
    store: &dyn Store,
    digests: impl Iterator<Item = &TokenDigest>,
) -> Result<FoundTokens> {
    let mut digests: Vec<String> = digests.map(|digest| to_hex(digest.as_bytes())).collect();
    digests.sort_unstable();
    digests.dedup();
    let rows = store.tokens_by_digest(&digests).await?;
    let known = rows
        .iter()
        .filter_map(|row| Some((digest_from_hex(&row.digest)?, Arc::new(KnownToken::of(row)))));
    Ok(known.collect())
}

/// Looks up tokens while a registry is followed.
#[derive(Debug)]
pub(crate) struct TokenLookups {
    tokens: Arc<TokenCache>,
    store: Arc<TrackedStore>,
    lookups: mpsc::Receiver<PendingLookup>,
}

impl TokenLookups {
    /// Receives all lookups of `tokens` from now on. [`Self::run`] answers them.
    pub(crate) fn new(tokens: Arc<TokenCache>, store: Arc<TrackedStore>) -> Self {
        let (sender, lookups) = mpsc::channel(MAX_WAITING);
        tokens.lookup_sender.store(Some(Arc::new(sender)));
        Self { tokens, store, lookups }
    }

    pub(crate) async fn run(mut self) {
        let mut not_before = Instant::now();
        let mut last_error = None;
        while let Some(first) = self.lookups.recv().await {
            tokio::time::sleep_until(not_before).await;
            not_before = Instant::now() + LOOKUP_INTERVAL;
            let pending = self.collect_pending(first);
            let read = self.tokens.look_up_and_cache(&self.store, &pending);
            let found = match with_timeout(LOOKUP_TIMEOUT, read).await {
                Ok(found) => Some(found),
                Err(error) => {
                    log_if_changed(&mut last_error, error.to_string());
                    None
                }
            };
            if found.is_some() {
                last_error = None;
            }
            for lookup in pending {
                let reply = found.as_ref().map(|found| found.get(&lookup.digest).cloned());
                let reply = reply.ok_or(LookupError::Failed);
                // The caller may have stopped waiting.
                let _ = lookup.reply.send(reply);
            }
        }
    }

    fn collect_pending(&mut self, first: PendingLookup) -> Vec<PendingLookup> {
        let mut pending = vec![first];
        while pending.len() < MAX_BATCH
            && let Ok(next) = self.lookups.try_recv()
        {
            pending.push(next);
        }
        pending.retain(|lookup| !lookup.reply.is_closed());
        pending
    }
}

/// Logs an error unless it equals the previous one.
fn log_if_changed(last: &mut Option<String>, error: String) {
    if last.as_ref() != Some(&error) {
        tracing::warn!(
            error,
            "failed to look up tokens in the registry; callers are asked to try again"
        );
        *last = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_use_stay_cached_when_the_cache_is_full() {
        let cache = TokenCache::new(4);
        let tags: Vec<TokenTag> = (0..7).map(|n| cache.tag(&format!("token {n}"))).collect();
        let is_cached = |n: usize| tags.get(n).is_some_and(|tag| cache.get(*tag).is_some());
        for (id, tag) in (0..).zip(&tags) {
            let known = KnownToken { id, user_id: 1, expires_at: None, used_at: AtomicI64::new(0) };
            let token = (TokenDigest::of(&id.to_string()), Arc::new(known));
            cache.generations.write().unwrap().insert(*tag, token);
            assert!(is_cached(0), "used all the time, at {id}");
            let generations = cache.generations.read().unwrap();
            assert!(generations.recent.len() + generations.older.len() <= 4);
        }
        assert!(is_cached(6) && !is_cached(1) && !is_cached(2));
    }

    #[test]
    fn a_tag_depends_on_the_token_and_on_the_cache() {
        let (cache, other) = (TokenCache::new(4), TokenCache::new(4));
        assert_eq!(cache.tag("a"), cache.tag("a"));
        assert_ne!(cache.tag("a"), cache.tag("b"));
        assert_ne!(cache.tag("a"), other.tag("a"));
        let TokenTag(first, second) = cache.tag("a");
        assert_ne!(first, second);
    }

    #[test]
    fn a_token_records_one_use_per_second() {
        let known = KnownToken { id: 1, user_id: 1, expires_at: None, used_at: AtomicI64::new(0) };
        assert_eq!([5, 5, 6, 6].map(|now| known.record_use(now)), [true, false, true, false]);
    }
}
