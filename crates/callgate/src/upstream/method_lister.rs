//! Listing of a service's methods per caller.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use super::BoxFuture;
use crate::access::Caller;

/// Error of reading a list. It is logged and not sent to the caller.
pub type ListError = Box<dyn std::error::Error + Send + Sync>;

/// Lists the methods of a service that a caller may use.
pub trait MethodLister: Send + Sync {
    /// Returns the time for which a list is valid. The time begins when the list is requested.
    fn max_age(&self) -> Duration;

    /// Returns the caller's identity at the service, or `None` if the service lists no methods for the caller. Each
    /// request needs the identity, so implementations should cache it.
    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>>;

    /// Requests the list of methods for a caller. Fails if the service cannot be reached or does not return
    /// a list.
    fn methods<'a>(&'a self, caller: &'a Caller)
    -> BoxFuture<'a, Result<CallerMethods, ListError>>;
}

/// The methods of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerMethods {
    /// Ids of the methods that the caller may use.
    Listed(Vec<String>),
    /// The service refuses to list methods for the caller. The text is the reason, for the log.
    Refused(String),
}

/// Identity of a caller at a service: the user and a keyed hash of the credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    user: Option<i64>,
    credential_hash: Option<u64>,
}

impl Identity {
    /// A caller without a credential.
    pub const ANONYMOUS: Self = Self { user: None, credential_hash: None };

    /// Creates the identity of a user with these credentials. Keeps only a hash of the credentials, with a random key
    /// of this process.
    pub fn user(user: i64, credentials: &[&str]) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { user: Some(user), credential_hash: Some(KEY.hash_one(credentials)) }
    }
}
