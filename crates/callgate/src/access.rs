//! Who may do what: the snapshot of users, roles and grants, and the rules it is read by.
//!
//! [`Mask`], [`Section`] and [`Grants`] are in `grants`, [`Requirement`] and its [`Decision`] in
//! `requirement`. An [`Access`] is made whole from the registry's rows and swapped when they
//! change; the catalog does not depend on it.

mod grants;
mod visible_methods;
mod memo;
mod method_set;
mod requirement;
mod shares;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::secret::Secret;

pub use grants::{Grant, GrantSource, Grants, Mask, Section};
pub(crate) use method_set::{MethodSet, MethodSets};
pub use requirement::{Decision, Need, Requirement, SectionCheck};
pub(crate) use shares::{NoShare, Principal, Share, Shares};
pub(crate) use visible_methods::VisibleMethods;

/// Who is asking.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user, or nobody known.
    pub user: Option<Arc<User>>,
    /// What they may do.
    pub grants: Arc<Grants>,
    /// What they came with, where an upstream is to be told it.
    token: Option<Secret>,
    /// The address of the client.
    address: Option<IpAddr>,
    /// What services list for them, where that was looked up for this request.
    pub(crate) visible: Option<Arc<VisibleMethods>>,
}

/// A user and their role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The number in the registry.
    pub id: i64,
    /// The login name.
    pub name: String,
    /// The role's name, if they have one.
    pub role: Option<String>,
}

impl Caller {
    /// Somebody unknown, without grants.
    pub fn anonymous() -> Self {
        Self { user: None, grants: Arc::default(), token: None, address: None, visible: None }
    }

    /// A user with grants. Every user also has read on [`Section::authenticated`], unless the grants say
    /// otherwise of that section.
    pub fn user(user: User, mut grants: Grants) -> Self {
        grants.add_authenticated();
        let (user, grants) = (Some(Arc::new(user)), Arc::new(grants));
        Self { user, grants, ..Self::anonymous() }
    }

    /// With the token that they came with. Upstreams that ask for it are sent it; see
    /// [`Upstream::wants_token`](crate::upstream::Upstream::wants_token).
    #[must_use]
    pub fn with_token(mut self, token: Secret) -> Self {
        self.token = Some(token);
        self
    }

    /// The token that they came with, if an upstream is to be told it.
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// Sets the address of the client. Limits are shared per address among callers without a user.
    #[must_use]
    pub fn with_address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Returns whose share of the limits this caller uses.
    pub(crate) fn principal(&self) -> Principal {
        match (&self.user, self.address) {
            (Some(user), _) => Principal::User(user.id),
            (None, Some(address)) => Principal::address(address),
            (None, None) => Principal::Unknown,
        }
    }

    /// A name for logs.
    pub fn name(&self) -> &str {
        self.user.as_ref().map_or("anonymous", |user| &user.name)
    }
}

/// The SHA-256 of a token: all that is ever stored of it. Compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a token as the client sends it.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// A stored digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
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

/// A digest is as good as random already, so a part of it is enough; equality compares all.
impl Hash for TokenDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (start, _) = self.0.split_first_chunk().unwrap_or((&[0; 8], &[]));
        state.write_u64(u64::from_ne_bytes(*start));
    }
}

/// The snapshot of users, roles and grants.
#[derive(Debug)]
pub struct Access {
    users: HashMap<i64, Caller>,
    anonymous: Caller,
}

impl Default for Access {
    fn default() -> Self {
        Self::new([], Grants::default())
    }
}

impl Access {
    /// Of users, with the grants that already follow from their own rows and their roles', and of
    /// those of callers without a credential.
    pub fn new(users: impl IntoIterator<Item = (User, Grants)>, mut anonymous: Grants) -> Self {
        anonymous.remove_authenticated();
        Self {
            users: users
                .into_iter()
                .map(|(user, grants)| (user.id, Caller::user(user, grants)))
                .collect(),
            anonymous: Caller { grants: Arc::new(anonymous), ..Caller::anonymous() },
        }
    }

    /// The caller without a credential.
    pub fn anonymous(&self) -> &Caller {
        &self.anonymous
    }

    /// A user's caller, by number.
    pub fn caller(&self, user_id: i64) -> Option<&Caller> {
        self.users.get(&user_id)
    }

    /// A user's caller, by login name.
    pub fn caller_named(&self, name: &str) -> Option<&Caller> {
        self.users.values().find(|caller| caller.name() == name)
    }
}
