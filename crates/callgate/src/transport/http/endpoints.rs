//! The endpoints, with their paths and HTTP methods.

pub(super) mod mcp;
pub(super) mod rest;
pub(super) mod per_tool;
pub(super) mod jsonrpc;
pub(super) mod well_known;
pub(super) mod health;
pub(super) mod metrics;

use axum::http::Method;

use super::HttpOptions;
use super::error::HttpError;

/// The set of endpoints that a service has.
///
/// Value of [`HttpOptions::endpoints`]. [`Callgate::serve_with_operations`](crate::Callgate::serve_with_operations)
/// sets it for its two listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointSet {
    /// All endpoints.
    All,
    /// All endpoints except `/metrics`. `/readyz` shows no details. [`Self::Operations`] has the metrics and the
    /// details.
    Public,
    /// `/healthz`, `/readyz` and `/metrics`, without credentials.
    Operations,
}

/// The endpoint of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerEndpoint {
    /// `/mcp`, and `/` if `mcp_at_root` is set.
    Mcp,
    /// `/mcp/tools/list`
    List,
    /// `/mcp/tools/describe`
    Describe,
    /// `/mcp/tools/invoke`
    Invoke,
    /// `/mcp/tools/{id}`
    Tool,
    /// `/jsonrpc`
    JsonRpc,
    /// `/metrics`
    Metrics,
    /// `/.well-known/mcp.json`
    WellKnown,
    /// `/register`, at which clients without a credential try to register for OAuth.
    Register,
    /// Any other path below `/.well-known/`. Clients request such paths before they have a credential.
    UnknownWellKnown,
    /// `/healthz`
    Healthz,
    /// `/readyz`
    Readyz,
    /// Any other path.
    NotFound,
}

impl ServerEndpoint {
    pub(super) fn of(path: &str, options: &HttpOptions) -> Self {
        let has_metrics = match options.endpoints {
            EndpointSet::All => options.metrics,
            EndpointSet::Public => false,
            EndpointSet::Operations => true,
        };
        let is_below = |start: &str| path.strip_prefix(start).is_some_and(|rest| !rest.is_empty());
        match path {
            "/healthz" => Self::Healthz,
            "/readyz" => Self::Readyz,
            "/metrics" if has_metrics => Self::Metrics,
            _ if options.endpoints == EndpointSet::Operations => Self::NotFound,
            "/mcp" => Self::Mcp,
            "/" if options.mcp_at_root => Self::Mcp,
            "/mcp/tools/list" => Self::List,
            "/mcp/tools/describe" => Self::Describe,
            "/mcp/tools/invoke" => Self::Invoke,
            "/jsonrpc" => Self::JsonRpc,
            "/.well-known/mcp.json" => Self::WellKnown,
            "/register" => Self::Register,
            _ if is_below("/mcp/tools/") => Self::Tool,
            _ if path.contains("/.well-known/") => Self::UnknownWellKnown,
            _ => Self::NotFound,
        }
    }

    pub(super) fn needs_caller(self) -> bool {
        !matches!(
            self,
            Self::WellKnown
                | Self::UnknownWellKnown
                | Self::Register
                | Self::Healthz
                | Self::Readyz
        )
    }

    pub(super) fn accepts_body(self, method: &Method) -> bool {
        let reads = matches!(self, Self::Mcp | Self::Invoke | Self::Tool | Self::JsonRpc);
        reads && method == Method::POST
    }

    /// Refuses HTTP methods that the endpoint does not support. The MCP endpoint checks the method itself.
    pub(super) fn check_method(self, method: &Method) -> Result<(), HttpError> {
        let allowed = match self {
            Self::Mcp | Self::NotFound => return Ok(()),
            Self::Invoke | Self::JsonRpc | Self::Register => "POST",
            Self::Tool => "GET,HEAD,POST",
            _ => "GET,HEAD",
        };
        if allowed.split(',').any(|name| name == method.as_str()) {
            Ok(())
        } else {
            Err(HttpError::MethodNotAllowed(allowed))
        }
    }

    /// Returns `true` if the endpoint replies with plain JSON-RPC.
    pub(super) fn is_json_rpc(self) -> bool {
        matches!(self, Self::JsonRpc | Self::Tool)
    }
}
