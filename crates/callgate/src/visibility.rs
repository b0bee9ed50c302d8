//! What services list for each caller, where a caller sees only what the service lists for them.
//!
//! An [`Upstream`] that has a say in what its callers see gives a [`ListsMethods`]. The gateway asks it
//! in the background, once for each caller, keeps the answers in memory ([`Service`]), and takes the
//! intersection with what the caller's grants allow. What is not known is not shown.

mod limits;
mod method_set;
mod service;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;

use crate::access::Caller;
use crate::catalog::Entry;
use crate::gateway::CallError;
use crate::jsonrpc::METHOD_NOT_FOUND;
use crate::upstream::{BoxFuture, Upstream};
use service::Service;

pub(crate) use limits::Limits;
pub(crate) use method_set::MethodSet;

/// How long a request waits for the answer of a service of which nothing is known yet.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// Why a service did not say what it lists. The log has it, the caller has not.
pub type ListError = Box<dyn std::error::Error + Send + Sync>;

/// Lists the methods of a service as one caller may use them.
pub trait ListsMethods: Send + Sync {
    /// How long an answer counts, from when the question was sent.
    fn max_age(&self) -> Duration;

    /// Who the caller is to the service; `None` where the service lists nothing for them. It is asked
    /// for each request, so it should have its answers in memory.
    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>>;

    /// Asks the service for the methods that the caller may use. An error is that it could not be asked,
    /// or did not answer with a list.
    fn methods<'a>(&'a self, caller: &'a Caller)
    -> BoxFuture<'a, Result<CallerMethods, ListError>>;
}

/// What a service answers that is asked for the methods of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerMethods {
    /// The ids of the methods that the caller may use.
    Listed(Vec<String>),
    /// Nothing, since it refuses the caller: why, for the log and for administrators.
    Refused(String),
}

/// Who a caller is to a service: the user, and a keyed hash of what they are known by there, which tells
/// one credential of theirs from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    user: Option<i64>,
    known_by: Option<u64>,
}

impl Identity {
    /// Somebody of whom the service knows nothing.
    pub const ANYBODY: Self = Self { user: None, known_by: None };

    /// A user who is known by these texts. Only a hash of them is kept, with a key that no other process
    /// has.
    pub fn user(user: i64, known_by: &[&str]) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { user: Some(user), known_by: Some(KEY.hash_one(known_by)) }
    }
}

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
            let max_age = upstream.visibility()?.max_age();
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
    pub(crate) async fn look(&self, caller: &Caller, patience: Duration) -> Arc<Limits> {
        match self.services.as_slice() {
            [one] => one.limits(caller, patience).await,
            several => {
                let each = several.iter().map(|one| one.limits(caller, patience));
                Arc::new(Limits::all(&join_all(each).await))
            }
        }
    }

    /// What limits the caller's listing; `None` where there is no service that does.
    pub(crate) fn limits(&self, caller: &Caller) -> Option<Arc<Limits>> {
        if !self.is_on() {
            return None;
        }
        let seen = caller.visible.as_ref();
        let names = self.services.iter().map(|service| &service.name);
        if let Some(seen) = seen.filter(|seen| seen.names().eq(names.clone())) {
            return Some(Arc::clone(seen));
        }
        let known = |name| seen.and_then(|seen| seen.of(name)).cloned().flatten();
        Some(Arc::new(Limits::new(names.map(|name| (Arc::clone(name), known(name))))))
    }

    /// Checks that the service that runs a method lists it for the caller. Fails with the reason, for the log.
    pub(crate) fn decide(&self, caller: &Caller, upstream: &str, id: &str) -> Result<(), String> {
        let Some(limits) = self.limits(caller) else { return Ok(()) };
        let name = caller.name();
        match limits.of(upstream) {
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
