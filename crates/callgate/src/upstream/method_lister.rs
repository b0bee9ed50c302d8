//! Listing of a service's methods per caller.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use super::BoxFuture;
use crate::access::Caller;

/// Error of [`MethodLister`]. It is logged and not sent to the caller.
///
/// A text can be converted to an error: `"the service is unreachable".into()`.
pub type ListError = Box<dyn std::error::Error + Send + Sync>;

/// Lists the methods that a caller may use at a service.
///
/// Returned by [`Upstream::method_lister`](crate::upstream::Upstream::method_lister). Applications that use
/// [`Forward`](crate::upstream::forward::Forward) do not need this trait: they set
/// [`ForwardOptions::visibility`](crate::upstream::forward::ForwardOptions::visibility).
///
/// ```
/// use std::time::Duration;
/// use callgate::Caller;
/// use callgate::upstream::{BoxFuture, CallerMethods, Identity, ListError, MethodLister};
///
/// /// Lists `report.read` for all users, and nothing for anonymous callers.
/// struct Reports;
///
/// impl MethodLister for Reports {
///     fn max_age(&self) -> Duration {
///         Duration::from_mins(1)
///     }
///
///     fn identity<'a>(
///         &'a self,
///         caller: &'a Caller,
///     ) -> BoxFuture<'a, Result<Option<Identity>, ListError>> {
///         let identity = caller.user.as_ref().map(|user| Identity::user(user.id, &[]));
///         Box::pin(std::future::ready(Ok(identity)))
///     }
///
///     fn methods<'a>(
///         &'a self,
///         _caller: &'a Caller,
///     ) -> BoxFuture<'a, Result<CallerMethods, ListError>> {
///         let methods = vec!["report.read".to_owned()];
///         Box::pin(std::future::ready(Ok(CallerMethods::Listed(methods))))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// assert_eq!(Reports.identity(&Caller::anonymous()).await?, None);
/// # Ok(())
/// # }
/// ```
pub trait MethodLister: Send + Sync {
    /// Returns the time for which a list is valid. The time begins when the list is requested.
    fn max_age(&self) -> Duration;

    /// Returns the caller's identity at the service, or `None` if the service lists no methods for the caller. Each
    /// request of a caller needs the identity, so implementations should cache it.
    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>>;

    /// Requests the list of methods for a caller. Fails if the service cannot be reached or does not return
    /// a list.
    fn methods<'a>(&'a self, caller: &'a Caller)
    -> BoxFuture<'a, Result<CallerMethods, ListError>>;
}

/// The methods that a caller may use at a service.
///
/// Returned by [`MethodLister::methods`]. [`MethodLister`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerMethods {
    /// Ids of the methods that the caller may use.
    Listed(Vec<String>),
    /// The service refuses to list methods for the caller. The text is the reason, for the log.
    Refused(String),
}

/// Identity of a caller at a service: the user and a keyed hash of the credential.
///
/// Returned by [`MethodLister::identity`]. [`MethodLister`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    user: Option<i64>,
    credential_hash: Option<u64>,
}

impl Identity {
    /// A caller without a credential.
    pub const ANONYMOUS: Self = Self { user: None, credential_hash: None };

    /// Creates the identity of a user with these credentials. Keeps only a keyed hash of the credentials. The key
    /// is random for each process.
    pub fn user(user: i64, credentials: &[&str]) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { user: Some(user), credential_hash: Some(KEY.hash_one(credentials)) }
    }
}
