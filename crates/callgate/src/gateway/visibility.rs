//! Restricts the methods that callers see to the methods that services list for these callers.
//!
//! For each upstream with a [`MethodLister`](crate::upstream::MethodLister), the gateway requests the list of methods
//! per caller in the background and caches it ([`MethodListCache`]). A caller sees a method only if both the grants and
//! the list allow it. While the list is unknown, all methods of the upstream are hidden.

mod method_list_cache;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;

use super::Gateway;
use super::snapshot::UpstreamMap;
use crate::access::{Caller, VisibleMethods};
use crate::catalog::Entry;
use crate::upstream::{CallError, Upstream};
use crate::wire::jsonrpc::METHOD_NOT_FOUND;
use method_list_cache::MethodListCache;

/// Maximum time that a request waits for the first list of a service.
pub(crate) const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// What the error of a call shows: whether the method is certainly or only possibly unavailable to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The method is not available to the caller. It is hidden at once, unless the caller is anonymous at the service.
    Certain,
    /// The method may not be available to the caller. The list is requested again.
    Possible,
}

/// The method lists of all services that restrict which methods callers see.
#[derive(Debug, Default)]
pub(crate) struct Visibility {
    /// One cache per service, sorted by the name of the service.
    services: Vec<Arc<MethodListCache>>,
}

impl Visibility {
    /// Creates caches for upstreams with a method lister. The caches of unchanged upstreams are kept.
    pub(crate) fn new(
        upstreams: &UpstreamMap,
        previous: &Self,
        changes: &watch::Sender<u64>,
    ) -> Self {
        let cache = |(name, upstream): (&Arc<str>, &Arc<dyn Upstream>)| {
            let max_age = upstream.method_lister()?.max_age();
            let same = previous.services.iter().find(|service| service.is_for(name, upstream));
            Some(same.cloned().unwrap_or_else(|| {
                Arc::new(MethodListCache::new(name, upstream, max_age, changes.clone()))
            }))
        };
        Self { services: upstreams.iter().filter_map(cache).collect() }
    }

    /// Returns `true` if any service restricts which methods callers see.
    pub(crate) fn is_enabled(&self) -> bool {
        !self.services.is_empty()
    }

    /// Returns the methods that services list for a caller. Waits up to `max_wait` for unknown lists.
    async fn lookup(&self, caller: &Caller, max_wait: Duration) -> Arc<VisibleMethods> {
        match self.services.as_slice() {
            [cache] => cache.lookup(caller, max_wait).await,
            caches => {
                let lists = caches.iter().map(|cache| cache.lookup(caller, max_wait));
                Arc::new(VisibleMethods::merge(&join_all(lists).await))
            }
        }
    }

    /// Returns the methods that a prepared caller may see, or `None` if no service restricts them.
    pub(crate) fn visible(&self, caller: &Caller) -> Option<Arc<VisibleMethods>> {
        if !self.is_enabled() {
            return None;
        }
        let prepared = caller.visible.as_ref();
        let names = self.services.iter().map(|service| &service.name);
        if let Some(prepared) = prepared.filter(|prepared| prepared.services().eq(names.clone())) {
            return Some(Arc::clone(prepared));
        }
        let list = |name| prepared.and_then(|prepared| prepared.of(name)).cloned().flatten();
        Some(Arc::new(VisibleMethods::new(names.map(|name| (Arc::clone(name), list(name))))))
    }

    /// Returns `true` if the upstream lists a method for the caller, or does not restrict what callers see.
    pub(crate) fn is_visible(&self, caller: &Caller, entry: &Entry) -> bool {
        let visible = self.visible(caller);
        visible.is_none_or(|visible| visible.contains(entry.upstream(), entry.remote_name()))
    }

    /// Checks that the upstream lists a method for the caller. Fails with the reason, for the log.
    pub(crate) fn check(&self, caller: &Caller, entry: &Entry) -> Result<(), String> {
        if self.is_visible(caller, entry) {
            return Ok(());
        }
        let (name, upstream) = (caller.name(), entry.upstream());
        let is_listed =
            |visible: Arc<VisibleMethods>| matches!(visible.of(upstream), Some(Some(_)));
        Err(if self.visible(caller).is_some_and(is_listed) {
            format!("denied: the service `{upstream}` does not list the method for `{name}`")
        } else {
            format!("denied: no list of methods from `{upstream}` for `{name}`")
        })
    }

    fn service(&self, name: &str) -> Option<&Arc<MethodListCache>> {
        self.services.iter().find(|service| *service.name == *name)
    }

    /// Handles the error of a call. If the service denied the method to the caller, hides the method from the caller or
    /// requests the list of methods again.
    pub(crate) async fn record_denial(&self, caller: &Caller, entry: &Entry, error: &CallError) {
        if let (Some(service), Some(denial)) = (self.service(entry.upstream()), denial(error)) {
            service.record_denial(caller, entry.remote_name(), denial).await;
        }
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self, name: &str) -> (usize, usize) {
        self.service(name).map(|service| service.sizes()).unwrap_or_default()
    }
}

fn denial(error: &CallError) -> Option<Denial> {
    match error {
        CallError::Denied { .. } | CallError::Gone(..) => Some(Denial::Certain),
        CallError::Rpc(error) if error.code == METHOD_NOT_FOUND => Some(Denial::Certain),
        // The cause may also be a missing scope of the credential, or the arguments.
        CallError::Forbidden(..) => Some(Denial::Possible),
        _ => None,
    }
}

impl Gateway {
    /// Looks up the methods that services list for the caller, for one request. Waits up to two seconds for lists that
    /// are unknown.
    ///
    /// For callers that are not prepared, [`list`](Self::list), [`describe`](Self::describe) and
    /// [`open_rpc`](Self::open_rpc) hide all methods of services that restrict which methods callers see.
    /// [`call`](Self::call) prepares the caller itself. If there are no such services, this function does nothing.
    pub async fn prepare(&self, caller: Caller) -> Caller {
        self.prepare_within(caller, FIRST_LIST_TIMEOUT).await
    }

    /// Like [`Self::prepare`], but does not wait. Used for subscribers, which are notified of changes later.
    pub(crate) async fn prepare_at_once(&self, caller: Caller) -> Caller {
        self.prepare_within(caller, Duration::ZERO).await
    }

    async fn prepare_within(&self, mut caller: Caller, max_wait: Duration) -> Caller {
        let visibility = Arc::clone(&self.snapshot.load().visibility);
        if visibility.is_enabled() {
            caller.visible = Some(visibility.lookup(&caller, max_wait).await);
        }
        caller
    }

    /// Returns `true` if any service restricts which methods callers see.
    pub(crate) fn has_visibility(&self) -> bool {
        self.snapshot.load().visibility.is_enabled()
    }

    /// Like [`Self::prepare`], but borrows the caller if there is nothing to look up.
    pub(crate) async fn prepared<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        if self.has_visibility() {
            Cow::Owned(self.prepare(caller.clone()).await)
        } else {
            Cow::Borrowed(caller)
        }
    }
}
