//! MCP over Streamable HTTP, REST, plain JSON-RPC, health, and discovery: `respond` answers every request.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use callgate::gateway::Gateway;
//! # use callgate::http;
//! # use callgate::http::{Anonymous, HttpOptions};
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
mod origin;
mod body;
mod response;
mod error;
mod sse;
mod endpoints;
mod server;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::access::Caller;
use crate::gateway::Gateway;
use crate::mcp::Mcp;
use crate::upstream::BoxFuture;
use endpoints::{Endpoint, health, jsonrpc, mcp, metrics, per_tool, rest, well_known};
use error::Refusal;

pub use axum::http::request::Parts;

pub use authenticate::{Anonymous, Authenticate, AuthenticateError, bearer_token};
pub use endpoints::health::{Readiness, RegistryAway, RegistryHealth, WatchRegistry};
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

/// What every endpoint has.
#[derive(Debug)]
struct App {
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

type Shared = Arc<App>;

impl App {
    fn new(
        mcp: Arc<Mcp>,
        authenticate: Arc<dyn Authenticate>,
        readiness: Readiness,
        options: HttpOptions,
    ) -> Shared {
        Arc::new(Self {
            gateway: Arc::clone(mcp.gateway()),
            mcp,
            authenticate,
            readiness,
            streams: Arc::new(Semaphore::new(options.max_streams)),
            legacy_calls: Arc::new(Semaphore::new(options.max_legacy_calls)),
            documents: Arc::new(Semaphore::new(jsonrpc::MAX_DOCUMENTS)),
            options,
        })
    }
}

/// The routes of MCP, JSON-RPC, REST and discovery, to be merged into a router of one's own: `/mcp`,
/// `/jsonrpc`, `/mcp/tools/…` and `/.well-known/mcp.json`.
pub fn router(mcp: Arc<Mcp>, authenticate: Arc<dyn Authenticate>, options: HttpOptions) -> Router {
    let shared = App::new(mcp, authenticate, Readiness::default(), options);
    let options = &shared.options;
    let optional = [(options.mcp_at_root, "/"), (options.metrics, "/metrics")];
    let optional = optional.into_iter().filter_map(|(is_on, path)| is_on.then_some(path));
    let paths = ["/mcp", "/mcp/tools/{*id}", "/jsonrpc", "/.well-known/mcp.json"];
    mount(paths.into_iter().chain(optional)).with_state(shared)
}

/// `/healthz` and `/readyz`, to be merged too where the application has none of its own.
pub fn health_router(mcp: Arc<Mcp>, readiness: Readiness) -> Router {
    let shared = App::new(mcp, Arc::new(Anonymous), readiness, HttpOptions::default());
    mount(["/healthz", "/readyz"]).with_state(shared)
}

fn mount(paths: impl IntoIterator<Item = &'static str>) -> Router<Shared> {
    let handler =
        async |State(shared): State<Shared>, request: Request| respond(shared, request).await;
    paths.into_iter().fold(Router::new(), |router, path| router.route(path, any(handler)))
}

/// Every endpoint as one service, for a server of its own, with an answer for every other path.
pub fn service(
    mcp: Arc<Mcp>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
    options: HttpOptions,
) -> HttpService {
    HttpService { shared: App::new(mcp, authenticate, readiness, options) }
}

/// Answers a request: checks where it comes from, who sends it and how large it is, once for every
/// endpoint.
async fn respond(shared: Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let endpoint = Endpoint::of(parts.uri.path(), &shared.options);
    let checked = match endpoint {
        // Probes come by all kinds of names, and learn nothing.
        Endpoint::Healthz | Endpoint::Readyz => Ok(None),
        _ => origin::check(&parts.headers, &parts.uri, &shared.options),
    };
    let (origin, answered) = match checked {
        Ok(origin) => match origin::preflight(&parts.method, &parts.headers) {
            Some(preflight) if origin.is_some() => (origin, Ok(preflight)),
            _ => (origin, answer(&shared, endpoint, &parts, body).await),
        },
        Err(refusal) => (None, Err(refusal)),
    };
    let mut reply = answered.unwrap_or_else(|refusal| refusal.into_response(endpoint));
    if let Some(origin) = origin {
        origin::allow(&mut reply, origin);
    }
    response::add_headers(&mut reply);
    if parts.method == Method::HEAD {
        // hyper does so over HTTP/1 only.
        *reply.body_mut() = Body::empty();
    }
    reply
}

async fn answer(
    shared: &Shared,
    endpoint: Endpoint,
    parts: &Parts,
    body: Body,
) -> Result<Response, Refusal> {
    let caller = if endpoint.needs_caller() {
        authenticate::caller(shared, parts).await?
    } else {
        Caller::anonymous()
    };
    endpoint.check_method(&parts.method)?;
    let body = if endpoint.takes_body(&parts.method) {
        body::read(&parts.headers, body, &shared.options).await?
    } else {
        Bytes::new()
    };
    let uri = &parts.uri;
    match endpoint {
        Endpoint::Mcp => mcp::answer(shared, &caller, parts, body).await,
        Endpoint::List => rest::list(shared, caller, uri).await,
        Endpoint::Describe => rest::describe(shared, caller, uri).await,
        Endpoint::Invoke => rest::invoke(shared, &caller, &body).await,
        Endpoint::Tool => per_tool::answer(shared, &caller, parts, &body).await,
        Endpoint::JsonRpc => Ok(jsonrpc::answer(shared, &caller, &body).await),
        Endpoint::Metrics => Ok(metrics::metrics(shared)),
        Endpoint::WellKnown => Ok(well_known::mcp(shared)),
        Endpoint::Healthz => Ok(health::healthz()),
        Endpoint::Readyz => Ok(health::readyz(shared)),
        Endpoint::NoWellKnown | Endpoint::Nothing => Err(Refusal::no_such_path(uri.path())),
    }
}

/// What [`service`] makes.
#[derive(Debug, Clone)]
pub struct HttpService {
    shared: Shared,
}

impl HttpService {
    /// Answers a request.
    pub fn respond<B>(&self, request: Request<B>) -> impl Future<Output = Response> + Send + use<B>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        respond(Arc::clone(&self.shared), request.map(Body::new))
    }
}

/// For servers other than [`serve`], at the cost of a box for each request.
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
        let response = self.respond(request);
        Box::pin(async { Ok(response.await) })
    }
}
