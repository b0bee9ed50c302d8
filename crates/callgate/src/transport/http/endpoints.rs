//! The endpoints: which path and which HTTP methods each one has.

pub(super) mod mcp;
pub(super) mod rest;
pub(super) mod per_tool;
pub(super) mod jsonrpc;
pub(super) mod well_known;
pub(super) mod health;
pub(super) mod metrics;

use axum::http::Method;

use super::HttpOptions;
use super::error::Refusal;

/// What answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// MCP, at `/mcp` and, if that is wanted, at `/`.
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
    /// Another path below `/.well-known/`, which clients try before they have a credential.
    NoWellKnown,
    /// `/healthz`
    Healthz,
    /// `/readyz`
    Readyz,
    /// Every other path.
    Nothing,
}

impl Endpoint {
    pub(super) fn of(path: &str, options: &HttpOptions) -> Self {
        let is_below = |start: &str| path.strip_prefix(start).is_some_and(|rest| !rest.is_empty());
        match path {
            "/mcp" => Self::Mcp,
            "/" if options.mcp_at_root => Self::Mcp,
            "/mcp/tools/list" => Self::List,
            "/mcp/tools/describe" => Self::Describe,
            "/mcp/tools/invoke" => Self::Invoke,
            "/jsonrpc" => Self::JsonRpc,
            "/metrics" if options.metrics => Self::Metrics,
            "/.well-known/mcp.json" => Self::WellKnown,
            "/healthz" => Self::Healthz,
            "/readyz" => Self::Readyz,
            _ if is_below("/mcp/tools/") => Self::Tool,
            _ if is_below("/.well-known/") => Self::NoWellKnown,
            _ => Self::Nothing,
        }
    }

    pub(super) fn needs_caller(self) -> bool {
        !matches!(self, Self::WellKnown | Self::NoWellKnown | Self::Healthz | Self::Readyz)
    }

    pub(super) fn takes_body(self, method: &Method) -> bool {
        let reads = matches!(self, Self::Mcp | Self::Invoke | Self::Tool | Self::JsonRpc);
        reads && method == Method::POST
    }

    /// Refuses methods that it does not have. MCP has its own words for that.
    pub(super) fn check_method(self, method: &Method) -> Result<(), Refusal> {
        let allowed = match self {
            Self::Mcp | Self::Nothing => return Ok(()),
            Self::Invoke | Self::JsonRpc => "POST",
            Self::Tool => "GET,HEAD,POST",
            _ => "GET,HEAD",
        };
        if allowed.split(',').any(|name| name == method.as_str()) {
            Ok(())
        } else {
            Err(Refusal::MethodNotAllowed(allowed))
        }
    }

    /// Whether its replies are JSON-RPC, beside those of MCP.
    pub(super) fn speaks_json_rpc(self) -> bool {
        matches!(self, Self::JsonRpc | Self::Tool)
    }
}
