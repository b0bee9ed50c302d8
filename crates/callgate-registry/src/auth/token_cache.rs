//! A cache of tokens by their digests.
//!
//! Only tokens that clients use are read. Concurrent lookups are combined into one query. When the registry's counter
//! of tokens changes, all cached tokens are looked up again.
//!
//! Digests are compared in constant time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use callgate::access::TokenDigest;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::auth::health::{HealthTracker, Read};
use crate::db::pool::with_timeout;
use crate::hex::digest_from_hex;
use crate::hex::to_hex;
use crate::rows::TokenRow;
use crate::store::Result;
use crate::store::Store;

/// Minimum interval between lookups.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of tokens in one lookup.
const MOST_AT_ONCE: usize = 500;
/// Maximum number of callers that wait for a lookup.
const MOST_WAITING: usize = 4096;
/// Time limit of a lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time that a caller waits for a lookup.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// A valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownToken {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) expires_at: Option<SystemTime>,
}

impl KnownToken {
    fn of(row: &TokenRow) -> Self {
        let time =
            |seconds| UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        Self { id: row.id, user_id: row.id_user, expires_at: row.expires_at.map(time) }
    }

    pub(crate) fn has_ended(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// A cache of tokens, and the queue of lookups.
#[derive(Debug)]
pub(crate) struct TokenCache {
    /// Evicts the least recently used tokens. Unknown tokens are not cached.
    kept: Cache<TokenDigest, KnownToken>,
    asking: ArcSwapOption<mpsc::Sender<PendingLookup>>,
    /// Number of times that all cached tokens were looked up again. Results of earlier lookups are not cached.
    round: Mutex<u64>,
}

/// A token that is not cached, and its waiting caller.
#[derive(Debug)]
struct PendingLookup {
    digest: TokenDigest,
    answer: oneshot::Sender<Result<Option<KnownToken>, LookupError>>,
}

/// Reason why a token could not be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// Too many callers are waiting.
    TooMany,
    /// The registry did not respond, or no task follows it.
    Failed,
}

type Found = HashMap<TokenDigest, KnownToken>;

impl TokenCache {
    pub(crate) fn new(most: u64) -> Self {
        let kept = Cache::builder().max_capacity(most).eviction_policy(EvictionPolicy::lru());
        Self { kept: kept.build(), asking: ArcSwapOption::empty(), round: Mutex::new(0) }
    }

    /// Returns a cached token.
    pub(crate) fn kept(&self, digest: &TokenDigest) -> Option<KnownToken> {
        self.kept.get(digest)
    }

    /// Looks up a token in the registry. Returns `None` if the token is unknown.
    pub(crate) async fn look_up(
        &self,
        digest: TokenDigest,
    ) -> Result<Option<KnownToken>, LookupError> {
        let (answer, answered) = oneshot::channel();
        let asking = self.asking.load_full().ok_or(LookupError::Failed)?;
        asking.try_send(PendingLookup { digest, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => LookupError::TooMany,
            mpsc::error::TrySendError::Closed(_) => LookupError::Failed,
        })?;
        let answered = tokio::time::timeout(MAX_WAIT, answered).await;
        answered.ok().and_then(std::result::Result::ok).unwrap_or(Err(LookupError::Failed))
    }

    /// Looks up all cached tokens again. Returns `true` if a token was changed or removed.
    pub(crate) async fn renew(&self, store: &dyn Store, tracker: &HealthTracker) -> Result<bool> {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let kept: Vec<(TokenDigest, KnownToken)> =
            self.kept.iter().map(|(digest, known)| (*digest, known)).collect();
        if kept.is_empty() {
            return Ok(false);
        }
        tracker.count(Read::Tokens);
        let now = found(store, kept.iter().map(|(digest, _)| digest)).await?;
        let mut any = false;
        for (digest, before) in &kept {
            match now.get(digest) {
                Some(known) if known == before => continue,
                Some(known) => self.kept.insert(*digest, known.clone()),
                None => self.kept.invalidate(digest),
            }
            any = true;
        }
        Ok(any)
    }

    /// Looks up tokens and caches them. Repeats the lookup if [`Self::renew`] ran meanwhile, because the result may be
    /// outdated.
    async fn read(
        &self,
        store: &dyn Store,
        tracker: &HealthTracker,
        wanted: &[PendingLookup],
    ) -> Result<Found> {
        loop {
            let round = *self.round.lock().unwrap_or_else(PoisonError::into_inner);
            tracker.count(Read::Tokens);
            let found = found(store, wanted.iter().map(|one| &one.digest)).await?;
            let now = self.round.lock().unwrap_or_else(PoisonError::into_inner);
            if *now == round {
                for (digest, known) in &found {
                    self.kept.insert(*digest, known.clone());
                }
                return Ok(found);
            }
        }
    }
}

async fn found(
    store: &dyn Store,
    digests: impl Iterator<Item = &TokenDigest>,
) -> Result<HashMap<TokenDigest, KnownToken>> {
    let mut digests: Vec<String> = digests.map(|digest| to_hex(digest.as_bytes())).collect();
    digests.sort_unstable();
    digests.dedup();
    let rows = store.tokens_by_digest(&digests).await?;
    let known =
        rows.iter().filter_map(|row| Some((digest_from_hex(&row.digest)?, KnownToken::of(row))));
    Ok(known.collect())
}

/// Looks up tokens while a registry is followed.
#[derive(Debug)]
pub(crate) struct TokenLookups {
    tokens: Arc<TokenCache>,
    store: Arc<dyn Store>,
    tracker: Arc<HealthTracker>,
    waiting: mpsc::Receiver<PendingLookup>,
}

impl TokenLookups {
    /// Creates the state of the task. From now on, it receives all lookups.
    pub(crate) fn new(
        tokens: Arc<TokenCache>,
        store: Arc<dyn Store>,
        tracker: Arc<HealthTracker>,
    ) -> Self {
        let (asking, waiting) = mpsc::channel(MOST_WAITING);
        tokens.asking.store(Some(Arc::new(asking)));
        Self { tokens, store, tracker, waiting }
    }

    pub(crate) async fn run(mut self) {
        let mut not_before = Instant::now();
        let mut last_error = None;
        while let Some(first) = self.waiting.recv().await {
            tokio::time::sleep_until(not_before).await;
            not_before = Instant::now() + LOOKUP_INTERVAL;
            let wanted = self.gathered(first);
            let read = self.tokens.read(&*self.store, &self.tracker, &wanted);
            let found = match with_timeout(LOOKUP_TIMEOUT, read).await {
                Ok(found) => Some(found),
                Err(error) => {
                    log_change(&mut last_error, error.to_string());
                    None
                }
            };
            if found.is_some() {
                last_error = None;
            }
            for one in wanted {
                let answer = found.as_ref().map(|found| found.get(&one.digest).cloned());
                let answer = answer.ok_or(LookupError::Failed);
                // The caller may have stopped waiting.
                let _ = one.answer.send(answer);
            }
        }
    }

    fn gathered(&mut self, first: PendingLookup) -> Vec<PendingLookup> {
        let mut wanted = vec![first];
        while wanted.len() < MOST_AT_ONCE
            && let Ok(next) = self.waiting.try_recv()
        {
            wanted.push(next);
        }
        wanted.retain(|one| !one.answer.is_closed());
        wanted
    }
}

/// Logs an error unless it equals the previous one.
fn log_change(last: &mut Option<String>, error: String) {
    if last.as_ref() != Some(&error) {
        tracing::warn!(error, "failed to look up tokens, callers are asked to try again");
        *last = Some(error);
    }
}
