//! What the services behind methods list for a caller.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::Gateway;
use crate::access::Caller;
use crate::gateway::visibility::{FIRST_ANSWER, Visibility};

impl Gateway {
    /// The caller with what services list for them just now, for one request. A service of which nothing
    /// is known is asked, and waited for two seconds at most.
    ///
    /// [`list`](Self::list), [`describe`](Self::describe) and [`open_rpc`](Self::open_rpc) show an
    /// unprepared caller no methods of services that have a say in it; [`call`](Self::call) prepares by
    /// itself. Where there is no such service, this does nothing.
    pub async fn prepare(&self, mut caller: Caller) -> Caller {
        self.see(&mut caller, FIRST_ANSWER).await;
        caller
    }

    /// The same without waiting, for those who are told when it changes.
    pub(crate) async fn prepare_at_once(&self, mut caller: Caller) -> Caller {
        self.see(&mut caller, Duration::ZERO).await;
        caller
    }

    async fn see(&self, caller: &mut Caller, patience: Duration) {
        let visibility = self.visibility();
        if visibility.is_on() {
            caller.visible = Some(visibility.look(caller, patience).await);
        }
    }

    /// Whether a service has a say in what callers see.
    pub(crate) fn has_visibility(&self) -> bool {
        self.snapshot.load().visibility.is_on()
    }

    pub(crate) fn visibility(&self) -> Arc<Visibility> {
        Arc::clone(&self.snapshot.load().visibility)
    }

    /// A prepared caller; the same one where there is nothing to prepare.
    pub(crate) async fn prepared<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        if self.has_visibility() {
            Cow::Owned(self.prepare(caller.clone()).await)
        } else {
            Cow::Borrowed(caller)
        }
    }
}
