//! What a service lists for each caller: the [`MethodLister`] trait.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use super::BoxFuture;
use crate::access::Caller;

/// Why a service did not say what it lists. The log has it, the caller has not.
pub type ListError = Box<dyn std::error::Error + Send + Sync>;

/// Lists the methods of a service as one caller may use them.
pub trait MethodLister: Send + Sync {
    /// How long an answer counts, from when the question was sent.
    fn max_age(&self) -> Duration;

    /// Who the caller is to the service; `None` where the service lists nothing for them. It is asked
    /// for each request, so it should have its answers in memory.
    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>>;

    /// Asks the service for the methods that the caller may use. An error is that it could not be asked,
    /// or did not answer with a list.
    fn methods<'a>(&'a self, caller: &'a Caller)
    -> BoxFuture<'a, Result<CallerMethods, ListError>>;
}

/// What a service answers that is asked for the methods of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerMethods {
    /// The ids of the methods that the caller may use.
    Listed(Vec<String>),
    /// Nothing, since it refuses the caller: why, for the log and for administrators.
    Refused(String),
}

/// Who a caller is to a service: the user, and a keyed hash of what they are known by there, which tells
/// one credential of theirs from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    user: Option<i64>,
    known_by: Option<u64>,
}

impl Identity {
    /// Somebody of whom the service knows nothing.
    pub const ANONYMOUS: Self = Self { user: None, known_by: None };

    /// A user who is known by these texts. Only a hash of them is kept, with a key that no other process
    /// has.
    pub fn user(user: i64, known_by: &[&str]) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { user: Some(user), known_by: Some(KEY.hash_one(known_by)) }
    }
}
