//! The servers that are compared.

use std::fmt;

use clap::ValueEnum;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Candidate {
    /// An axum handler that parses the envelope and writes a fixed reply: the minimum.
    Bare,
    /// This project.
    Callgate,
    /// The official Rust SDK, behind a token check.
    Rmcp,
    /// nginx as a reverse proxy.
    Nginx,
    /// A reverse proxy that only uses hyper's server and client.
    Proxy,
    /// This project, in front of a service.
    Forward,
    /// This project, in front of a service that supports batches.
    Batch,
    /// The service, which sends the same reply to every request. It is not measured.
    Upstream,
}

impl Candidate {
    /// Returns the name in tables.
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

    /// Returns the argument for `bench-server`, which does not run nginx.
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
