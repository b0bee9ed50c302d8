//! The axum router: the REST face, health, and discovery.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use callgate::{Gateway, http::{self, Anonymous, HttpOptions, Readiness}};
//! # async fn run() -> std::io::Result<()> {
//! let gateway = Arc::new(Gateway::new([]));
//! let router = http::router(gateway, Arc::new(Anonymous), Readiness::default(), HttpOptions::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! axum::serve(listener, router).await
//! # }
//! ```

mod authenticate;
mod body;
mod health;
mod per_tool;
mod reply;
mod rest;
mod well_known;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::gateway::Gateway;

pub use axum::http::request::Parts;

pub use authenticate::{Anonymous, Authenticate, AuthenticateError, bearer_token};
pub use health::Readiness;

/// What the router allows.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Whether everything but health and discovery needs a credential.
    pub require_auth: bool,
    /// How large a request's body may be.
    pub max_body_bytes: usize,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            require_auth: false,
            max_body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Clone)]
struct Shared {
    gateway: Arc<Gateway>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
    options: HttpOptions,
}

/// Every route.
pub fn router(
    gateway: Arc<Gateway>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
    options: HttpOptions,
) -> Router {
    let shared = Shared { gateway, authenticate, readiness, options };
    let guarded = Router::new()
        .route("/mcp/tools/list", get(rest::list))
        .route("/mcp/tools/describe", get(rest::describe))
        .route("/mcp/tools/invoke", post(rest::invoke))
        .route("/mcp/tools/{*id}", get(per_tool::get).post(per_tool::post))
        .fallback(async |request: Request| reply::no_such_path(request.uri().path()))
        .method_not_allowed_fallback(async || reply::method_not_allowed())
        .layer(from_fn_with_state(shared.clone(), authenticate::layer));
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/.well-known/mcp.json", get(well_known::mcp))
        .route("/.well-known/{*rest}", get(async |uri: Uri| reply::no_such_path(uri.path())))
        .method_not_allowed_fallback(async || reply::method_not_allowed())
        .merge(guarded)
        .layer(from_fn(reply::never_stored))
        .with_state(shared)
}
