//! The HTTP server: MCP over Streamable HTTP, REST, JSON-RPC, health, metrics and discovery.
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
//! // Passes on the address of each client, because limits apply to anonymous clients by address.
//! let router = router.into_make_service_with_connect_info::<std::net::SocketAddr>();
//! axum::serve(listener, router).await?;
//! # Ok(())
//! # }
//! ```

mod authenticate;
mod client_address;
mod options;
mod origin;
mod body;
mod response;
mod error;
mod sse;
mod readiness;
mod endpoints;
mod connections;
mod server;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::access::{Caller, NoShare, Principal, Share, Shares};
use crate::gateway::Gateway;
use crate::mcp::{Mcp, request_id};
use crate::upstream::BoxFuture;
use body::RequestBody;
use client_address::client_address;
use endpoints::{ServerEndpoint, health, jsonrpc, mcp, metrics, per_tool, rest, well_known};
use error::HttpError;

pub use axum::http::request::Parts;
pub use client_address::ForwardedHeader;
pub use ipnet::IpNet;

pub use authenticate::{Anonymous, Authenticate, AuthenticateError, bearer_token};
pub use endpoints::EndpointSet;
pub use endpoints::metrics::MetricsWriter;
pub use options::HttpOptions;
pub use readiness::{Degraded, Readiness, ReadinessCheck};
pub use server::{ServerOptions, serve, shutdown_signal};

/// Parsers of requests, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(crate) mod parsers {
    pub(crate) use super::client_address::client_address;
    pub(crate) use super::endpoints::mcp::AcceptedTypes;
    pub(crate) use super::endpoints::rest::{invoke_request, query_parameter};
}

const TOO_MANY_CONNECTIONS: &str = "this server has too many connections; try again later";

/// State of all endpoints.
#[derive(Debug)]
struct AppState {
    mcp: Arc<Mcp>,
    gateway: Arc<Gateway>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
    options: HttpOptions,
    requests: Arc<Shares>,
    streams: Arc<Shares>,
    legacy_calls: Arc<Shares>,
    /// Limits the number of bodies of refused requests that are read or discarded at the same time.
    refused_bodies: Arc<Shares>,
    /// Limits the number of requests whose credentials are being looked up.
    lookups: Arc<Shares>,
    /// Limits the number of OpenRPC documents that are built at the same time.
    documents: Arc<Shares>,
}

type SharedState = Arc<AppState>;

impl AppState {
    fn new(
        mcp: Arc<Mcp>,
        authenticate: Arc<dyn Authenticate>,
        readiness: Readiness,
        options: HttpOptions,
    ) -> SharedState {
        Arc::new(Self {
            gateway: Arc::clone(mcp.gateway()),
            mcp,
            authenticate,
            readiness,
            requests: Shares::new(options.max_requests),
            streams: Shares::new(options.max_streams),
            legacy_calls: Shares::new(options.max_legacy_calls),
            refused_bodies: Shares::of_addresses(body::MAX_REFUSED_BODIES),
            lookups: Shares::of_addresses(options.max_requests),
            documents: Shares::new(jsonrpc::MAX_DOCUMENTS),
            options,
        })
    }
}

/// Returns a router for MCP, JSON-RPC, REST and discovery, to be merged into the router of an application.
///
/// The routes are `/mcp`, `/jsonrpc`, `/mcp/tools/…` and `/.well-known/mcp.json`. `options` can add `/` and
/// `/metrics`.
///
/// [`Callgate::router`](crate::Callgate::router) calls this function for applications that build a
/// [`Callgate`](crate::Callgate). The module [`http`](self) has an example.
pub fn router(mcp: Arc<Mcp>, authenticate: Arc<dyn Authenticate>, options: HttpOptions) -> Router {
    let state = AppState::new(mcp, authenticate, Readiness::default(), options);
    let options = &state.options;
    let optional = [(options.mcp_at_root, "/"), (options.metrics, "/metrics")];
    let optional = optional.into_iter().filter_map(|(is_on, path)| is_on.then_some(path));
    let paths = ["/mcp", "/mcp/tools/{*id}", "/jsonrpc", "/.well-known/mcp.json"];
    mount(paths.into_iter().chain(optional)).with_state(state)
}

/// Returns the routes `/healthz` and `/readyz`, for applications that do not have their own.
///
/// [`Callgate::health_router`](crate::Callgate::health_router) calls this function for applications that build a
/// [`Callgate`](crate::Callgate). Other applications merge these routes into the router that [`router`] returns.
pub fn health_router(
    mcp: Arc<Mcp>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
) -> Router {
    let state = AppState::new(mcp, authenticate, readiness, HttpOptions::default());
    mount(["/healthz", "/readyz"]).with_state(state)
}

fn mount(paths: impl IntoIterator<Item = &'static str>) -> Router<SharedState> {
    let handler = async |State(state): State<SharedState>, request: Request| {
        respond(state, request, None, ConnectionLimit::Within).await
    };
    paths.into_iter().fold(Router::new(), |router, path| router.route(path, any(handler)))
}

/// Returns all endpoints as one service. The service answers unknown paths with 404.
///
/// [`serve`] has an example.
pub fn service(
    mcp: Arc<Mcp>,
    authenticate: Arc<dyn Authenticate>,
    readiness: Readiness,
    options: HttpOptions,
) -> HttpService {
    HttpService { state: AppState::new(mcp, authenticate, readiness, options) }
}

/// Whether the connection of a request is within the limit of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionLimit {
    Within,
    /// Only endpoints that need no caller are served on the connection.
    Exceeded,
}

/// Responds to a request. Checks origin, credential and body once for all endpoints.
async fn respond(
    state: SharedState,
    request: Request,
    peer: Option<IpAddr>,
    connection: ConnectionLimit,
) -> Response {
    let (parts, body) = request.into_parts();
    let address = client_address(&parts, peer, &state.options);
    let mut body = RequestBody::new(body, &parts.headers);
    let endpoint = ServerEndpoint::of(parts.uri.path(), &state.options);
    let checked = match endpoint {
        // Probes use arbitrary host names, and the replies contain no secrets.
        ServerEndpoint::Healthz | ServerEndpoint::Readyz => Ok(None),
        _ => origin::check(&parts.headers, &parts.uri, &state.options),
    };
    let (origin, outcome) = match checked {
        Ok(origin) => match origin::preflight(&parts.method, &parts.headers) {
            Some(preflight) if origin.is_some() => (origin, Ok(preflight)),
            _ => (
                origin,
                call_endpoint(&state, endpoint, &parts, &mut body, address, connection).await,
            ),
        },
        Err(refusal) => (None, Err(refusal)),
    };
    let mut response = match outcome {
        Ok(response) => response,
        Err(refusal) => {
            let needs_id = refusal.needs_id(endpoint) && endpoint.accepts_body(&parts.method);
            let id = if needs_id {
                Box::pin(refused_id(&state, &mut body, address)).await
            } else {
                None
            };
            refusal.into_response(endpoint, id.as_deref())
        }
    };
    if let Some(origin) = origin {
        origin::allow(&mut response, origin);
    }
    response::add_headers(&mut response);
    if body.is_unread()
        && let Some(share) = share_of_refused(&state, address)
    {
        body.discard(share);
    }
    if parts.method == Method::HEAD {
        // hyper removes the body of a reply to HEAD only over HTTP/1.
        *response.body_mut() = Body::empty();
    }
    response
}

/// Returns the id of a request that is refused before its body was read, if the body is small and arrives soon.
async fn refused_id(
    state: &AppState,
    body: &mut RequestBody,
    address: Option<IpAddr>,
) -> Option<Box<RawValue>> {
    let _share = share_of_refused(state, address)?;
    request_id(&body.read_refused().await?)
}

/// Takes a share of the limit on bodies of refused requests, for the address of the client.
fn share_of_refused(state: &AppState, address: Option<IpAddr>) -> Option<Share> {
    let principal = address.map_or(Principal::Unknown, Principal::address);
    state.refused_bodies.try_acquire(principal, 1).ok()
}

/// Calls the function of the endpoint, if the caller may send the request and the limits allow it.
async fn call_endpoint(
    state: &SharedState,
    endpoint: ServerEndpoint,
    parts: &Parts,
    body: &mut RequestBody,
    address: Option<IpAddr>,
    connection: ConnectionLimit,
) -> Result<Response, HttpError> {
    let is_public = state.options.endpoints != EndpointSet::Operations;
    let needs_caller = endpoint.needs_caller() && is_public;
    if connection == ConnectionLimit::Exceeded && needs_caller {
        return Err(HttpError::Unavailable(TOO_MANY_CONNECTIONS));
    }
    let caller = if is_public {
        counted_caller(state, endpoint, parts, address).await?
    } else {
        Caller::anonymous()
    };
    endpoint.check_method(&parts.method)?;
    let units = usize::from(needs_caller);
    let share = state.requests.try_acquire(caller.principal(), units).map_err(too_many_requests)?;
    let body = if endpoint.accepts_body(&parts.method) {
        body.read(&parts.headers, &state.options).await
    } else {
        Ok(Bytes::new())
    };
    let uri = &parts.uri;
    // The futures of endpoints other than MCP are boxed, because hyper moves the future of each request several times.
    let response = match endpoint {
        ServerEndpoint::Mcp => mcp::handle(state, &caller, parts, body).await?,
        ServerEndpoint::List => Box::pin(rest::list(state, caller, uri)).await?,
        ServerEndpoint::Describe => Box::pin(rest::describe(state, caller, uri)).await?,
        ServerEndpoint::Invoke => Box::pin(rest::invoke(state, &caller, &body?)).await?,
        ServerEndpoint::Tool => Box::pin(per_tool::handle(state, &caller, parts, &body?)).await?,
        ServerEndpoint::JsonRpc => Box::pin(jsonrpc::handle(state, &caller, &body?)).await,
        ServerEndpoint::Metrics => metrics::metrics(state),
        ServerEndpoint::Register => return Ok(well_known::registration_error()),
        ServerEndpoint::WellKnown => well_known::mcp(state),
        ServerEndpoint::Healthz => health::healthz(),
        ServerEndpoint::Readyz => Box::pin(health::readyz(state, parts, address)).await,
        ServerEndpoint::UnknownWellKnown | ServerEndpoint::NotFound => {
            return Err(HttpError::no_such_path(uri.path()));
        }
    };
    Ok(body::keep_while_streaming(response, share))
}

fn too_many_requests(reason: NoShare) -> HttpError {
    HttpError::Unavailable(match reason {
        NoShare::PrincipalLimit => "you have too many requests in progress; try again later",
        NoShare::UsedByOthers => "this server has too many requests in progress; try again later",
    })
}

/// Returns the caller of a request that is within the rate limits. Requests without a valid credential count against
/// the limit of the client's address.
async fn counted_caller(
    state: &SharedState,
    endpoint: ServerEndpoint,
    parts: &Parts,
    address: Option<IpAddr>,
) -> Result<Caller, HttpError> {
    if matches!(endpoint, ServerEndpoint::Healthz | ServerEndpoint::Readyz) {
        return Ok(Caller::anonymous());
    }
    let with_address = |caller: Caller| match address {
        Some(address) => caller.with_address(address),
        None => caller,
    };
    let authenticated = if endpoint.needs_caller() {
        authenticate::caller_at(state, parts, address).await
    } else {
        Ok(Caller::anonymous())
    };
    match authenticated.map(with_address) {
        // The MCP layer counts its messages itself, because it replies to a refused tool call with a result instead of
        // an error.
        Ok(caller) if endpoint == ServerEndpoint::Mcp => Ok(caller),
        Ok(caller) => {
            state.gateway.count_request(&caller)?;
            Ok(caller)
        }
        Err(refusal) => {
            state.gateway.count_unauthenticated(&with_address(Caller::anonymous()))?;
            Err(refusal)
        }
    }
}

/// All endpoints as one service.
///
/// Returned by [`service`]. [`serve`] has an example.
#[derive(Debug, Clone)]
pub struct HttpService {
    state: SharedState,
}

impl HttpService {
    /// Responds to a request. `peer` is the address at the other end of the connection.
    pub fn respond<B>(
        &self,
        request: Request<B>,
        peer: Option<IpAddr>,
    ) -> impl Future<Output = Response> + Send + use<B>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let state = Arc::clone(&self.state);
        respond(state, request.map(Body::new), peer, ConnectionLimit::Within)
    }
}

/// Used by servers other than [`serve`]. Allocates a box for each request.
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
        let response = self.respond(request, None);
        Box::pin(async { Ok(response.await) })
    }
}
