//! The caller of a request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use super::{BatchReplies, Grants, Principal, Section, VisibleMethods};
use crate::secret::Secret;

/// The user, or anonymous client, on whose behalf a request runs.
///
/// ```
/// use callgate::{Caller, Grants, Mask, User};
///
/// let mut grants = Grants::default();
/// grants.add_user("users".into(), Mask::Read);
/// let user = User { id: 7, name: "ada".to_owned(), role: None };
/// let ada = Caller::user(user, grants);
/// assert_eq!(ada.name(), "ada");
/// assert_eq!(ada.grants.mask(&"users".into()), Mask::Read);
/// ```
#[derive(Debug, Clone)]
pub struct Caller {
    /// The authenticated user; `None` for an anonymous caller.
    pub user: Option<Arc<User>>,
    /// Permissions of the caller.
    pub grants: Arc<Grants>,
    /// Token of the request. Kept only if an upstream needs it.
    token: Option<Secret>,
    address: Option<IpAddr>,
    /// Counter of reply bytes of the current batch.
    batch: Option<Arc<BatchReplies>>,
    expires_at: Option<SystemTime>,
    /// Methods that services list for the caller; set by `Gateway::prepare`.
    pub(crate) visible: Option<Arc<VisibleMethods>>,
}

/// An authenticated user. [`Caller`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Unique id of the user. If there is a registry, the id in the registry.
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

    pub(super) fn new(user: Option<Arc<User>>, grants: Arc<Grants>) -> Self {
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

    /// Returns a caller for a user. Every user has the mask read on [`Section::authenticated`], unless `grants`
    /// contains that section.
    pub fn user(user: User, grants: Grants) -> Self {
        Self::with_shared_grants(user, Arc::new(grants))
    }

    /// Like [`Self::user`], but with shared grants. Copies them only if they do not contain
    /// [`Section::authenticated`].
    pub(super) fn with_shared_grants(user: User, mut grants: Arc<Grants>) -> Self {
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

    /// Returns the counter of reply bytes of the current batch, or `None` if the request is not part of a batch.
    pub(crate) fn batch(&self) -> Option<&Arc<BatchReplies>> {
        self.batch.as_ref()
    }

    /// Returns `true` if the request is part of a batch whose replies so far are too large.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.is_full())
    }

    /// Sets the time at which the caller's credential expires. The caller's open streams end at that time.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: Option<SystemTime>) -> Self {
        self.expires_at = expires_at;
        self
    }

    /// Returns the time at which the caller's credential expires.
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

    /// Returns the id of the user; `None` for an anonymous caller.
    pub(crate) fn user_id(&self) -> Option<i64> {
        self.user.as_ref().map(|user| user.id)
    }

    /// Returns the user's name, or `anonymous`.
    pub fn name(&self) -> &str {
        self.user.as_ref().map_or("anonymous", |user| &user.name)
    }
}
