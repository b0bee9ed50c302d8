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
}

impl Candidate {
    /// The name on the command line and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Callgate => "callgate",
            Self::Rmcp => "rmcp",
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
