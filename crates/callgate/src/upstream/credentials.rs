//! Credentials of users for a service.

use std::fmt;

use crate::access::Caller;
use crate::secret::Secret;
use crate::upstream::BoxFuture;

/// Error of looking up a credential. It is logged and not sent to the caller.
pub type CredentialError = Box<dyn std::error::Error + Send + Sync>;

/// Result of replacing a stored secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceStatus {
    /// The new secret is stored.
    Stored,
    /// The stored secret had already been replaced, so nothing was written.
    Conflict,
    /// The new secret is kept only in memory and is lost when the process ends.
    NotDurable,
}

/// Looks up callers' credentials for one service.
///
/// Each call looks up a credential, so implementations should cache credentials.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Returns the caller's secret, if there is one.
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>>;

    /// Replaces the caller's stored secret with `new` if the stored secret is still `old`. Used for rotated refresh
    /// tokens. The default implementation stores nothing.
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
