//! The servers that are measured beside each other.

use std::fmt;

use clap::ValueEnum;

/// One of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Candidate {
    /// An axum handler that reads the envelope and writes a fixed reply: the floor.
    Bare,
    /// This project.
    Callgate,
    /// The official Rust SDK, behind a token check.
    Rmcp,
    /// nginx as a reverse proxy.
    Nginx,
    /// A reverse proxy of hyper's server and client, and nothing else.
    Proxy,
    /// This project, in front of a service.
    Forward,
    /// The same, with calls that arrive together in one request.
    Batch,
    /// The service: it answers the same to everything. It is not measured itself.
    Upstream,
}

impl Candidate {
    /// The name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Callgate | Self::Forward => "callgate",
            Self::Rmcp => "rmcp",
            Self::Nginx => "nginx",
            Self::Proxy => "hyper",
            Self::Batch => "callgate, batch",
            Self::Upstream => "upstream",
        }
    }

    /// The name that `bench-server` knows it by; it cannot be nginx.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Proxy => "proxy",
            Self::Batch => "batch",
            other => other.as_str(),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
