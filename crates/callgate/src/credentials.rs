//! What a service knows its users by: a secret of each user's own.

use std::fmt;

use crate::access::Caller;
use crate::secret::Secret;
use crate::upstream::BoxFuture;

/// Why nobody can say whether a caller has a credential. The log has it, the caller has not.
pub type CredentialError = Box<dyn std::error::Error + Send + Sync>;

/// Knows what a caller is known by at one service.
///
/// It is asked for each call, so it should have its answers in memory.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The caller's own secret there, if they have one.
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>>;
}
