//! Access control: users, their grants, and the requirements of methods.
//!
//! An [`Access`] is built from all rows of the registry at once, and replaced when the rows change. The catalog does not depend
//! on it.

mod batch_replies;
mod grants;
mod limits;
mod visible_methods;
mod last_value_cache;
mod method_set;
mod requirement;
#[cfg_attr(
    not(all(feature = "forward", feature = "http")),
    allow(dead_code, reason = "only calls to services and streams are limited by shares")
)]
mod shares;
pub(crate) mod tool_limits;
mod rate_limiter;
mod running_calls;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::secret::Secret;

pub(crate) use batch_replies::{BatchReplies, MAX_BATCH_REPLY_BYTES};
pub use grants::{Grant, GrantSource, Grants, Mask, Section};
pub(crate) use limits::ActiveLimits;
pub use limits::{LimitError, Rate, RateLimit, RateLimits};
pub(crate) use method_set::{MethodSet, MethodSets};
pub(crate) use rate_limiter::RateLimiter;
pub use rate_limiter::{LimitScope, RateLimited};
pub use requirement::{Decision, Requirement, SectionCheck, SectionRequirement};
pub(crate) use running_calls::{RunningCallGuard, RunningCalls};
#[cfg(feature = "http")]
pub(crate) use shares::NoShare;
pub(crate) use shares::{Principal, Share, Shares};
pub(crate) use tool_limits::CallBounds;
pub use tool_limits::ToolLimits;
pub(crate) use visible_methods::VisibleMethods;

/// The user, or anonymous client, on whose behalf a request runs.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The authenticated user; `None` for an anonymous caller.
    pub user: Option<Arc<User>>,
    /// Permissions of the caller.
    pub grants: Arc<Grants>,
    /// Token of the request. Kept only if an upstream needs it.
    token: Option<Secret>,
    address: Option<IpAddr>,
    /// Size of all replies to the batch that the request is part of.
    batch: Option<Arc<BatchReplies>>,
    expires_at: Option<SystemTime>,
    /// Methods that services list for the caller; set by `Gateway::prepare`.
    pub(crate) visible: Option<Arc<VisibleMethods>>,
}

/// A user of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Id in the registry.
    pub id: i64,
    /// Login name.
    pub name: String,
    /// Name of the user's role.
    pub role: Option<String>,
}

impl Caller {
    /// Returns an anonymous caller without grants.
    pub fn anonymous() -> Self {
        Self::new(None, Arc::default())
    }

    fn new(user: Option<Arc<User>>, grants: Arc<Grants>) -> Self {
        Self {
            user,
            grants,
            token: None,
            address: None,
            batch: None,
            expires_at: None,
            visible: None,
        }
    }

    /// Returns a caller for a user. Every user has the mask read on [`Section::authenticated`], unless `grants` contains that
    /// section.
    pub fn user(user: User, grants: Grants) -> Self {
        Self::with_shared_grants(user, Arc::new(grants))
    }

    /// Like [`Self::user`]. Grants that contain [`Section::authenticated`] stay shared.
    fn with_shared_grants(user: User, mut grants: Arc<Grants>) -> Self {
        if grants.get(&Section::authenticated()).is_none() {
            Arc::make_mut(&mut grants).add_authenticated();
        }
        Self::new(Some(Arc::new(user)), grants)
    }

    /// Sets the token of the request, for upstreams that forward it (see
    /// [`Upstream::wants_token`](crate::upstream::Upstream::wants_token)).
    #[must_use]
    pub fn with_token(mut self, token: Secret) -> Self {
        self.token = Some(token);
        self
    }

    /// Returns the token of the request, if an upstream needs it.
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// Sets the client's address. Limits of anonymous callers are counted by address.
    #[must_use]
    pub fn with_address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Returns this caller for the requests of a new batch. The sizes of the replies to these requests are added up.
    pub(crate) fn in_batch(&self) -> Self {
        Self { batch: Some(Arc::default()), ..self.clone() }
    }

    /// Returns the size of all replies to the batch that the request is part of.
    pub(crate) fn batch(&self) -> Option<&Arc<BatchReplies>> {
        self.batch.as_ref()
    }

    /// Returns `true` if the request is part of a batch whose replies so far are too large.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.is_full())
    }

    /// Sets the time at which the credential expires. The caller's open streams end at that time.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: Option<SystemTime>) -> Self {
        self.expires_at = expires_at;
        self
    }

    /// Returns the time at which the credential expires.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expires_at
    }

    /// Returns the principal for which limits are counted.
    pub(crate) fn principal(&self) -> Principal {
        match (&self.user, self.address) {
            (Some(user), _) => Principal::User(user.id),
            (None, Some(address)) => Principal::address(address),
            (None, None) => Principal::Unknown,
        }
    }

    /// Returns the user's name, or `anonymous`.
    pub fn name(&self) -> &str {
        self.user.as_ref().map_or("anonymous", |user| &user.name)
    }
}

/// SHA-256 digest of a token. Tokens are stored only as digests. Digests are compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Computes the digest of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Wraps a stored digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenDigest {}

/// Hashes only a part of the digest, which is enough because its bytes are uniformly distributed.
impl Hash for TokenDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (start, _) = self.0.split_first_chunk().unwrap_or((&[0; 8], &[]));
        state.write_u64(u64::from_ne_bytes(*start));
    }
}

/// All users with their grants.
#[derive(Debug)]
pub struct Access {
    users: HashMap<i64, Caller, foldhash::fast::RandomState>,
    anonymous: Caller,
}

impl Default for Access {
    fn default() -> Self {
        Self::new::<Grants>([], Grants::default())
    }
}

impl Access {
    /// Creates a snapshot from users with their effective grants, and the grants of anonymous callers. Users can share
    /// their grants.
    pub fn new<G: Into<Arc<Grants>>>(
        users: impl IntoIterator<Item = (User, G)>,
        mut anonymous: Grants,
    ) -> Self {
        anonymous.remove_authenticated();
        Self {
            users: users
                .into_iter()
                .map(|(user, grants)| (user.id, Caller::with_shared_grants(user, grants.into())))
                .collect(),
            anonymous: Caller::new(None, Arc::new(anonymous)),
        }
    }

    /// Returns the anonymous caller.
    pub fn anonymous(&self) -> &Caller {
        &self.anonymous
    }

    /// Returns the caller for a user id.
    pub fn caller(&self, user_id: i64) -> Option<&Caller> {
        self.users.get(&user_id)
    }

    /// Returns the caller for a login name.
    pub fn caller_named(&self, name: &str) -> Option<&Caller> {
        self.users.values().find(|caller| caller.name() == name)
    }
}
