//! Runs a comparison in rounds, in which every server has its turn.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use callgate_bench::candidate::Candidate;
use callgate_bench::case::Case;
use callgate_bench::packages::{program_path, run as output};
use callgate_bench::suite::{Level, Suite};

use crate::client::{Client, PreparedRequest};
use crate::machine::{Machine, Placement};
use crate::measured_server::MeasuredServer;
use crate::process::Server;
use crate::registry::{DEFAULT_SIZE, Registry};
use crate::repeats::Repeats;
use crate::results::{CaseResults, Latencies, Load, Results, ServerResults};
use crate::statistics::Spread;
use crate::{nginx, peers, progress, usage};

/// Address of the service in measurements that do not call a service.
pub(crate) const NO_SERVICE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// Number and duration of the rounds.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) suite: Suite,
    pub(crate) rounds: usize,
    pub(crate) length: Duration,
    pub(crate) latency_rounds: usize,
    pub(crate) latency_length: Duration,
    pub(crate) starts: usize,
}

/// What all servers with the same number of threads share.
struct Setup<'p> {
    plan: &'p Plan,
    placement: Placement,
    service: Option<Server>,
    registries: Vec<(Candidate, Registry)>,
}

/// Runs all measurements. Fails on a wrong reply.
pub(crate) fn run(plan: &Plan, machine: &Machine) -> anyhow::Result<Results> {
    let (mut versions, mut skipped, mut candidates) = (Vec::new(), Vec::new(), Vec::new());
    for &candidate in plan.suite.candidates() {
        match version(candidate) {
            Ok(version) => {
                versions.extend(version);
                candidates.push(candidate);
            }
            Err(error) => skipped.push((candidate, format!("{error:#}"))),
        }
    }
    let (mut cases, mut servers) = (Vec::new(), Vec::new());
    for &threads in plan.suite.threads() {
        let setup = Setup::new(plan, machine.place(threads))?;
        let start_ups = if servers.is_empty() { setup.start_ups(&candidates)? } else { Vec::new() };
        let started = candidates.iter().map(|&candidate| Ok((candidate, setup.start(candidate)?)));
        let started = started.collect::<anyhow::Result<Vec<_>>>()?;
        for case in plan.suite.cases() {
            for &connections in plan.suite.connections() {
                cases.push(setup.run_case(case, Level { threads, connections }, &started)?);
            }
        }
        for (&(candidate, ref server), start_up) in started.iter().zip(start_ups) {
            let memory = usage::memory(server.id())?;
            servers.push(ServerResults { candidate, start_up, memory });
        }
    }
    cases.sort_by_key(|results| plan.suite.cases().iter().position(|case| *case == results.case));
    Ok(Results { cases, servers, versions, skipped })
}

/// Returns the name and version of a server. Fails if the server cannot be installed.
fn version(candidate: Candidate) -> anyhow::Result<Option<String>> {
    let version = |program: &Path, argument| output(Command::new(program).arg(argument));
    Ok(match candidate {
        Candidate::Callgate => Some(version(&program_path("callgate")?, "--version")?),
        Candidate::Bare => locked_version("axum"),
        Candidate::Rmcp => locked_version("rmcp"),
        Candidate::Hyper => locked_version("hyper"),
        Candidate::Nginx => Some(output(nginx::program()?.arg("-v"))?),
        Candidate::Toolbox => Some(version(&peers::toolbox_program()?, "--version")?),
        Candidate::Fastmcp => {
            let text = "import fastmcp, sys; print('FastMCP', fastmcp.__version__, \
                        'with Python', sys.version.split()[0])";
            Some(output(Command::new(peers::fastmcp_python()?).args(["-c", text]))?)
        }
        _ => None,
    })
}

/// Returns name and version of a crate.
fn locked_version(name: &str) -> Option<String> {
    let lock = include_str!("../../../../Cargo.lock");
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(format!("{name} {}", rest.split('"').next()?))
}

impl<'p> Setup<'p> {
    fn new(plan: &'p Plan, placement: Placement) -> anyhow::Result<Self> {
        let service = match plan.suite {
            Suite::Forward => Some(Server::start(Candidate::Upstream, None, &placement)?),
            Suite::Batch => Some(Server::start_anvil(&placement)?),
            Suite::Server | Suite::Scale => None,
        };
        let address = service.as_ref().map_or(NO_SERVICE, Server::address);
        let mut registries = Vec::new();
        for &candidate in plan.suite.candidates() {
            let is_batch = candidate == Candidate::Batch;
            if is_batch || candidate == Candidate::Callgate {
                let registry = Registry::create(DEFAULT_SIZE, address, is_batch)?;
                if plan.suite == Suite::Batch {
                    registry.add_chain()?;
                }
                registries.push((candidate, registry));
            }
        }
        Ok(Self { plan, placement, service, registries })
    }

    fn start(&self, candidate: Candidate) -> anyhow::Result<Server> {
        match self.registries.iter().find(|(other, _)| *other == candidate) {
            Some((_, registry)) => Server::start_callgate(registry, Some(&self.placement)),
            None => {
                let service = self.service.as_ref().map(Server::address);
                Server::start(candidate, service, &self.placement)
            }
        }
    }

    /// Measures the milliseconds from the start of each server to its first correct reply.
    fn start_ups(&self, candidates: &[Candidate]) -> anyhow::Result<Vec<Spread>> {
        progress("start-up");
        let case = *self.plan.suite.cases().first().context("no cases")?;
        let mut times = vec![Vec::new(); candidates.len()];
        for _ in 0..self.plan.starts {
            for (&candidate, times) in candidates.iter().zip(&mut times) {
                times.push(start_up(case, || self.start(candidate))?);
            }
        }
        Ok(times.into_iter().map(Spread::of).collect())
    }

    fn run_case(
        &self,
        case: Case,
        level: Level,
        servers: &[(Candidate, Server)],
    ) -> anyhow::Result<CaseResults> {
        let Level { threads, connections } = level;
        progress(&format!("{case}: {threads} threads, {connections} connections"));
        let (mut measured_servers, mut loads) = (Vec::new(), Vec::new());
        let (mut first_replies, mut failures) = (Vec::new(), Vec::new());
        for &(candidate, ref server) in servers {
            let is_separate = self.placement.is_separate;
            let service = self.service.as_ref();
            let mut measured_server =
                MeasuredServer::new(candidate, server, service, connections, is_separate);
            let reply = measured_server.prepare(case);
            let reply = reply.and_then(|reply| measured_server.warm_up().map(|()| reply));
            let reply = match reply {
                Err(error) if candidate.is_peer() => {
                    failures
                        .push(format!("{threads} threads, {connections} connections: {error:#}"));
                    continue;
                }
                reply => reply?,
            };
            measured_servers.push(measured_server);
            loads.push(Load { candidate, reply_bytes: reply.len(), rounds: Vec::new() });
            first_replies.push(reply);
        }
        if let (Suite::Server, [bare, callgate, ..]) = (self.plan.suite, &*first_replies) {
            ensure!(bare == callgate, "{case}: bare and callgate send different replies");
        }
        let mut repeats = Repeats::new(self.plan.rounds);
        let rounds = repeats.rounds(self.plan.rounds, || {
            measured_servers.iter().map(|server| server.round(self.plan.length)).collect()
        })?;
        for round in rounds {
            for (load, round) in loads.iter_mut().zip(round) {
                load.rounds.push(round);
            }
        }
        let latencies = if level == Level::MAIN {
            self.latencies(&measured_servers, &loads, &mut repeats)?
        } else {
            Vec::new()
        };
        Ok(CaseResults { case, level, loads, failures, latencies, repeated: repeats.repeated })
    }

    /// Measures latency at half of the baseline's throughput and, if a server cannot keep up, also at half of the
    /// slowest server's.
    fn latencies(
        &self,
        measured_servers: &[MeasuredServer<'_>],
        loads: &[Load],
        repeats: &mut Repeats,
    ) -> anyhow::Result<Vec<Latencies>> {
        let throughput = |load: &Load| load.median(|round| round.throughput);
        let baseline = self.plan.suite.baseline();
        let baseline = loads.iter().find(|load| load.candidate == baseline);
        let baseline = throughput(baseline.context("no baseline")?);
        let slowest = loads.iter().map(throughput).fold(f64::INFINITY, f64::min);
        let first = self.at_rate(measured_servers, baseline / 2.0, repeats)?;
        if measured_servers.iter().all(|server| first.sustained_rate(server.candidate)) {
            return Ok(vec![first]);
        }
        Ok(vec![first, self.at_rate(measured_servers, slowest / 2.0, repeats)?])
    }

    fn at_rate(
        &self,
        measured_servers: &[MeasuredServer<'_>],
        per_second: f64,
        repeats: &mut Repeats,
    ) -> anyhow::Result<Latencies> {
        progress(&format!("  {per_second:.0} requests a second"));
        let Plan { latency_rounds, latency_length, .. } = *self.plan;
        let rounds = repeats.rounds(latency_rounds, || {
            measured_servers
                .iter()
                .map(|server| server.paced_round(per_second, latency_length))
                .collect()
        })?;
        let servers = measured_servers.iter().enumerate().map(|(number, measured_server)| {
            let percentiles = rounds.iter().filter_map(|round| Some(round.get(number)?.0));
            (measured_server.candidate, percentiles.collect())
        });
        Ok(Latencies { per_second, servers: servers.collect() })
    }
}

/// Measures the milliseconds from the start of a server to its first correct reply.
pub(crate) fn start_up(
    case: Case,
    start: impl FnOnce() -> anyhow::Result<Server>,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    let server = start()?;
    let request = PreparedRequest::new(case.request(0), server.address());
    Client::connect(server.address(), 1)?.exchange(case, &request).context("first reply")?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
