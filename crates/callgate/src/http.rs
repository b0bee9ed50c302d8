//! The axum router: MCP over Streamable HTTP, the REST face, plain JSON-RPC, health, and discovery.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use callgate::{Gateway, http::{self, Anonymous, HttpOptions}};
//! # use callgate::mcp::{Mcp, SessionKey, Sessions};
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let gateway = Arc::new(Gateway::new([]));
//! let mcp = Arc::new(Mcp::new(gateway, Sessions::new([SessionKey::generate()?])));
//! let router = http::router(mcp, Arc::new(Anonymous), HttpOptions::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! axum::serve(listener, router).await?;
//! # Ok(())
//! # }
//! ```

mod authenticate;
mod body;
mod guard;
mod health;
mod jsonrpc;
mod mcp;
mod metrics;
mod per_tool;
mod reply;
mod rest;
mod server;
mod sse;
mod well_known;

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any, get, post};
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::gateway::Gateway;
use crate::mcp::Mcp;
use crate::upstream::BoxFuture;

pub use axum::http::request::Parts;

pub use authenticate::{Anonymous, Authenticate, AuthenticateError, bearer_token};
pub use health::{Readiness, RegistryAway, RegistryHealth, WatchRegistry};
pub use server::{ServerLimits, serve, told_to_stop};

/// What the router allows.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option by itself")]
pub struct HttpOptions {
    /// Whether everything but health and discovery needs a credential.
    pub require_auth: bool,
    /// How large a request's body may be.
    pub max_body_bytes: usize,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// Names of this server, beside those of this machine and addresses; `*` is any.
    pub allowed_hosts: Vec<String>,
    /// Pages that may call, beside those of this machine and this server's own: `https://…`, or `*`
    /// for any.
    pub allowed_origins: Vec<String>,
    /// Whether `GET /mcp?rawRequest=…` is answered, for read-only tools.
    pub raw_request: bool,
    /// Whether MCP is also at `/`.
    pub mcp_at_root: bool,
    /// Whether `GET /metrics` shows what is counted, to every caller that may reach the server.
    pub metrics: bool,
    /// How many clients may listen at once, each on a connection of its own.
    pub max_streams: usize,
    /// How many legacy calls may run at once: they go on when their clients go away.
    pub max_legacy_calls: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            require_auth: false,
            max_body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            raw_request: false,
            mcp_at_root: false,
            metrics: false,
            max_streams: 512,
            max_legacy_calls: 1024,
        }
    }
}

/// What every handler has.
#[derive(Debug, Clone)]
struct Shared(Arc<Faces>);

#[derive(Debug)]
struct Faces {
    mcp: Arc<Mcp>,
    gateway: Arc<Gateway>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
    options: HttpOptions,
    streams: Arc<Semaphore>,
    legacy_calls: Arc<Semaphore>,
    /// For the documents that are being made.
    documents: Arc<Semaphore>,
}

impl Shared {
    fn new(
        mcp: Arc<Mcp>,
        authenticate: Arc<dyn Authenticate>,
        readiness: Readiness,
        options: HttpOptions,
    ) -> Self {
        let gateway = Arc::clone(mcp.gateway());
        Self(Arc::new(Faces {
            mcp,
            gateway,
            authenticate,
            readiness,
            streams: Arc::new(Semaphore::new(options.max_streams)),
            legacy_calls: Arc::new(Semaphore::new(options.max_legacy_calls)),
            documents: Arc::new(Semaphore::new(jsonrpc::MAX_DOCUMENTS)),
            options,
        }))
    }
}

impl Deref for Shared {
    type Target = Faces;

    fn deref(&self) -> &Faces {
        &self.0
    }
}

/// The routes of the faces, to be merged into a router of one's own: `/mcp`, `/jsonrpc`, `/mcp/tools/…`
/// and `/.well-known/mcp.json`.
pub fn router(mcp: Arc<Mcp>, authenticate: Arc<dyn Authenticate>, options: HttpOptions) -> Router {
    let shared = Shared::new(mcp, authenticate, Readiness::default(), options);
    faces(&shared).with_state(shared)
}

/// `/healthz` and `/readyz`, to be merged too where the application has none of its own.
pub fn health_router(mcp: Arc<Mcp>, readiness: Readiness) -> Router {
    let shared = Shared::new(mcp, Arc::new(Anonymous), readiness, HttpOptions::default());
    health(&shared).with_state(shared)
}

fn health(shared: &Shared) -> Router<Shared> {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .method_not_allowed_fallback(async || reply::method_not_allowed())
        .route_layer(from_fn_with_state(shared.clone(), guard::layer))
        .route_layer(from_fn(reply::never_stored))
}

/// Every route as one service, for a server of its own, with health and an answer for every other path.
/// Messages of MCP, which nearly all requests are, do not go through the router.
pub fn service(
    mcp: Arc<Mcp>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
    options: HttpOptions,
) -> HttpService {
    let shared = Shared::new(mcp, authenticate, readiness, options);
    let others = Router::new()
        .fallback(async |request: Request| reply::no_such_path(request.uri().path()))
        .layer(from_fn_with_state(shared.clone(), authenticate::layer));
    let operations = Router::new()
        .route("/.well-known/{*rest}", get(async |uri: Uri| reply::no_such_path(uri.path())))
        .method_not_allowed_fallback(async || reply::method_not_allowed())
        .merge(others)
        .layer(from_fn_with_state(shared.clone(), guard::layer))
        .layer(from_fn(reply::never_stored));
    let router = faces(&shared).merge(health(&shared)).merge(operations).with_state(shared.clone());
    HttpService { shared, router }
}

/// MCP, REST, plain JSON-RPC and where they are.
fn faces(shared: &Shared) -> Router<Shared> {
    // Does by itself what the layers do for the others: each of them costs a little on every call.
    let mut mcp = Router::new().route("/mcp", any(mcp::endpoint));
    if shared.options.mcp_at_root {
        mcp = mcp.route("/", any(mcp::endpoint));
    }
    let mut guarded = Router::new();
    if shared.options.metrics {
        guarded = guarded.route("/metrics", get(metrics::metrics));
    }
    let guarded = guarded
        .route("/mcp/tools/list", get(rest::list))
        .route("/mcp/tools/describe", get(rest::describe))
        .route("/mcp/tools/invoke", post(rest::invoke))
        .route("/mcp/tools/{*id}", get(per_tool::get).post(per_tool::post))
        .route("/jsonrpc", post(jsonrpc::post))
        .method_not_allowed_fallback(async || reply::method_not_allowed())
        .route_layer(from_fn_with_state(shared.clone(), authenticate::layer));
    Router::new()
        .route("/.well-known/mcp.json", get(well_known::mcp))
        .method_not_allowed_fallback(async || reply::method_not_allowed())
        .merge(guarded)
        .route_layer(from_fn_with_state(shared.clone(), guard::layer))
        .route_layer(from_fn(reply::never_stored))
        .merge(mcp)
}

/// What [`service`] makes.
#[derive(Debug, Clone)]
pub struct HttpService {
    shared: Shared,
    router: Router,
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request = request.map(Body::new);
        match request.uri().path() {
            "/mcp" => Box::pin(self.mcp(request)),
            "/" if self.shared.options.mcp_at_root => Box::pin(self.mcp(request)),
            _ => Box::pin(self.router.call(request)),
        }
    }
}

impl HttpService {
    fn mcp(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + 'static {
        let shared = self.shared.clone();
        async move { Ok(mcp::endpoint(State(shared), request).await) }
    }
}
