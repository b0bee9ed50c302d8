//! The comparisons: servers, requests and load.

use clap::ValueEnum;

use crate::candidate::Candidate;
use crate::case::{Case, Era, Method};

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Functions in the process of the server, compared with axum and rmcp.
    Server,
    /// Calls to a JSON-RPC service, compared with reverse proxies and other gateways.
    Forward,
    /// Calls to an Ethereum node, with and without batches.
    Batch,
    /// The packaged program alone, with small and large registries.
    Scale,
}

/// Number of server threads and of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Threads of the server, each with a core.
    pub threads: usize,
    /// Connections of the load generator.
    pub connections: usize,
}

impl Level {
    /// The level at which latency is measured, and which pictures show.
    pub const MAIN: Self = Self { threads: 1, connections: 32 };
}

impl Suite {
    /// Returns the servers in the order of their turns.
    pub fn candidates(self) -> &'static [Candidate] {
        use Candidate::{Bare, Batch, Callgate, Fastmcp, Hyper, Nginx, Rmcp, Toolbox};
        match self {
            Self::Server => &[Bare, Callgate, Rmcp],
            Self::Forward => &[Nginx, Hyper, Callgate, Toolbox, Fastmcp],
            Self::Batch => &[Callgate, Batch],
            Self::Scale => &[Callgate],
        }
    }

    /// Returns the server that the others are compared with.
    pub fn baseline(self) -> Candidate {
        match self {
            Self::Server => Candidate::Bare,
            Self::Forward => Candidate::Nginx,
            Self::Batch | Self::Scale => Candidate::Callgate,
        }
    }

    /// Returns the requests.
    pub fn cases(self) -> Vec<Case> {
        let methods: &[Method] = match self {
            Self::Server => &[Method::Call, Method::List],
            Self::Forward => &[Method::Forwarded],
            Self::Batch => return vec![Case { method: Method::Chain, era: Era::Modern }],
            Self::Scale => return vec![Case { method: Method::Call, era: Era::Modern }],
        };
        let eras = [Era::Modern, Era::Legacy];
        methods.iter().flat_map(|&method| eras.map(|era| Case { method, era })).collect()
    }

    /// Returns the numbers of threads.
    pub fn threads(self) -> &'static [usize] {
        match self {
            Self::Server | Self::Forward => &[1, 2],
            Self::Batch | Self::Scale => &[1],
        }
    }

    /// Returns the numbers of connections.
    pub fn connections(self) -> &'static [usize] {
        match self {
            Self::Server | Self::Forward => &[1, 32, 512],
            Self::Batch | Self::Scale => &[32],
        }
    }
}
