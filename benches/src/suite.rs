//! Which servers are measured beside each other, and by what.

use clap::ValueEnum;

use crate::candidate::Candidate;
use crate::case::{Case, Era, Method};

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Callgate with functions in its own process, beside bare axum and rmcp.
    Local,
    /// Callgate in front of a JSON-RPC service, beside reverse proxies in front of the same.
    Forward,
}

impl Suite {
    /// The servers, in the order in which they take turns.
    pub fn candidates(self) -> &'static [Candidate] {
        match self {
            Self::Local => &[Candidate::Bare, Candidate::Callgate, Candidate::Rmcp],
            Self::Forward => &[Candidate::Nginx, Candidate::Proxy, Candidate::Forward],
        }
    }

    /// The server that the others are compared with.
    pub fn yardstick(self) -> Candidate {
        match self {
            Self::Local => Candidate::Bare,
            Self::Forward => Candidate::Nginx,
        }
    }

    /// What is asked.
    pub fn cases(self) -> &'static [Case] {
        match self {
            Self::Local => &[
                Case { method: Method::Call, era: Era::Modern },
                Case { method: Method::Call, era: Era::Legacy },
                Case { method: Method::List, era: Era::Modern },
                Case { method: Method::List, era: Era::Legacy },
            ],
            Self::Forward => &[
                Case { method: Method::Forwarded, era: Era::Modern },
                Case { method: Method::Forwarded, era: Era::Legacy },
            ],
        }
    }

    /// Whether the servers ask a service, which then shares their core.
    pub fn has_upstream(self) -> bool {
        self == Self::Forward
    }
}
