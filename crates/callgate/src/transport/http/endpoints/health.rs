//! Whether the process lives, and whether it serves what the registry holds now.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::transport::http::{Shared, response};

/// How the last attempt to read the registry went; shared with what attempts it.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<State>);

#[derive(Debug, Default)]
struct State {
    status: ArcSwap<Status>,
    registry: ArcSwap<Option<Arc<dyn WatchRegistry>>>,
}

/// Knows how the registry is doing.
pub trait WatchRegistry: Send + Sync + std::fmt::Debug {
    /// As of now; nothing before it was read for the first time.
    fn health(&self) -> Option<RegistryHealth>;
}

/// How the registry is doing.
#[derive(Debug, Clone)]
pub struct RegistryHealth {
    /// How long ago the last look at it that succeeded began.
    pub contact_age: Duration,
    /// Where the last look failed.
    pub away: Option<RegistryAway>,
    /// How many looks failed.
    pub failures: u64,
    /// How many statements its database was sent.
    pub statements: u64,
    /// How often it was asked for what.
    pub reads: Vec<(&'static str, u64)>,
}

/// A registry that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryAway {
    /// How long tokens that were good are still taken for it.
    pub tokens_honoured_for: Duration,
}

#[derive(Debug, Clone, Default)]
enum Status {
    #[default]
    Starting,
    Ready,
    /// The last good snapshot is served.
    Stale(String),
}

impl Readiness {
    /// What is served is what the registry holds.
    pub fn set_ready(&self) {
        self.0.status.store(Arc::new(Status::Ready));
    }

    /// The registry could not be read; an earlier snapshot is served, if there is one.
    pub fn set_failed(&self, why: impl Into<String>) {
        if !matches!(**self.0.status.load(), Status::Starting) {
            self.0.status.store(Arc::new(Status::Stale(why.into())));
        }
    }

    /// Says who knows how the registry is doing.
    pub fn set_registry(&self, watcher: Arc<dyn WatchRegistry>) {
        self.0.registry.store(Arc::new(Some(watcher)));
    }

    pub(crate) fn registry(&self) -> Option<RegistryHealth> {
        self.0.registry.load().as_ref().as_ref()?.health()
    }
}

/// Alive.
pub(crate) fn healthz() -> Response {
    response::json(StatusCode::OK, &json!({"status": "ok"}))
}

/// 503 until the first snapshot is there. After that 200, also while the registry or an upstream cannot
/// be reached: taking every replica out because one database is away would turn a delay into an outage.
/// It is 503 again when tokens are no longer honoured and nobody is served without one: then another
/// replica is better, if there is one.
pub(crate) fn readyz(shared: &Shared) -> Response {
    let registry = shared.readiness.registry();
    let away = registry.as_ref().and_then(|registry| Some((registry.contact_age, registry.away?)));
    let (status, mut body) = match (&**shared.readiness.0.status.load(), away) {
        (Status::Starting, _) => {
            let body = json!({"status": "starting"});
            return response::json(StatusCode::SERVICE_UNAVAILABLE, &body);
        }
        (_, Some((contact_age, away))) => stale(contact_age, away, shared.options.require_auth),
        (Status::Ready, None) => (StatusCode::OK, json!({"status": "ready"})),
        (Status::Stale(why), None) => (StatusCode::OK, json!({"status": "stale", "reason": why})),
    };
    let (catalog, down) = (shared.gateway.catalog(), shared.gateway.upstreams_down());
    if let Some(members) = body.as_object_mut() {
        members.insert("tools".to_owned(), catalog.len().into());
        members.insert("quarantined".to_owned(), catalog.quarantined().len().into());
        if !down.is_empty() {
            let down = down.iter().map(AsRef::as_ref).collect::<Vec<&str>>();
            members.insert("upstreams_down".to_owned(), down.into());
        }
    }
    response::json(status, &body)
}

fn stale(contact_age: Duration, away: RegistryAway, all_need_tokens: bool) -> (StatusCode, Value) {
    let (age, left) = (contact_age.as_secs(), away.tokens_honoured_for.as_secs());
    let (status, tokens) = match (away.tokens_honoured_for.is_zero(), all_need_tokens) {
        (false, _) => (StatusCode::OK, format!("tokens are honoured for {left} s more")),
        (true, true) => (StatusCode::SERVICE_UNAVAILABLE, "all callers are refused".to_owned()),
        (true, false) => (StatusCode::OK, "callers with a token are refused".to_owned()),
    };
    let reason = format!(
        "the registry was last read {age} s ago, the log says why; what was read then is served; {tokens}"
    );
    let body = json!({
        "status": "stale",
        "reason": reason,
        "registry_contact_age_seconds": age,
        "tokens_honoured_seconds": left,
    });
    (status, body)
}
