//! What was measured.

use std::time::Duration;

use callgate_bench::candidate::Candidate;
use callgate_bench::case::Case;

use crate::load::{Full, Paced};
use crate::statistics::Spread;
use crate::usage::{Memory, Used};

/// A round in which a process was longer without its core is repeated, as a share of the round.
pub(crate) const MAX_WAITING: f64 = 0.02;

/// Everything.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) cases: Vec<CaseResults>,
    pub(crate) servers: Vec<ServerResults>,
}

/// One case, with the servers in the order of the plan.
#[derive(Debug)]
pub(crate) struct CaseResults {
    pub(crate) case: Case,
    pub(crate) loads: Vec<Load>,
    pub(crate) latencies: Vec<Latencies>,
    /// Rounds that were repeated.
    pub(crate) repeated: usize,
}

/// A server under full load, round by round.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) candidate: Candidate,
    pub(crate) reply_bytes: usize,
    pub(crate) rounds: Vec<Round>,
}

/// A round of full load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// Microseconds on a core for each request.
    pub(crate) cpu: f64,
    /// Requests in a second.
    pub(crate) throughput: f64,
    /// How many replies came, all of them right.
    pub(crate) answered: u32,
    /// How the cores were used.
    pub(crate) cores: Cores,
}

/// Shares of the time of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    /// The server, or the service behind it, was on its core.
    pub(crate) server: f64,
    /// The load generator was on its own.
    pub(crate) generator: f64,
    /// One of them waited, since something else had its core.
    pub(crate) waiting: f64,
    /// The host of a virtual machine had taken a core away.
    pub(crate) stolen: f64,
}

/// Every server at one rate.
#[derive(Debug)]
pub(crate) struct Latencies {
    pub(crate) per_second: f64,
    pub(crate) servers: Vec<(Candidate, Percentiles<Spread>)>,
}

/// Half of the replies, and all but one in a hundred, came within so many microseconds; infinite
/// where the server could not keep up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percentiles<T> {
    pub(crate) p50: T,
    pub(crate) p99: T,
}

/// What a server needs in any case.
#[derive(Debug)]
pub(crate) struct ServerResults {
    pub(crate) candidate: Candidate,
    pub(crate) start_up: Spread,
    pub(crate) memory: Memory,
}

impl Round {
    /// What a load and the times on the cores say.
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
    /// What the times on the cores say.
    pub(crate) fn of(took: Duration, used: Used) -> Self {
        let share = |time: Duration| time.as_secs_f64() / took.as_secs_f64();
        Self {
            server: share(used.core_busy()),
            generator: share(used.generator.running),
            waiting: share(used.server_disturbed()).max(share(used.generator.waiting)),
            stolen: share(used.stolen),
        }
    }

    /// Whether something else had one of the cores for too long to trust the figures.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.waiting.max(self.stolen) > MAX_WAITING
    }
}

impl Load {
    /// The middle of a figure over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        Spread::of(self.rounds.iter().map(figure)).median
    }

    /// This server's figure over another's, round by round.
    pub(crate) fn ratio(&self, other: &Self, figure: impl Fn(&Round) -> f64) -> Spread {
        let pairs = self.rounds.iter().zip(&other.rounds);
        Spread::of(pairs.map(|(own, other)| figure(own) / figure(other)))
    }
}

impl CaseResults {
    /// A server's load, if it took part.
    pub(crate) fn load(&self, candidate: Candidate) -> Option<&Load> {
        self.loads.iter().find(|load| load.candidate == candidate)
    }
}

impl Paced {
    /// What the latencies of a round come to.
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
    /// Of several rounds.
    pub(crate) fn of(rounds: &[Percentiles<f64>]) -> Self {
        Self {
            p50: Spread::of(rounds.iter().map(|round| round.p50)),
            p99: Spread::of(rounds.iter().map(|round| round.p99)),
        }
    }

    /// Whether the server kept up in most rounds.
    pub(crate) fn kept_up(&self) -> bool {
        self.p99.median.is_finite()
    }
}
