//! The results of a comparison.

use std::time::Duration;

use callgate_bench::candidate::Candidate;
use callgate_bench::case::Case;
use callgate_bench::suite::Level;

use crate::load::{Full, Paced};
use crate::statistics::Spread;
use crate::usage::{CpuUsage, Memory};

/// Maximum CPU time of other processes, and of the host, as a share of one core. If it is exceeded, the round is
/// repeated.
pub(crate) const MAX_DISTURBED: f64 = 0.05;

/// All results.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) cases: Vec<CaseResults>,
    pub(crate) servers: Vec<ServerResults>,
    /// Names and versions of the programs.
    pub(crate) versions: Vec<String>,
    /// Servers that could not be installed, each with the reason.
    pub(crate) skipped: Vec<(Candidate, String)>,
}

/// Results of a case at a level of load, with the servers in the order of the suite.
#[derive(Debug)]
pub(crate) struct CaseResults {
    pub(crate) case: Case,
    pub(crate) level: Level,
    pub(crate) loads: Vec<Load>,
    /// Errors of the gateways that failed.
    pub(crate) failures: Vec<String>,
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

/// CPU time as shares of one core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    /// Server and service.
    pub(crate) servers: f64,
    /// Load generator.
    pub(crate) generator: f64,
    /// All other processes. The kernel counts in hundredths of a second.
    pub(crate) other_processes: f64,
    /// Share of time in which the host of a virtual machine used the core.
    pub(crate) stolen: f64,
}

/// Latencies of all servers at one rate, by round.
#[derive(Debug)]
pub(crate) struct Latencies {
    pub(crate) per_second: f64,
    pub(crate) servers: Vec<(Candidate, Vec<Percentiles>)>,
}

/// Median, 99th percentile and maximum in microseconds. They are infinite if the server could not keep up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) longest: f64,
}

/// Start-up time and memory of a server.
#[derive(Debug)]
pub(crate) struct ServerResults {
    pub(crate) candidate: Candidate,
    pub(crate) start_up: Spread,
    pub(crate) memory: Memory,
}

impl Round {
    /// Computes the result of a round.
    pub(crate) fn of(load: Full, cpu_usage: CpuUsage) -> Self {
        let answered = f64::from(load.answered);
        Self {
            cpu: cpu_usage.server.as_secs_f64() * 1e6 / answered,
            throughput: answered / load.elapsed.as_secs_f64(),
            answered: load.answered,
            cores: Cores::of(load.elapsed, cpu_usage),
        }
    }
}

impl Cores {
    /// Computes the shares of a round.
    pub(crate) fn of(elapsed: Duration, cpu_usage: CpuUsage) -> Self {
        let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
        Self {
            servers: share(cpu_usage.server + cpu_usage.service),
            generator: share(cpu_usage.generator),
            other_processes: share(cpu_usage.other_processes()),
            stolen: share(cpu_usage.stolen),
        }
    }

    /// Returns `true` if other processes or the host used the cores for too long.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.other_processes.max(self.stolen) > MAX_DISTURBED
    }
}

impl Load {
    /// Returns the median of a value over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        Spread::of(self.rounds.iter().map(figure)).median
    }

    /// Returns the ratio of a value to that of another server in the same round.
    pub(crate) fn ratio(&self, other: &Self, figure: impl Fn(&Round) -> f64) -> Spread {
        let pairs = self.rounds.iter().zip(&other.rounds);
        Spread::of(pairs.map(|(round, other)| figure(round) / figure(other)))
    }
}

impl CaseResults {
    /// Returns the rounds of a server.
    pub(crate) fn load(&self, candidate: Candidate) -> Option<&Load> {
        self.loads.iter().find(|load| load.candidate == candidate)
    }
}

impl Latencies {
    /// Returns the rounds of a server.
    pub(crate) fn rounds(&self, candidate: Candidate) -> &[Percentiles] {
        let server = self.servers.iter().find(|(other, _)| *other == candidate);
        server.map_or(&[], |(_, rounds)| rounds)
    }

    /// Returns `true` if a server kept up in most rounds.
    pub(crate) fn sustained_rate(&self, candidate: Candidate) -> bool {
        Spread::of(self.rounds(candidate).iter().map(|round| round.p99)).median.is_finite()
    }

    /// Returns the ratio of a server's 99th percentile to that of another server in the same round.
    pub(crate) fn ratio(&self, candidate: Candidate, other: Candidate) -> Spread {
        let pairs = self.rounds(candidate).iter().zip(self.rounds(other));
        Spread::of(pairs.map(|(round, other)| round.p99 / other.p99))
    }
}

impl Paced {
    /// Computes the percentiles of a round.
    pub(crate) fn percentiles(&self) -> Percentiles {
        let latency_at = |index: usize| {
            let latency = self.latencies.get(index).filter(|_| self.unsent == 0);
            latency.map_or(f64::INFINITY, |latency| latency.as_secs_f64() * 1e6)
        };
        let count = self.latencies.len();
        Percentiles {
            p50: latency_at(count / 2),
            p99: latency_at(count * 99 / 100),
            longest: latency_at(count.saturating_sub(1)),
        }
    }
}
