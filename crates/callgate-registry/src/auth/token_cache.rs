//! Tokens by their digests: those that were seen are kept, others are looked up.
//!
//! Of a million tokens only those in use cost anything. Look-ups that wait are gathered into one query.
//! What is kept is looked up again, all of it, when the registry says that some token changed.
//!
//! A digest is found by its hash and compared in constant time. Who could tell from the time how much of
//! a digest was right would still have to find a token with that SHA-256.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use callgate::access::TokenDigest;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::auth::health::{Contact, Read};
use crate::db::pool::within;
use crate::hex::digest_from_hex;
use crate::hex::to_hex;
use crate::rows::TokenRow;
use crate::store::Result;
use crate::store::Store;

/// Look-ups are no closer together than this.
const PAUSE: Duration = Duration::from_millis(20);
/// So many callers' tokens are looked up at once.
const MOST_AT_ONCE: usize = 500;
/// So many callers may wait for a look-up.
const MOST_WAITING: usize = 4096;
/// How long a look-up may take.
const LIMIT: Duration = Duration::from_secs(1);
/// How long a caller waits for one, with those before it.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// A token that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownToken {
    /// Its number.
    pub(crate) id: i64,
    /// The user that it speaks for.
    pub(crate) user_id: i64,
    /// When it ends, if ever.
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

/// The tokens that were seen, and the way to look up others.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Those used longest ago go first. One that is not there is never kept.
    kept: Cache<TokenDigest, KnownToken>,
    asking: ArcSwapOption<mpsc::Sender<Wanted>>,
    /// How often all that is kept was looked up again. What was read before the last time is not kept.
    round: Mutex<u64>,
}

/// Somebody has a token that is not known.
#[derive(Debug)]
struct Wanted {
    digest: TokenDigest,
    answer: oneshot::Sender<Result<Option<KnownToken>, NotLookedUp>>,
}

/// Why a token could not be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLookedUp {
    /// Too many wait already.
    TooMany,
    /// The registry did not answer, or nobody follows it.
    Failed,
}

type Found = HashMap<TokenDigest, KnownToken>;

impl Tokens {
    /// Keeps so many.
    pub(crate) fn new(most: u64) -> Self {
        let kept = Cache::builder().max_capacity(most).eviction_policy(EvictionPolicy::lru());
        Self { kept: kept.build(), asking: ArcSwapOption::empty(), round: Mutex::new(0) }
    }

    /// A token that was seen before.
    pub(crate) fn kept(&self, digest: &TokenDigest) -> Option<KnownToken> {
        self.kept.get(digest)
    }

    /// A token as the registry has it now; `None` where it has none.
    pub(crate) async fn look_up(
        &self,
        digest: TokenDigest,
    ) -> Result<Option<KnownToken>, NotLookedUp> {
        let (answer, answered) = oneshot::channel();
        let asking = self.asking.load_full().ok_or(NotLookedUp::Failed)?;
        asking.try_send(Wanted { digest, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotLookedUp::TooMany,
            mpsc::error::TrySendError::Closed(_) => NotLookedUp::Failed,
        })?;
        let answered = tokio::time::timeout(MAX_WAIT, answered).await;
        answered.ok().and_then(std::result::Result::ok).unwrap_or(Err(NotLookedUp::Failed))
    }

    /// Looks up again all that is kept. Comes back with whether any is gone or changed.
    pub(crate) async fn renew(&self, store: &dyn Store, contact: &Contact) -> Result<bool> {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let kept: Vec<(TokenDigest, KnownToken)> =
            self.kept.iter().map(|(digest, known)| (*digest, known)).collect();
        if kept.is_empty() {
            return Ok(false);
        }
        contact.count(Read::Tokens);
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

    /// Reads these, and keeps those that are there. What was read while the others were looked up again
    /// may be older than what they were found to be, so it is read once more.
    async fn read(&self, store: &dyn Store, contact: &Contact, wanted: &[Wanted]) -> Result<Found> {
        loop {
            let round = *self.round.lock().unwrap_or_else(PoisonError::into_inner);
            contact.count(Read::Tokens);
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
    let rows = store.tokens_with(&digests).await?;
    let known =
        rows.iter().filter_map(|row| Some((digest_from_hex(&row.digest)?, KnownToken::of(row))));
    Ok(known.collect())
}

/// Looks up what callers wait for, while a registry is followed.
#[derive(Debug)]
pub(crate) struct LookUps {
    tokens: Arc<Tokens>,
    store: Arc<dyn Store>,
    contact: Arc<Contact>,
    waiting: mpsc::Receiver<Wanted>,
}

impl LookUps {
    /// From now on look-ups come here.
    pub(crate) fn new(tokens: Arc<Tokens>, store: Arc<dyn Store>, contact: Arc<Contact>) -> Self {
        let (asking, waiting) = mpsc::channel(MOST_WAITING);
        tokens.asking.store(Some(Arc::new(asking)));
        Self { tokens, store, contact, waiting }
    }

    /// Until another is made, or this is dropped.
    pub(crate) async fn run(mut self) {
        let mut not_before = Instant::now();
        let mut told = None;
        while let Some(first) = self.waiting.recv().await {
            tokio::time::sleep_until(not_before).await;
            not_before = Instant::now() + PAUSE;
            let wanted = self.gathered(first);
            let read = self.tokens.read(&*self.store, &self.contact, &wanted);
            let found = match within(LIMIT, read).await {
                Ok(found) => Some(found),
                Err(error) => {
                    tell(&mut told, error.to_string());
                    None
                }
            };
            if found.is_some() {
                told = None;
            }
            for one in wanted {
                let answer = found.as_ref().map(|found| found.get(&one.digest).cloned());
                let answer = answer.ok_or(NotLookedUp::Failed);
                // Who does not wait any more needs none.
                let _ = one.answer.send(answer);
            }
        }
    }

    fn gathered(&mut self, first: Wanted) -> Vec<Wanted> {
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

/// Each reason once, until it goes well again.
fn tell(told: &mut Option<String>, error: String) {
    if told.as_ref() != Some(&error) {
        tracing::warn!(error, "cannot look up tokens; their callers are told to try again");
        *told = Some(error);
    }
}
