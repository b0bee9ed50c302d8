//! Credentials of users for a service.

use std::fmt;

use crate::access::Caller;
use crate::secret::Secret;
use crate::upstream::BoxFuture;

/// Error of looking up a credential.
///
/// Returned by functions of [`Credentials`] and of
/// [`RefreshTokenStore`](crate::upstream::forward::RefreshTokenStore). The error is logged and not sent to the caller.
pub type CredentialError = Box<dyn std::error::Error + Send + Sync>;

/// Result of replacing a stored secret.
///
/// Returned by [`Credentials::replace`] and by
/// [`RefreshTokenStore::replace`](crate::upstream::forward::RefreshTokenStore::replace).
/// [`RefreshTokenStore`](crate::upstream::forward::RefreshTokenStore) has an example.
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
///
/// Argument of [`ForwardOptions::credential`](crate::upstream::forward::ForwardOptions::credential).
///
/// ```
/// use std::collections::HashMap;
/// use callgate::upstream::{BoxFuture, CredentialError, Credentials};
/// use callgate::{Caller, Grants, Secret, User};
///
/// /// The API keys of users, by user id.
/// #[derive(Debug)]
/// struct ApiKeys(HashMap<i64, Secret>);
///
/// impl Credentials for ApiKeys {
///     fn of<'a>(
///         &'a self,
///         caller: &'a Caller,
///     ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
///         let key = caller.user.as_ref().and_then(|user| self.0.get(&user.id)).cloned();
///         Box::pin(std::future::ready(Ok(key)))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let keys = ApiKeys(HashMap::from([(7, Secret::new("s3cret").ok_or("the key is empty")?)]));
/// let ada = Caller::user(User { id: 7, name: "ada".to_owned(), role: None }, Grants::default());
/// assert!(keys.of(&ada).await?.is_some());
/// assert!(keys.of(&Caller::anonymous()).await?.is_none());
/// # Ok(())
/// # }
/// ```
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
