//! Rows to [`Access`], and tokens to callers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use callgate::BoxFuture;
use callgate::access::{Access, Caller, Grants, KnownToken, Mask, Section, User};
use callgate::http::{Authenticate, AuthenticateError, bearer_token};

use tokio::sync::{Notify, watch};

use crate::rows::{AccessRows, GrantRow};
use crate::token::digest_from_hex;

/// How long a token that is not known waits for a newer access.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The role whose grants callers without a credential have.
const ANONYMOUS: &str = "anonymous";

/// The access that rows describe.
pub fn access(rows: &AccessRows) -> Access {
    let idents: HashMap<i64, Section> =
        rows.sections.iter().map(|row| (row.id, Section::from(row.ident.as_str()))).collect();
    let by_user = by_holder(&rows.user_grants);
    let by_role = by_holder(&rows.role_grants);
    let grants_of = |user: Option<i64>, role: Option<i64>| {
        let mut grants = Grants::default();
        for (section, mask) in resolve(&by_role, role, &idents) {
            grants.add_role(section, mask);
        }
        for (section, mask) in resolve(&by_user, user, &idents) {
            grants.add_user(section, mask);
        }
        grants
    };
    let users = rows.users.iter().map(|row| {
        let user = User { id: row.id, name: row.login.clone(), role: row.role.clone() };
        (user, grants_of(Some(row.id), row.id_type))
    });
    let tokens = rows.tokens.iter().filter_map(|row| {
        let known =
            KnownToken { id: row.id, user_id: row.id_user, expires_at: row.expires_at.map(time) };
        Some((digest_from_hex(&row.digest)?, known))
    });
    let anonymous = rows.roles.iter().find(|role| role.caption.eq_ignore_ascii_case(ANONYMOUS));
    let anonymous = anonymous.map_or_else(Grants::default, |role| grants_of(None, Some(role.id)));
    Access::new(users, tokens, anonymous)
}

fn by_holder(rows: &[GrantRow]) -> HashMap<i64, Vec<&GrantRow>> {
    let mut holders: HashMap<i64, Vec<&GrantRow>> = HashMap::new();
    for row in rows {
        holders.entry(row.id_holder).or_default().push(row);
    }
    holders
}

fn resolve<'a>(
    holders: &'a HashMap<i64, Vec<&'a GrantRow>>,
    holder: Option<i64>,
    idents: &'a HashMap<i64, Section>,
) -> impl Iterator<Item = (Section, Mask)> + 'a {
    let rows = holder.and_then(|holder| holders.get(&holder));
    rows.into_iter().flatten().filter_map(|row| {
        // What is not a number grants nothing.
        let value = row.value.trim().parse().unwrap_or(0);
        Some((idents.get(&row.id_section)?.clone(), Mask::granted(value)))
    })
}

fn time(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Knows callers by their tokens, from the access in force.
#[derive(Debug, Default)]
pub struct TokenAuthenticator {
    access: ArcSwap<Access>,
    used: Mutex<HashMap<i64, SystemTime>>,
    reads: Reads,
}

/// How far the reading of the registry is: a token that is not known may be newer than the access in
/// force, and is looked for again once the registry has been read anew.
#[derive(Debug, Default)]
struct Reads {
    wanted: Notify,
    begun: AtomicU64,
    ended: watch::Sender<u64>,
}

impl TokenAuthenticator {
    /// Puts another access in force.
    pub fn set_access(&self, access: Access) {
        self.access.store(Arc::new(access));
    }

    /// Takes the tokens that were used since the last time: number, seconds since 1970.
    pub fn take_uses(&self) -> Vec<(i64, i64)> {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        let seconds = |time: SystemTime| {
            let passed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(passed.as_secs()).unwrap_or(i64::MAX)
        };
        used.into_iter().map(|(id, time)| (id, seconds(time))).collect()
    }

    /// Waits until somebody has a token that is not known.
    pub async fn newer_access_wanted(&self) {
        self.reads.wanted.notified().await;
    }

    /// To be called before the registry is read; what comes back goes to [`Self::read_ended`].
    pub fn read_begins(&self) -> u64 {
        self.reads.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// To be called when the registry has been read, and what changed is in force.
    pub fn read_ended(&self, number: u64) {
        self.reads.ended.send_replace(number);
    }

    /// Waits for a read that begins after this; at once where nobody reads.
    async fn newer_access(&self) {
        let begun = self.reads.begun.load(Ordering::SeqCst);
        if begun == 0 {
            return;
        }
        let mut ended = self.reads.ended.subscribe();
        self.reads.wanted.notify_one();
        let _ = tokio::time::timeout(MAX_WAIT, ended.wait_for(|number| *number > begun)).await;
    }

    /// The caller of a token, or the anonymous one. A token that is not known is looked for again in
    /// the registry before it is refused.
    pub async fn caller_of(&self, token: Option<&str>) -> Result<Caller, AuthenticateError> {
        match self.caller(token) {
            Err(AuthenticateError::InvalidToken) => {
                self.newer_access().await;
                self.caller(token)
            }
            known => known,
        }
    }

    fn caller(&self, token: Option<&str>) -> Result<Caller, AuthenticateError> {
        let access = self.access.load();
        let Some(token) = token else { return Ok(access.anonymous().clone()) };
        let now = SystemTime::now();
        let (known, caller) =
            access.caller_of(token, now).ok_or(AuthenticateError::InvalidToken)?;
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(known.id, now);
        Ok(caller.clone())
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
