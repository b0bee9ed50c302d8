//! The results.

use std::time::Duration;

use callgate_bench::candidate::Candidate;
use callgate_bench::case::Case;

use crate::load::{Full, Paced};
use crate::statistics::Spread;
use crate::usage::{Memory, Used};

/// Maximum share of a round for which a process may wait for its core. If it waits longer, the round is repeated.
pub(crate) const MAX_WAITING: f64 = 0.02;

/// All results.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) cases: Vec<CaseResults>,
    pub(crate) servers: Vec<ServerResults>,
}

/// Results of a case, with the servers in the order of the suite.
#[derive(Debug)]
pub(crate) struct CaseResults {
    pub(crate) case: Case,
    pub(crate) loads: Vec<Load>,
    pub(crate) latencies: Vec<Latencies>,
    /// Number of repeated rounds.
    pub(crate) repeated: usize,
}

/// Rounds of a server under full load.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) candidate: Candidate,
    pub(crate) reply_bytes: usize,
    pub(crate) rounds: Vec<Round>,
}

/// A round of full load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// CPU time of a request in microseconds.
    pub(crate) cpu: f64,
    /// Requests per second.
    pub(crate) throughput: f64,
    /// Number of replies.
    pub(crate) answered: u32,
    /// Use of the cores.
    pub(crate) cores: Cores,
}

/// Shares of the time of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    /// Share of time in which the server and the service used their core.
    pub(crate) server: f64,
    /// Share of time in which the load generator used its core.
    pub(crate) generator: f64,
    /// Share of time spent waiting for a core that another process used.
    pub(crate) waiting: f64,
    /// Share of time in which the host of a virtual machine used the core.
    pub(crate) stolen: f64,
}

/// Latencies of all servers at one rate.
#[derive(Debug)]
pub(crate) struct Latencies {
    pub(crate) per_second: f64,
    pub(crate) servers: Vec<(Candidate, Percentiles<Spread>)>,
}

/// Median and 99th percentile in microseconds. Infinite if the server could not keep up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percentiles<T> {
    pub(crate) p50: T,
    pub(crate) p99: T,
}

/// Resources of an idle server.
#[derive(Debug)]
pub(crate) struct ServerResults {
    pub(crate) candidate: Candidate,
    pub(crate) start_up: Spread,
    pub(crate) memory: Memory,
}

impl Round {
    /// Computes the result of a round.
    pub(crate) fn of(load: Full, used: Used) -> Self {
        let answered = f64::from(load.answered);
        Self {
            cpu: used.server.running.as_secs_f64() * 1e6 / answered,
            throughput: answered / load.took.as_secs_f64(),
            answered: load.answered,
            cores: Cores::of(load.took, used),
        }
    }
}

impl Cores {
    /// Computes the shares of a round.
    pub(crate) fn of(took: Duration, used: Used) -> Self {
        let share = |time: Duration| time.as_secs_f64() / took.as_secs_f64();
        Self {
            server: share(used.core_busy()),
            generator: share(used.generator.running),
            waiting: share(used.server_disturbed()).max(share(used.generator.waiting)),
            stolen: share(used.stolen),
        }
    }

    /// Returns `true` if another process used one of the cores for too long.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.waiting.max(self.stolen) > MAX_WAITING
    }
}

impl Load {
    /// Returns the median of a value over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        Spread::of(self.rounds.iter().map(figure)).median
    }

    /// Returns the ratio of a value to another server's, by round.
    pub(crate) fn ratio(&self, other: &Self, figure: impl Fn(&Round) -> f64) -> Spread {
        let pairs = self.rounds.iter().zip(&other.rounds);
        Spread::of(pairs.map(|(own, other)| figure(own) / figure(other)))
    }
}

impl CaseResults {
    /// Returns the rounds of a server.
    pub(crate) fn load(&self, candidate: Candidate) -> Option<&Load> {
        self.loads.iter().find(|load| load.candidate == candidate)
    }
}

impl Paced {
    /// Computes the percentiles of a round.
    pub(crate) fn percentiles(&self) -> Percentiles<f64> {
        let at = |hundredths: usize| {
            let latency = self.latencies.get(self.latencies.len() * hundredths / 100);
            let latency = latency.filter(|_| self.left == 0);
            latency.map_or(f64::INFINITY, |latency| latency.as_secs_f64() * 1e6)
        };
        Percentiles { p50: at(50), p99: at(99) }
    }
}

impl Percentiles<Spread> {
    /// Computes the medians of several rounds.
    pub(crate) fn of(rounds: &[Percentiles<f64>]) -> Self {
        Self {
            p50: Spread::of(rounds.iter().map(|round| round.p50)),
            p99: Spread::of(rounds.iter().map(|round| round.p99)),
        }
    }

    /// Returns `true` if the server kept up in most rounds.
    pub(crate) fn kept_up(&self) -> bool {
        self.p99.median.is_finite()
    }
}
