//! Runs a measurement in rounds, in which every server has its turn.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use callgate_bench::candidate::Candidate;
use callgate_bench::case::Case;
use callgate_bench::suite::Suite;

use crate::client::{CONNECTIONS, Client, Prepared, prepare};
use crate::load::{full, paced};
use crate::machine::Machine;
use crate::process::Server;
use crate::progress;
use crate::repeats::Repeats;
use crate::results::{
    CaseResults, Cores, Latencies, Load, Percentiles, Results, Round, ServerResults,
};
use crate::statistics::Spread;
use crate::usage::{self, Used};

/// Number of tools.
pub(crate) const TOOLS: usize = 50;
/// Duration of the warm-up of each server before each case.
const WARM_UP: Duration = Duration::from_secs(1);

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

/// A server with connections of the load generator.
#[derive(Debug)]
struct Contender {
    candidate: Candidate,
    server: Server,
    client: Client,
    /// Process of the service.
    upstream: Option<u32>,
}

/// Runs all measurements. Fails on a wrong reply.
pub(crate) fn run(plan: &Plan, machine: &Machine) -> anyhow::Result<Results> {
    let upstream = plan.suite.service().map(|service| Server::of_service(service, machine));
    let upstream = upstream.transpose()?;
    let start = |candidate| {
        Server::start(candidate, TOOLS, upstream.as_ref().map(Server::address), machine)
    };
    progress("start-up");
    let start_ups = start_ups(plan, &start)?;
    let mut contenders = plan
        .suite
        .candidates()
        .iter()
        .map(|candidate| Contender::new(*candidate, start(*candidate)?, upstream.as_ref()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut cases = Vec::new();
    for &case in plan.suite.cases() {
        cases.push(run_case(plan, case, &mut contenders)?);
    }
    let servers = contenders.iter().zip(start_ups).map(|(contender, start_up)| {
        let memory = usage::memory(contender.server.id())?;
        Ok(ServerResults { candidate: contender.candidate, start_up, memory })
    });
    Ok(Results { cases, servers: servers.collect::<anyhow::Result<_>>()? })
}

/// Measures the milliseconds from the start of each server to its first correct reply.
fn start_ups(
    plan: &Plan,
    start: &impl Fn(Candidate) -> anyhow::Result<Server>,
) -> anyhow::Result<Vec<Spread>> {
    let candidates = plan.suite.candidates();
    let case = *plan.suite.cases().first().context("no cases")?;
    let mut taken = vec![Vec::new(); candidates.len()];
    for _ in 0..plan.starts {
        for (candidate, taken) in candidates.iter().zip(&mut taken) {
            let started = Instant::now();
            let server = start(*candidate)?;
            let requests = prepare(case, TOOLS, server.address());
            let first = requests.first().context("no requests")?;
            Client::connect(server.address(), 1)?
                .ask(case, TOOLS, first)
                .with_context(|| format!("{candidate}: first answer"))?;
            taken.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(taken.into_iter().map(Spread::of).collect())
}

fn run_case(plan: &Plan, case: Case, contenders: &mut [Contender]) -> anyhow::Result<CaseResults> {
    progress(&format!("{case}: full load"));
    let mut turns = Vec::new();
    let mut loads = Vec::new();
    for contender in contenders {
        let candidate = contender.candidate;
        let requests = prepare(case, TOOLS, contender.server.address());
        let mut reply_bytes = 0;
        for request in &requests {
            reply_bytes = contender
                .client
                .ask(case, TOOLS, request)
                .with_context(|| candidate.to_string())?;
        }
        full(&mut contender.client, &requests, WARM_UP)?;
        turns.push((contender, requests));
        loads.push(Load { candidate, reply_bytes, rounds: Vec::new() });
    }
    let mut repeats = Repeats::new(plan.rounds);
    let rounds = repeats.rounds(plan.rounds, || {
        let round = |(contender, requests): &mut (&mut Contender, Vec<Prepared>)| {
            let round = contender.round(requests, plan.length);
            let round = round.with_context(|| format!("{}: {case}", contender.candidate))?;
            Ok((round, round.cores))
        };
        turns.iter_mut().map(round).collect()
    })?;
    for round in rounds {
        for (load, round) in loads.iter_mut().zip(round) {
            load.rounds.push(round);
        }
    }
    let mut latency_repeats = Repeats::new(plan.latency_rounds);
    let latencies = latencies(plan, case, &mut turns, &loads, &mut latency_repeats)?;
    let repeated = repeats.made + latency_repeats.made;
    Ok(CaseResults { case, loads, latencies, repeated })
}

/// Measures latency at half of the baseline's throughput. If a server cannot keep up, also measures at half of the
/// slowest server's throughput.
fn latencies(
    plan: &Plan,
    case: Case,
    turns: &mut [(&mut Contender, Vec<Prepared>)],
    loads: &[Load],
    repeats: &mut Repeats,
) -> anyhow::Result<Vec<Latencies>> {
    let throughput = |load: &Load| load.median(|round| round.throughput);
    let baseline = plan.suite.baseline();
    let baseline = loads.iter().find(|load| load.candidate == baseline).context("no baseline")?;
    let slowest = loads.iter().map(throughput).fold(f64::INFINITY, f64::min);
    let mut latencies = vec![at_rate(plan, case, turns, throughput(baseline) / 2.0, repeats)?];
    if latencies.iter().flat_map(|one| &one.servers).any(|(_, server)| !server.kept_up()) {
        latencies.push(at_rate(plan, case, turns, slowest / 2.0, repeats)?);
    }
    Ok(latencies)
}

fn at_rate(
    plan: &Plan,
    case: Case,
    turns: &mut [(&mut Contender, Vec<Prepared>)],
    per_second: f64,
    repeats: &mut Repeats,
) -> anyhow::Result<Latencies> {
    progress(&format!("{case}: {per_second:.0} requests a second"));
    let rounds: Vec<Vec<Percentiles<f64>>> = repeats.rounds(plan.latency_rounds, || {
        let round = |(contender, requests): &mut (&mut Contender, Vec<Prepared>)| {
            let round = contender.paced_round(requests, per_second, plan.latency_length);
            round.with_context(|| format!("{}: {case}", contender.candidate))
        };
        turns.iter_mut().map(round).collect()
    })?;
    let servers = turns.iter().enumerate().map(|(number, (contender, _))| {
        let figures: Vec<_> =
            rounds.iter().filter_map(|round| round.get(number).copied()).collect();
        (contender.candidate, Percentiles::of(&figures))
    });
    Ok(Latencies { per_second, servers: servers.collect() })
}

impl Contender {
    fn new(
        candidate: Candidate,
        server: Server,
        upstream: Option<&Server>,
    ) -> anyhow::Result<Self> {
        let client = Client::connect(server.address(), CONNECTIONS)?;
        Ok(Self { candidate, server, client, upstream: upstream.map(Server::id) })
    }

    fn used(&self) -> anyhow::Result<Used> {
        Used::now(self.server.id(), self.upstream)
    }

    /// Runs one round of full load.
    fn round(&mut self, requests: &[Prepared], length: Duration) -> anyhow::Result<Round> {
        let before = self.used()?;
        let load = full(&mut self.client, requests, length)?;
        Ok(Round::of(load, self.used()?.since(before)))
    }

    /// Runs one round at a fixed rate.
    fn paced_round(
        &mut self,
        requests: &[Prepared],
        per_second: f64,
        length: Duration,
    ) -> anyhow::Result<(Percentiles<f64>, Cores)> {
        let before = self.used()?;
        let paced = paced(&mut self.client, requests, per_second, length)?;
        let cores = Cores::of(length, self.used()?.since(before));
        Ok((paced.percentiles(), cores))
    }
}
