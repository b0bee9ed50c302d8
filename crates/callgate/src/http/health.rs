//! Whether the process lives, and whether it serves what the registry holds now.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::{Shared, reply};

/// How the last attempt to read the registry went; shared with what attempts it.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<ArcSwap<Status>>);

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
        self.0.store(Arc::new(Status::Ready));
    }

    /// The registry could not be read; an earlier snapshot is served, if there is one.
    pub fn set_failed(&self, why: impl Into<String>) {
        if !matches!(**self.0.load(), Status::Starting) {
            self.0.store(Arc::new(Status::Stale(why.into())));
        }
    }
}

/// Alive.
pub(super) async fn healthz() -> Response {
    reply::json(StatusCode::OK, &json!({"status": "ok"}))
}

/// 503 until the first snapshot is there. After that 200, also while the registry or an upstream cannot
/// be reached: taking every replica out because one database is away would turn a delay into an outage.
pub(super) async fn readyz(State(shared): State<Shared>) -> Response {
    let mut body = match &**shared.readiness.0.load() {
        Status::Starting => {
            let body = json!({"status": "starting"});
            return reply::json(StatusCode::SERVICE_UNAVAILABLE, &body);
        }
        Status::Ready => json!({"status": "ready"}),
        Status::Stale(why) => json!({"status": "stale", "reason": why}),
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
    reply::json(StatusCode::OK, &body)
}
