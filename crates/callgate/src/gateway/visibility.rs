//! What services list for each caller, where a caller sees only what the service lists for them.
//!
//! An [`Upstream`] that has a say in what its callers see gives a [`MethodLister`]. The gateway asks it
//! in the background, once for each caller, keeps the answers in memory ([`Service`]), and takes the
//! intersection with what the caller's grants allow. What is not known is not shown.

mod service;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;

use crate::access::{Caller, VisibleMethods};
use crate::catalog::Entry;
use crate::upstream::CallError;
use crate::upstream::Upstream;
use crate::wire::jsonrpc::METHOD_NOT_FOUND;
use service::Service;

/// How long a request waits for the answer of a service of which nothing is known yet.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// What an answer to a call says about a method that the service had listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// It is not there for the caller: it is taken out at once.
    Certain,
    /// It may not be: the service is asked again.
    Possible,
}

/// The services of a gateway that have a say in what callers see.
#[derive(Debug, Default)]
pub(crate) struct Visibility {
    /// Sorted by name.
    services: Vec<Arc<Service>>,
}

impl Visibility {
    /// Those among upstreams that have a say. What is known stays for those that stay.
    pub(crate) fn new(
        upstreams: &BTreeMap<Arc<str>, Arc<dyn Upstream>>,
        before: &Self,
        changes: &watch::Sender<u64>,
    ) -> Self {
        let of = |(name, upstream): (&Arc<str>, &Arc<dyn Upstream>)| {
            let max_age = upstream.method_lister()?.max_age();
            let same = before.services.iter().find(|service| service.is(name, upstream));
            Some(same.cloned().unwrap_or_else(|| {
                Arc::new(Service::new(name, upstream, max_age, changes.clone()))
            }))
        };
        Self { services: upstreams.iter().filter_map(of).collect() }
    }

    /// Whether there is any.
    pub(crate) fn is_on(&self) -> bool {
        !self.services.is_empty()
    }

    /// What services list for a caller. One of which nothing is known is waited for, this long at most.
    pub(crate) async fn look(&self, caller: &Caller, patience: Duration) -> Arc<VisibleMethods> {
        match self.services.as_slice() {
            [one] => one.visible(caller, patience).await,
            several => {
                let each = several.iter().map(|one| one.visible(caller, patience));
                Arc::new(VisibleMethods::all(&join_all(each).await))
            }
        }
    }

    /// What limits the caller's listing; `None` where there is no service that does.
    pub(crate) fn visible(&self, caller: &Caller) -> Option<Arc<VisibleMethods>> {
        if !self.is_on() {
            return None;
        }
        let seen = caller.visible.as_ref();
        let names = self.services.iter().map(|service| &service.name);
        if let Some(seen) = seen.filter(|seen| seen.names().eq(names.clone())) {
            return Some(Arc::clone(seen));
        }
        let known = |name| seen.and_then(|seen| seen.of(name)).cloned().flatten();
        Some(Arc::new(VisibleMethods::new(names.map(|name| (Arc::clone(name), known(name))))))
    }

    /// Checks that the service that runs a method lists it for the caller. Fails with the reason, for the log.
    pub(crate) fn decide(&self, caller: &Caller, upstream: &str, id: &str) -> Result<(), String> {
        let Some(visible) = self.visible(caller) else { return Ok(()) };
        let name = caller.name();
        match visible.of(upstream) {
            Some(None) => Err(format!(
                "denied: it is not known what the service `{upstream}` lists for `{name}`"
            )),
            Some(Some(methods)) if !methods.contains(id) => {
                Err(format!("denied: the service `{upstream}` does not list it for `{name}`"))
            }
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) fn remembered(&self, name: &str) -> (u64, usize) {
        self.service(name).map(|service| service.remembered()).unwrap_or_default()
    }

    fn service(&self, name: &str) -> Option<&Arc<Service>> {
        self.services.iter().find(|service| *service.name == *name)
    }

    /// Takes a method from a caller whom the service denied it.
    pub(crate) async fn note_denial(&self, caller: &Caller, entry: &Entry, error: &CallError) {
        if let (Some(service), Some(denial)) = (self.service(entry.upstream()), denial(error)) {
            service.denied(caller, entry.id().as_str(), denial).await;
        }
    }
}

/// Returns what an error says about the method being there for the caller.
fn denial(error: &CallError) -> Option<Denial> {
    match error {
        CallError::Denied { .. } | CallError::Gone(..) => Some(Denial::Certain),
        CallError::Rpc(error) if error.code == METHOD_NOT_FOUND => Some(Denial::Certain),
        // It may be about a scope of the credential, or about the arguments.
        CallError::Forbidden(..) => Some(Denial::Possible),
        _ => None,
    }
}
