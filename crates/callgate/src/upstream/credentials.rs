//! Credentials of users for a service.

use std::fmt;

use crate::access::Caller;
use crate::secret::Secret;
use crate::upstream::BoxFuture;

/// A credential could not be looked up. Logged, not sent to the caller.
pub type CredentialError = Box<dyn std::error::Error + Send + Sync>;

/// Result of replacing a stored secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceStatus {
    /// The new secret is stored.
    Stored,
    /// The stored secret was no longer the old one; nothing was written.
    Conflict,
    /// The new secret is not stored durably and is lost when the process ends.
    NotDurable,
}

/// Looks up callers' credentials for one service.
///
/// Called for each call, so implementations should cache.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Returns the caller's secret, if there is one.
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>>;

    /// Replaces the caller's secret if it is still `old`, for example a rotated refresh token. The default
    /// stores nothing.
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
