//! The servers that are compared.

use std::fmt;

use clap::ValueEnum;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Candidate {
    /// An axum handler that parses the envelope and writes a fixed reply: the minimum.
    Bare,
    /// The packaged program.
    Callgate,
    /// The packaged program, which sends calls to the service in batches.
    Batch,
    /// The official Rust SDK, behind a token check.
    Rmcp,
    /// nginx as a reverse proxy.
    Nginx,
    /// A reverse proxy that consists of hyper's server and client.
    Hyper,
    /// MCP Toolbox of npm.
    Toolbox,
    /// `FastMCP` of `PyPI`.
    Fastmcp,
    /// The service, which sends the same reply to every request. It is not measured.
    Upstream,
}

impl Candidate {
    /// Returns `true` for other gateways. If such a gateway fails in the warm-up, the measurement continues without it.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Toolbox | Self::Fastmcp)
    }

    /// Returns the name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Callgate => "callgate",
            Self::Batch => "callgate, batch",
            Self::Rmcp => "rmcp",
            Self::Nginx => "nginx",
            Self::Hyper => "hyper",
            Self::Toolbox => "MCP Toolbox",
            Self::Fastmcp => "FastMCP",
            Self::Upstream => "upstream",
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
