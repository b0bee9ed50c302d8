//! What a service knows its users by: a secret of each user's own.

use std::fmt;

use crate::access::Caller;
use crate::secret::Secret;
use crate::upstream::BoxFuture;

/// Why nobody can say whether a caller has a credential. The log has it, the caller has not.
pub type CredentialError = Box<dyn std::error::Error + Send + Sync>;

/// What became of an attempt to replace a stored secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceStatus {
    /// The new secret is stored.
    Stored,
    /// Nothing is written: the stored secret was no longer the old one.
    Conflict,
    /// The new secret is not stored durably; it is lost when the process ends.
    NotDurable,
}

/// Knows what a caller is known by at one service.
///
/// It is asked for each call, so it should have its answers in memory.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The caller's own secret there, if they have one.
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>>;

    /// Replaces the caller's secret if it is still `old`, such as a refresh token that an
    /// authorization server has rotated. By default nothing is stored.
    fn replace<'a>(
        &'a self,
        caller: &'a Caller,
        old: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
        let _ = (caller, old, new);
        Box::pin(std::future::ready(Ok(ReplaceStatus::NotDurable)))
    }
}
