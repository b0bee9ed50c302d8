//! Tokens to callers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use callgate::access::{Access, Caller, TokenDigest};
use callgate::http::{Authenticate, AuthenticateError, bearer_token};
use callgate::upstream::BoxFuture;
use tokio::sync::{Notify, watch};

use crate::auth::health::Contact;
use crate::auth::token_cache::{KnownToken, NotLookedUp, Tokens};

/// How long a token whose user is not known waits for a newer access.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Of so many tokens the last use is noted, until it is written.
const MAX_USES: usize = 100_000;

const NOT_READ: &str = "the registry has not been read yet, so tokens cannot be checked; try again";
const AWAY: &str = "the registry cannot be read just now, so this token cannot be checked; it may be \
                    good: try again";
const TOO_MANY: &str = "too many tokens are being checked; try again";

/// How tokens are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenOptions {
    /// How long tokens that were good are taken for it after the registry was last read. Less than a
    /// second is a second: so long a look at it may take, with the time until the next.
    pub grace: Duration,
    /// How many that were seen are kept; more are looked up again and again.
    pub max_kept: u64,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self { grace: Duration::from_mins(1), max_kept: 100_000 }
    }
}

/// Knows callers by their tokens. Each is looked up in the registry when it is first seen, and kept.
#[derive(Debug)]
pub struct TokenAuthenticator {
    access: ArcSwap<Access>,
    tokens: Arc<Tokens>,
    contact: Arc<Contact>,
    /// By the token's number, in seconds since 1970.
    used: Mutex<HashMap<i64, i64>>,
    reads: Reads,
}

/// How far the reading of the registry is: the user of a new token may be newer than the access in
/// force, and is looked for again once the registry has been read anew.
#[derive(Debug, Default)]
struct Reads {
    wanted: Notify,
    begun: AtomicU64,
    ended: watch::Sender<u64>,
}

impl TokenAuthenticator {
    pub(crate) fn new(options: TokenOptions) -> Self {
        Self {
            access: ArcSwap::default(),
            tokens: Arc::new(Tokens::new(options.max_kept)),
            contact: Arc::new(Contact::new(options.grace)),
            used: Mutex::default(),
            reads: Reads::default(),
        }
    }

    /// Puts another access in force.
    pub(crate) fn set_access(&self, access: Access) {
        self.access.store(Arc::new(access));
    }

    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    pub(crate) fn contact(&self) -> &Arc<Contact> {
        &self.contact
    }

    /// The uses of tokens that are not written yet: number, seconds since 1970.
    pub(crate) fn uses(&self) -> Vec<(i64, i64)> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().map(|(id, at)| (*id, *at)).collect()
    }

    /// These are written. A token that was used again meanwhile stays.
    pub(crate) fn forget_uses(&self, written: &[(i64, i64)]) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, at) in written {
            if used.get(id) == Some(at) {
                used.remove(id);
            }
        }
    }

    fn note_use(&self, id: i64, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() < MAX_USES || used.contains_key(&id) {
            used.insert(id, now);
        }
    }

    /// Waits until somebody's user is not known.
    pub(crate) async fn newer_access_wanted(&self) {
        self.reads.wanted.notified().await;
    }

    /// To be called before the registry is read; what comes back goes to [`Self::read_ended`].
    pub(crate) fn read_begins(&self) -> u64 {
        self.reads.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// To be called when the registry has been read, and what changed is in force.
    pub(crate) fn read_ended(&self, number: u64) {
        self.reads.ended.send_replace(number);
    }

    /// Waits for a read that begins after this. Comes back with whether there was one.
    async fn newer_access(&self) -> bool {
        let begun = self.reads.begun.load(Ordering::SeqCst);
        let mut ended = self.reads.ended.subscribe();
        self.reads.wanted.notify_one();
        let read = ended.wait_for(|number| *number > begun);
        tokio::time::timeout(MAX_WAIT, read).await.is_ok() && !self.contact.is_away()
    }

    /// The caller of a token, or the anonymous one.
    pub async fn caller_of(&self, token: Option<&str>) -> Result<Caller, AuthenticateError> {
        let Some(token) = token else { return Ok(self.access.load().anonymous().clone()) };
        let known = self.known(token).await?;
        let now = SystemTime::now();
        if known.has_ended(now) {
            return Err(AuthenticateError::InvalidToken);
        }
        let caller = match self.caller(known.user_id) {
            None if !self.newer_access().await => return Err(AuthenticateError::Unavailable(AWAY)),
            None => self.caller(known.user_id),
            caller => caller,
        };
        let caller = caller.ok_or(AuthenticateError::InvalidToken)?;
        self.note_use(known.id, now);
        Ok(caller)
    }

    async fn known(&self, token: &str) -> Result<KnownToken, AuthenticateError> {
        let unavailable = |why| Err(AuthenticateError::Unavailable(why));
        if self.contact.honoured_for().is_zero() {
            return unavailable(if self.contact.age().is_none() { NOT_READ } else { AWAY });
        }
        let digest = TokenDigest::of(token);
        if let Some(known) = self.tokens.kept(&digest) {
            return Ok(known);
        }
        if self.contact.is_away() {
            return unavailable(AWAY);
        }
        match self.tokens.look_up(digest).await {
            Ok(known) => known.ok_or(AuthenticateError::InvalidToken),
            Err(NotLookedUp::TooMany) => unavailable(TOO_MANY),
            Err(NotLookedUp::Failed) => unavailable(AWAY),
        }
    }

    fn caller(&self, user_id: i64) -> Option<Caller> {
        self.access.load().caller(user_id).cloned()
    }
}

impl Authenticate for TokenAuthenticator {
    fn authenticate<'a>(
        &'a self,
        request: &'a callgate::http::Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async move { self.caller_of(bearer_token(&request.headers)?).await })
    }
}
