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
pub(super) struct Site {
    said: Mutex<Said>,
    asked: AtomicUsize,
}

#[derive(Debug, Default)]
struct Said {
    /// Lists by user id; 0 stands for callers without a credential.
    lists: HashMap<i64, Vec<String>>,
    /// The last replies, by user and credential.
    answered: HashMap<(i64, String), Vec<String>>,
    credentials: HashMap<i64, Option<String>>,
    takes_anonymous: bool,
    is_away: bool,
    panics: bool,
    denied: HashSet<String>,
    forbidden: HashSet<String>,
    calls: Vec<String>,
    gate: Option<Arc<Semaphore>>,
}

impl Site {
    fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().unwrap()
    }

    pub(super) fn list(&self, user: i64, ids: &[&str]) {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        self.said().lists.insert(user, ids);
    }

    /// Returns the last reply to a user with the current credential.
    pub(super) fn answered(&self, caller: &Caller) -> Vec<String> {
        let known = self.known(caller);
        known.and_then(|known| self.said().answered.get(&known).cloned()).unwrap_or_default()
    }

    pub(super) fn set_credential(&self, user: i64, credential: Option<&str>) {
        self.said().credentials.insert(user, credential.map(ToOwned::to_owned));
    }

    pub(super) fn take_anonymous(&self) {
        self.said().takes_anonymous = true;
    }

    pub(super) fn set_away(&self, is_away: bool) {
        self.said().is_away = is_away;
    }

    pub(super) fn set_panics(&self, panics: bool) {
        self.said().panics = panics;
    }

    pub(super) fn forbid(&self, id: &str) {
        self.said().forbidden.insert(id.to_owned());
    }

    pub(super) fn deny(&self, id: &str) {
        self.said().denied.insert(id.to_owned());
    }

    /// Makes each reply wait for a permit from now on.
    pub(super) fn hold(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.said().gate = Some(Arc::clone(&gate));
        gate
    }

    pub(super) fn release(&self) {
        self.said().gate = None;
    }

    /// Returns the number of requests.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.said().calls.clone()
    }

    /// Returns the user and the credential at the service; `None` if the caller has no credential and the service does
    /// not accept anonymous callers.
    fn known(&self, caller: &Caller) -> Option<(i64, String)> {
        let said = self.said();
        let user = caller.user.as_ref().map(|user| user.id);
        let own = user.map(|id| said.credentials.get(&id).cloned().unwrap_or(Some("own".into())));
        match (user, own.flatten()) {
            (Some(user), Some(own)) => Some((user, own)),
            _ => said.takes_anonymous.then(|| (0, String::new())),
        }
    }
}

impl MethodLister for Site {
    fn max_age(&self) -> Duration {
        MAX_AGE
    }

    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>> {
        let identity = self.known(caller).map(|(user, own)| match user {
            0 if own.is_empty() => Identity::ANONYMOUS,
            user => Identity::user(user, &[&own]),
        });
        Box::pin(std::future::ready(Ok(identity)))
    }

    fn methods<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<CallerMethods, ListError>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let gate = self.said().gate.clone();
            if let Some(gate) = gate {
                gate.acquire().await?.forget();
            }
            let Some(known) = self.known(caller) else {
                return Ok(CallerMethods::Refused("nobody".to_owned()));
            };
            let panics = self.said().panics;
            assert!(!panics, "told to");
            let mut said = self.said();
            if said.is_away {
                return Err("away".into());
            }
            let ids = said.lists.get(&known.0).cloned().unwrap_or_default();
            said.answered.insert(known, ids.clone());
            Ok(CallerMethods::Listed(ids))
        })
    }
}

impl Upstream for Site {
    fn method_lister(&self) -> Option<&dyn MethodLister> {
        Some(self)
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let mut said = self.said();
        said.calls.push(call.method.to_owned());
        let result = if said.denied.contains(call.method) {
            let mut error = RpcError::new(-32600, "Invalid Request");
            error.data = Some(json!("Access Denied: The 'x' permission is required."));
            Err(CallError::denied(call.method, error))
        } else if said.forbidden.contains(call.method) {
            Err(CallError::Forbidden(CallFailure::new("lacks a scope", "HTTP 403"), None))
        } else {
            Ok(Box::<RawValue>::default().into())
        };
        Box::pin(std::future::ready(result))
    }
}

/// Returns a gateway in front of a site, with a local method. Every caller may use `open`; other methods require
/// grants.
pub(super) fn gateway() -> (Arc<Site>, Arc<Gateway>) {
    let site = Arc::new(Site::default());
    let mut local = Local::default();
    local.method(Method::new("local".parse().unwrap()), |_, _: serde_json::Value| async {
        Ok::<_, Error>(true)
    });
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    let method = |id: &str| Method::new(id.parse().unwrap()).upstream("site");
    let of_site = [
        method("open"),
        method("read").requires("s", Mask::Read),
        method("read2").requires("s", Mask::Read),
        method("write").requires("s", Mask::Write),
    ];
    let elsewhere = Method::new("more".parse().unwrap()).upstream("more");
    for method in local.methods().iter().cloned().chain(of_site).chain([elsewhere]) {
        builder.add(method, 0, &Types::default(), []);
    }
    let upstreams: [(Arc<str>, Arc<dyn Upstream>); 2] =
        [(LOCAL.into(), Arc::new(local)), ("site".into(), Arc::clone(&site) as _)];
    let gateway = Arc::new(Gateway::new(upstreams));
    // This service lists no methods, so `more` is not in the lists that tests expect.
    let more: Arc<dyn Upstream> = Arc::new(Site::default());
    gateway.set_dynamic_upstreams([("more".into(), more)]);
    gateway.set_catalog(Arc::new(builder.finish()));
    (site, gateway)
}

/// Returns a user who may read. User 1 may also write.
pub(super) fn caller(id: i64) -> Caller {
    let user = User { id, name: format!("user{id}"), role: None };
    let mask = if id == 1 { Mask::Write } else { Mask::Read };
    Caller::user(user, Grants::from_iter([("s", mask)]))
}

/// Returns the ids of the methods that a caller sees.
pub(super) async fn listed(gateway: &Gateway, caller: &Caller) -> Vec<String> {
    gateway.as_caller(gateway.prepare(caller.clone()).await).methods()
}

/// Lets other tasks run until they wait.
pub(super) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
