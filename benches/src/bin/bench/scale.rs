//! Measures the packaged program with small and large registries, and while its catalog is replaced.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use callgate_bench::candidate::Candidate;
use callgate_bench::case::Case;
use callgate_bench::model;
use callgate_bench::packages::{program_path, run as output};

use crate::client::PreparedRequest;
use crate::machine::Machine;
use crate::measure::{NO_SERVICE, Plan, start_up};
use crate::measured_server::MeasuredServer;
use crate::process::Server;
use crate::progress;
use crate::registry::{DEFAULT_SIZE, Registry, Size};
use crate::repeats::Repeats;
use crate::results::{Cores, Percentiles};
use crate::statistics::Spread;
use crate::usage::{self, Memory};

/// Requests per second, within the default rate limit of ten callers.
pub(crate) const PER_SECOND: u32 = 4000;
/// Requests per second of the probe during changes of the catalog.
pub(crate) const PROBES: u32 = 1000;
/// Number of connections.
const CONNECTIONS: usize = 32;
/// Maximum time until a change is served.
const CHANGE_TIMEOUT: Duration = Duration::from_mins(1);

const LARGE: Size = Size { methods: 100_000, ..DEFAULT_SIZE };
const SIZES: [Size; 5] = [
    DEFAULT_SIZE,
    Size { methods: 1000, ..DEFAULT_SIZE },
    LARGE,
    Size { tokens: 10, ..DEFAULT_SIZE },
    Size { tokens: 1_000_000, ..DEFAULT_SIZE },
];

/// All results.
#[derive(Debug)]
pub(crate) struct ScaleResults {
    pub(crate) version: String,
    pub(crate) sizes: Vec<SizeResults>,
    /// CPU microseconds of a call with a token that the server has not seen, by round.
    pub(crate) first_use: Vec<f64>,
    pub(crate) swaps: Vec<SwapResults>,
    /// Use of the cores in the rounds that are part of the results.
    pub(crate) cores: Vec<Cores>,
}

/// A registry of one size.
#[derive(Debug)]
pub(crate) struct SizeResults {
    pub(crate) size: Size,
    /// Milliseconds to the first reply.
    pub(crate) start_up: Spread,
    /// CPU microseconds of a call, by round.
    pub(crate) cpu: Vec<f64>,
    pub(crate) memory: Memory,
}

/// Latency of the probe during changes.
#[derive(Debug)]
pub(crate) struct SwapResults {
    pub(crate) changes: &'static str,
    /// Seconds from a change until it is served.
    pub(crate) delays: Vec<f64>,
    pub(crate) probe: Percentiles,
}

/// Runs all measurements. Fails on a wrong reply.
pub(crate) fn run(plan: &Plan, machine: &Machine) -> anyhow::Result<ScaleResults> {
    let version = output(std::process::Command::new(program_path("callgate")?).arg("--version"))?;
    let mut registries = Vec::new();
    for size in SIZES {
        progress(&format!("registry with {} methods, {} tokens", size.methods, size.tokens));
        registries.push(Registry::create(size, NO_SERVICE, false)?);
    }
    let case = *plan.suite.cases().first().context("no cases")?;
    let mut results = ScaleResults {
        version,
        sizes: Vec::new(),
        first_use: Vec::new(),
        swaps: Vec::new(),
        cores: Vec::new(),
    };
    cost(plan, case, machine, &registries, &mut results)?;
    let large = SIZES.iter().position(|size| *size == LARGE);
    let registry = large.and_then(|number| registries.get(number)).context("no large registry")?;
    results.swaps = swaps(plan, case, machine, registry)?;
    Ok(results)
}

/// Measures start-up, CPU time of calls at a fixed rate, and memory.
fn cost(
    plan: &Plan,
    case: Case,
    machine: &Machine,
    registries: &[Registry],
    results: &mut ScaleResults,
) -> anyhow::Result<()> {
    let placement = machine.place(1);
    progress("start-up");
    let mut start_ups = Vec::new();
    for registry in registries {
        let start = || Server::start_callgate(registry, Some(&placement));
        let times = (0..plan.starts).map(|_| start_up(case, start));
        start_ups.push(Spread::of(times.collect::<anyhow::Result<Vec<f64>>>()?));
    }
    let servers =
        registries.iter().map(|registry| Server::start_callgate(registry, Some(&placement)));
    let servers = servers.collect::<anyhow::Result<Vec<_>>>()?;
    let measured_server = |server, requests| {
        let mut measured_server = MeasuredServer::new(
            Candidate::Callgate,
            server,
            None,
            CONNECTIONS,
            placement.is_separate,
        );
        measured_server.set_requests(requests);
        measured_server
    };
    let mut measured_servers = Vec::new();
    for (server, size) in servers.iter().zip(SIZES) {
        let requests = spread_requests(case, server.address(), size.tokens);
        let measured_server = measured_server(server, requests);
        measured_server.warm_up()?;
        measured_servers.push(measured_server);
    }
    let last = servers.last().context("no servers")?;
    let mut first_use_requests = FirstUseRequests { case, address: last.address(), next: 0 };
    measured_servers.push(measured_server(last, Vec::new()));
    progress(&format!("{PER_SECOND} calls a second"));
    let mut repeats = Repeats::new(plan.rounds);
    let rounds = repeats.rounds(plan.rounds, || {
        if let Some(last) = measured_servers.last_mut() {
            last.set_requests(first_use_requests.next_round(plan.latency_length));
        }
        let round = |server: &MeasuredServer<'_>| {
            let ((_, cpu), cores) =
                server.paced_round(f64::from(PER_SECOND), plan.latency_length)?;
            Ok(((cpu, cores), cores))
        };
        measured_servers.iter().map(round).collect::<anyhow::Result<Vec<_>>>()
    })?;
    results.cores = rounds.iter().flatten().map(|(_, cores)| *cores).collect();
    let cpu = |number: usize| -> Vec<f64> {
        rounds.iter().filter_map(|round| Some(round.get(number)?.0)).collect()
    };
    results.first_use = cpu(SIZES.len());
    for (number, ((server, size), start_up)) in servers.iter().zip(SIZES).zip(start_ups).enumerate()
    {
        let memory = usage::memory(server.id())?;
        results.sizes.push(SizeResults { size, start_up, cpu: cpu(number), memory });
    }
    Ok(())
}

/// Returns requests with at most 1,000 of the tokens. The numbers of these tokens have equal distances.
fn spread_requests(case: Case, address: SocketAddr, tokens: usize) -> Vec<PreparedRequest> {
    let numbers = (0..tokens).step_by((tokens / model::TOKENS).max(1));
    numbers.map(|token| PreparedRequest::new(case.request(token), address)).collect()
}

/// Requests with tokens that were not used before.
struct FirstUseRequests {
    case: Case,
    address: SocketAddr,
    next: usize,
}

impl FirstUseRequests {
    /// Returns the requests of a round.
    fn next_round(&mut self, length: Duration) -> Vec<PreparedRequest> {
        let mut requests = Vec::new();
        let rounded_up = u64::from(PER_SECOND) * (length.as_secs() + 1);
        while u64::try_from(requests.len()).is_ok_and(|count| count < rounded_up) {
            self.next += 1;
            // `spread_requests` uses the skipped tokens.
            if !self.next.is_multiple_of(model::TOKENS) {
                requests.push(PreparedRequest::new(self.case.request(self.next), self.address));
            }
        }
        requests
    }
}

/// Changes rows of a large registry under load, and measures the latency of other calls.
fn swaps(
    plan: &Plan,
    case: Case,
    machine: &Machine,
    registry: &Registry,
) -> anyhow::Result<Vec<SwapResults>> {
    let placement = machine.place(machine.cores);
    let server = Server::start_callgate(registry, Some(&placement))?;
    let measured_server = |connections| {
        let mut measured_server =
            MeasuredServer::new(Candidate::Callgate, &server, None, connections, false);
        measured_server.set_requests(spread_requests(case, server.address(), model::TOKENS));
        measured_server
    };
    let (load, probe) = (measured_server(CONNECTIONS), measured_server(8));
    let length = plan.latency_length * 4;
    let mut swaps = Vec::new();
    for (changes, pattern) in
        [("none", None), ("one method", Some("tool_00")), ("all methods", Some("tool_*"))]
    {
        progress(&format!("changes of the catalog: {changes}"));
        let swap = thread::scope(|scope| {
            let load = scope.spawn(|| load.paced_round(f64::from(PER_SECOND), length));
            let probe = scope.spawn(|| probe.paced_round(f64::from(PROBES), length));
            let mut delays = Vec::new();
            while let Some(pattern) = pattern.filter(|_| !probe.is_finished()) {
                delays.push(change(registry, pattern, delays.len(), server.address())?);
            }
            let joined = |result: thread::Result<_>| {
                result.map_err(|_| anyhow::anyhow!("the load generator panicked"))?
            };
            joined(load.join())?;
            let ((probe, _), _): ((Percentiles, f64), Cores) = joined(probe.join())?;
            anyhow::Ok(SwapResults { changes, delays, probe })
        })?;
        swaps.push(swap);
    }
    Ok(swaps)
}

/// Changes descriptions. Returns the seconds until the change is served.
fn change(
    registry: &Registry,
    pattern: &str,
    number: usize,
    address: SocketAddr,
) -> anyhow::Result<f64> {
    let description = format!("Change {number} of {pattern}.");
    registry.set_descriptions(pattern, &description)?;
    let changed = Instant::now();
    while !fetch_description(address)?.contains(&description) {
        ensure!(changed.elapsed() < CHANGE_TIMEOUT, "a change of the registry is not served");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(changed.elapsed().as_secs_f64())
}

/// Returns the reply with the description of the tool `tool_00`.
fn fetch_description(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let token = model::token(0);
    write!(
        stream,
        "GET /mcp/tools/describe?name=tool_00 HTTP/1.1\r\nHost: {address}\r\n\
         Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}
