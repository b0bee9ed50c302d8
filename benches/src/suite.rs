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
    /// Callgate in front of a node of Ethereum, with calls one by one and in batches.
    Batch,
}

/// What the servers ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// A hyper server that answers the same to everything.
    Static,
    /// anvil.
    Anvil,
}

impl Suite {
    /// The servers, in the order in which they take turns.
    pub fn candidates(self) -> &'static [Candidate] {
        match self {
            Self::Local => &[Candidate::Bare, Candidate::Callgate, Candidate::Rmcp],
            Self::Forward => &[Candidate::Nginx, Candidate::Proxy, Candidate::Forward],
            Self::Batch => &[Candidate::Forward, Candidate::Batch],
        }
    }

    /// The server that the others are compared with.
    pub fn yardstick(self) -> Candidate {
        match self {
            Self::Local => Candidate::Bare,
            Self::Forward => Candidate::Nginx,
            Self::Batch => Candidate::Forward,
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
            Self::Batch => &[Case { method: Method::Chain, era: Era::Modern }],
        }
    }

    /// What the servers ask, which then shares their core.
    pub fn service(self) -> Option<Service> {
        match self {
            Self::Local => None,
            Self::Forward => Some(Service::Static),
            Self::Batch => Some(Service::Anvil),
        }
    }
}
