//! What the services behind methods list for a caller.

use std::borrow::Cow;
use std::time::Duration;

use super::{Gateway, RunError};
use crate::access::Caller;
use crate::catalog::Entry;
use crate::jsonrpc::METHOD_NOT_FOUND;
use crate::upstream::{Returned, UpstreamError};
use crate::visibility::{Denial, FIRST_ANSWER};

impl Gateway {
    /// The caller with what services list for them just now, for one request. A service of which nothing
    /// is known is asked, and waited for two seconds at most.
    ///
    /// [`list`](Self::list), [`describe`](Self::describe) and [`open_rpc`](Self::open_rpc) show an
    /// unprepared caller no methods of services that have a say in it; [`call`](Self::call) prepares by
    /// itself. Where there is no such service, this does nothing.
    pub async fn prepare(&self, mut caller: Caller) -> Caller {
        if self.has_visibility() {
            caller.visible = self.visibility.look(&caller, FIRST_ANSWER).await;
        }
        caller
    }

    /// The same without waiting, for those who are told when it changes.
    pub(crate) async fn prepare_at_once(&self, mut caller: Caller) -> Caller {
        if self.has_visibility() {
            caller.visible = self.visibility.look(&caller, Duration::ZERO).await;
        }
        caller
    }

    /// Whether a service has a say in what callers see.
    pub(crate) fn has_visibility(&self) -> bool {
        self.visibility.is_on()
    }

    /// A prepared caller; the same one where there is nothing to prepare.
    pub(crate) async fn prepared<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        if self.has_visibility() {
            Cow::Owned(self.prepare(caller.clone()).await)
        } else {
            Cow::Borrowed(caller)
        }
    }

    /// Takes a method from a caller whom the service denied it.
    pub(super) async fn note_denial(
        &self,
        caller: &Caller,
        entry: &Entry,
        result: &Result<Returned, RunError>,
    ) {
        if self.has_visibility()
            && let Err(RunError::Upstream(error)) = result
            && let Some(denial) = denial(error)
        {
            self.visibility.denied(caller, entry.upstream(), entry.id().as_str(), denial).await;
        }
    }
}

/// Returns what an error says about the method being there for the caller.
fn denial(error: &UpstreamError) -> Option<Denial> {
    match error {
        UpstreamError::Denied(_) | UpstreamError::Gone { .. } => Some(Denial::Certain),
        UpstreamError::Rpc(error) if error.code == METHOD_NOT_FOUND => Some(Denial::Certain),
        // It may be about a scope of the credential, or about the arguments.
        UpstreamError::Forbidden { .. } => Some(Denial::Possible),
        _ => None,
    }
}
