//! A service whose list depends on the caller.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::MAX_AGE;
use crate::access::{Caller, Grants, Mask, User};
use crate::catalog::CatalogBuilder;
use crate::gateway::Gateway;
use crate::model::method::{LOCAL, Method};
use crate::model::tool_name::Prefix;
use crate::model::types::Types;
use crate::upstream::local::{Error, Local};
use crate::upstream::{BoxFuture, Call, CallOutput, Upstream};
use crate::upstream::{CallError, CallFailure};
use crate::upstream::{CallerMethods, Identity, ListError, MethodLister};
use crate::wire::jsonrpc::RpcError;

#[derive(Debug, Default)]
pub(super) struct ListingService {
    state: Mutex<ServiceState>,
    requests: AtomicUsize,
}

#[derive(Debug, Default)]
struct ServiceState {
    /// Ids of the listed methods, by user id; 0 stands for callers without a credential.
    lists: HashMap<i64, Vec<String>>,
    /// The last replies, by user and credential.
    last_replies: HashMap<(i64, String), Vec<String>>,
    credentials: HashMap<i64, Option<String>>,
    accepts_anonymous: bool,
    is_unavailable: bool,
    panics: bool,
    denied: HashSet<String>,
    forbidden: HashSet<String>,
    calls: Vec<String>,
    permits: Option<Arc<Semaphore>>,
}

impl ListingService {
    fn state(&self) -> std::sync::MutexGuard<'_, ServiceState> {
        self.state.lock().unwrap()
    }

    pub(super) fn list(&self, user: i64, ids: &[&str]) {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        self.state().lists.insert(user, ids);
    }

    /// Returns the last reply to a user with the current credential.
    pub(super) fn last_reply(&self, caller: &Caller) -> Vec<String> {
        let identity = self.identity_of(caller);
        identity
            .and_then(|identity| self.state().last_replies.get(&identity).cloned())
            .unwrap_or_default()
    }

    pub(super) fn set_credential(&self, user: i64, credential: Option<&str>) {
        self.state().credentials.insert(user, credential.map(ToOwned::to_owned));
    }

    pub(super) fn accept_anonymous(&self) {
        self.state().accepts_anonymous = true;
    }

    pub(super) fn set_unavailable(&self, is_unavailable: bool) {
        self.state().is_unavailable = is_unavailable;
    }

    pub(super) fn set_panics(&self, panics: bool) {
        self.state().panics = panics;
    }

    pub(super) fn forbid(&self, id: &str) {
        self.state().forbidden.insert(id.to_owned());
    }

    pub(super) fn deny(&self, id: &str) {
        self.state().denied.insert(id.to_owned());
    }

    /// Makes each reply wait for a permit from now on.
    pub(super) fn hold_replies(&self) -> Arc<Semaphore> {
        let permits = Arc::new(Semaphore::new(0));
        self.state().permits = Some(Arc::clone(&permits));
        permits
    }

    pub(super) fn release_replies(&self) {
        self.state().permits = None;
    }

    /// Returns the number of requests.
    pub(super) fn request_count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// Returns the user and the credential at the service; `None` if the caller has no credential and the service does
    /// not accept anonymous callers.
    fn identity_of(&self, caller: &Caller) -> Option<(i64, String)> {
        let state = self.state();
        let user = caller.user.as_ref().map(|user| user.id);
        let credential =
            user.map(|id| state.credentials.get(&id).cloned().unwrap_or(Some("own".into())));
        match (user, credential.flatten()) {
            (Some(user), Some(credential)) => Some((user, credential)),
            _ => state.accepts_anonymous.then(|| (0, String::new())),
        }
    }
}

impl MethodLister for ListingService {
    fn max_age(&self) -> Duration {
        MAX_AGE
    }

    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>> {
        let identity = self.identity_of(caller).map(|(user, credential)| match user {
            0 if credential.is_empty() => Identity::ANONYMOUS,
            user => Identity::user(user, &[&credential]),
        });
        Box::pin(std::future::ready(Ok(identity)))
    }

    fn methods<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<CallerMethods, ListError>> {
        Box::pin(async move {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let permits = self.state().permits.clone();
            if let Some(permits) = permits {
                permits.acquire().await?.forget();
            }
            let Some(identity) = self.identity_of(caller) else {
                return Ok(CallerMethods::Refused("nobody".to_owned()));
            };
            let panics = self.state().panics;
            assert!(!panics, "told to");
            let mut state = self.state();
            if state.is_unavailable {
                return Err("away".into());
            }
            let ids = state.lists.get(&identity.0).cloned().unwrap_or_default();
            state.last_replies.insert(identity, ids.clone());
            Ok(CallerMethods::Listed(ids))
        })
    }
}

impl Upstream for ListingService {
    fn method_lister(&self) -> Option<&dyn MethodLister> {
        Some(self)
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let mut state = self.state();
        state.calls.push(call.method.to_owned());
        let result = if state.denied.contains(call.method) {
            let mut error = RpcError::new(-32600, "Invalid Request");
            error.data = Some(json!("Access Denied: The 'x' permission is required."));
            Err(CallError::denied(call.method, error))
        } else if state.forbidden.contains(call.method) {
            Err(CallError::Forbidden(CallFailure::new("lacks a scope", "HTTP 403"), None))
        } else {
            Ok(Box::<RawValue>::default().into())
        };
        Box::pin(std::future::ready(result))
    }
}

/// Returns a gateway in front of a service, with a local method. Every caller may use `open`; other methods require
/// grants.
pub(super) fn gateway() -> (Arc<ListingService>, Arc<Gateway>) {
    let service = Arc::new(ListingService::default());
    let mut local = Local::default();
    local.method(Method::new("local".parse().unwrap()), |_, _: serde_json::Value| async {
        Ok::<_, Error>(true)
    });
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    let method = |id: &str| Method::new(id.parse().unwrap()).upstream("service");
    let service_methods = [
        method("open"),
        method("read").requires("s", Mask::Read),
        method("read2").requires("s", Mask::Read),
        method("write").requires("s", Mask::Write),
    ];
    let other_method = Method::new("more".parse().unwrap()).upstream("more");
    for method in local.methods().iter().cloned().chain(service_methods).chain([other_method]) {
        builder.add(method, 0, &Types::default(), []);
    }
    let upstreams: [(Arc<str>, Arc<dyn Upstream>); 2] =
        [(LOCAL.into(), Arc::new(local)), ("service".into(), Arc::clone(&service) as _)];
    let gateway = Arc::new(Gateway::new(upstreams));
    // This service lists no methods, so `more` is not in the lists that tests expect.
    let more: Arc<dyn Upstream> = Arc::new(ListingService::default());
    gateway.set_dynamic_upstreams([("more".into(), more)]);
    gateway.set_catalog(Arc::new(builder.finish()));
    (service, gateway)
}

/// Returns a user who may read. User 1 may also write.
pub(super) fn caller(id: i64) -> Caller {
    let user = User { id, name: format!("user{id}"), role: None };
    let mask = if id == 1 { Mask::Write } else { Mask::Read };
    Caller::user(user, Grants::from_iter([("s", mask)]))
}

/// Returns the ids of the methods that a caller sees.
pub(super) async fn visible_ids(gateway: &Gateway, caller: &Caller) -> Vec<String> {
    gateway.as_caller(gateway.prepare(caller.clone()).await).methods()
}

/// Lets other tasks run until they wait.
pub(super) async fn run_pending_tasks() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
