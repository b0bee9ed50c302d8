//! The comparisons: servers and requests.

use clap::ValueEnum;

use crate::candidate::Candidate;
use crate::case::{Case, Era, Method};

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Callgate with functions in its process, compared with axum and rmcp.
    Local,
    /// Callgate in front of a JSON-RPC service, compared with reverse proxies.
    Forward,
    /// Callgate in front of an Ethereum node, with and without batches.
    Batch,
}

/// Service behind the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// A hyper server that sends the same reply to every request.
    Static,
    /// anvil.
    Anvil,
}

impl Suite {
    /// Returns the servers in the order of their turns.
    pub fn candidates(self) -> &'static [Candidate] {
        match self {
            Self::Local => &[Candidate::Bare, Candidate::Callgate, Candidate::Rmcp],
            Self::Forward => &[Candidate::Nginx, Candidate::Proxy, Candidate::Forward],
            Self::Batch => &[Candidate::Forward, Candidate::Batch],
        }
    }

    /// Returns the server that the others are compared with.
    pub fn baseline(self) -> Candidate {
        match self {
            Self::Local => Candidate::Bare,
            Self::Forward => Candidate::Nginx,
            Self::Batch => Candidate::Forward,
        }
    }

    /// Returns the requests.
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

    /// Returns the service behind the servers, which shares their core.
    pub fn service(self) -> Option<Service> {
        match self {
            Self::Local => None,
            Self::Forward => Some(Service::Static),
            Self::Batch => Some(Service::Anvil),
        }
    }
}
