//! The scenarios. They wait for events, never for a fixed time.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use callgate_test_support::Engine;

use crate::faults::checks::timings::Timings;
use crate::faults::checks::{Fault, FaultKind, Revocation, RunRecord, UNEXPLAINED_503, Violation};
use crate::faults::cluster::nginx;
use crate::faults::cluster::proxy::Link;
use crate::faults::cluster::registry::Program;
use crate::faults::cluster::{Cluster, SERVERS};
use crate::faults::load::Load;
use crate::faults::load::call_log::{Call, ClientGroup, Outcome, RequestKind};
use crate::faults::load::catalog_changes::CatalogChanges;
use crate::faults::load::listeners::Listeners;
use crate::real::servers::RunningProcess;

/// All groups of clients.
const ALL_GROUPS: [ClientGroup; 3] =
    [ClientGroup::Unchanged, ClientGroup::TokenRevoked, ClientGroup::GrantRevoked];
/// All servers.
const ALL_SERVERS: [usize; SERVERS] = [0, 1, 2];
/// The server with the fault.
const FAULTY: usize = 1;
/// The other servers.
const OTHER_SERVERS: [usize; 2] = [0, 2];
/// Maximum number of violations in a failure message.
const MAX_LISTED: usize = 10;
/// Maximum number of runs of a scenario on a busy machine.
const MAX_RUNS: usize = 3;
/// Log message of a server whose database is too slow.
const TOO_SLOW: &str = "did not respond within";
/// Time for which servers accept known tokens without the registry.
pub(crate) const GRACE: Duration = Duration::from_secs(4);

/// Events and durations of a run.
pub(crate) struct ScenarioResult {
    pub(crate) name: String,
    pub(crate) run: RunRecord,
    pub(crate) timings: Timings,
    program: Program,
    /// Log of each server.
    logs: Vec<String>,
}

impl ScenarioResult {
    /// Runs a scenario. Panics with the violations, if there are any.
    pub(crate) fn checked(run: impl Fn() -> Self) -> Self {
        for _ in 1..MAX_RUNS {
            let result = run();
            if !result.machine_is_too_busy() {
                return result.assert_no_violations();
            }
            eprintln!("{}: machine too busy, running the scenario again", result.name);
        }
        run().assert_no_violations()
    }

    /// Returns `true` if all violations are 503s of servers whose database was slow outside of a
    /// fault. Returns `false` for measurements, because they run on a quiet machine.
    fn machine_is_too_busy(&self) -> bool {
        let violations = self.run.violations();
        let is_excused = |violation: &Violation| {
            violation.description == UNEXPLAINED_503 && self.was_slow(violation.call.server)
        };
        self.program == Program::Tested
            && !violations.is_empty()
            && violations.iter().all(is_excused)
    }

    /// Returns `true` if a server logged a slow database outside of a fault.
    fn was_slow(&self, server: usize) -> bool {
        let faults = &self.run.faults;
        let is_in_fault = |at: usize| {
            let mut server_faults = faults.iter().filter(|fault| fault.kind.server() == server);
            server_faults.any(|fault| fault.log_range.contains(&at))
        };
        self.logs[server].match_indices(TOO_SLOW).any(|(at, _)| !is_in_fault(at))
    }

    fn assert_no_violations(self) -> Self {
        let violations = self.run.violations();
        let listed: Vec<String> =
            violations.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        let listed = listed.join("\n");
        let (name, count, logs) = (&self.name, violations.len(), self.logs.join("\n"));
        assert!(violations.is_empty(), "{name}: {count} violations\n{listed}\n{logs}");
        eprintln!("{name}: {} calls, {:?}", self.run.calls.len(), self.timings);
        self
    }
}

/// A running scenario.
struct Scenario {
    cluster: Cluster,
    load: Load,
    listeners: Listeners,
    catalog_changes: CatalogChanges,
    /// Begin of the fault, and the length of each server's log at that time.
    fault_begin: (Instant, [usize; SERVERS]),
}

/// Faults, revocation and times of a finished scenario.
struct Observations {
    faults: Vec<Fault>,
    revocation: Option<Revocation>,
    /// End of the fault.
    repaired: Instant,
    /// Time at which all servers were ready.
    ready: Instant,
    /// Time at which a server was isolated.
    isolated_at: Option<Instant>,
}

impl Scenario {
    /// Starts a scenario in which clients call the servers directly.
    fn start(program: Program, engine: Engine) -> Self {
        let cluster = Cluster::start(program, engine, GRACE);
        let addresses = cluster.addresses();
        Self::with(cluster, &addresses)
    }

    /// Starts the clients and waits until all of them are served.
    fn with(cluster: Cluster, addresses: &[SocketAddr]) -> Self {
        let (load, catalog_changes) = (cluster.load(addresses), cluster.catalog_changes());
        let listeners = cluster.listeners(addresses);
        load.wait_until_served(&ALL_SERVERS[..addresses.len()], &ALL_GROUPS);
        listeners.wait_for_notifications();
        let fault_begin = (Instant::now(), ALL_SERVERS.map(|server| cluster.log_length(server)));
        Self { cluster, load, listeners, catalog_changes, fault_begin }
    }

    /// Returns the fault that ended at `end`. Must be called directly after the end.
    fn fault(&self, kind: FaultKind, end: Instant) -> Fault {
        let (server, (begin, before)) = (kind.server(), self.fault_begin);
        let log_range = match kind {
            FaultKind::RegistryUnreachable(..) => before[server]..self.cluster.log_length(server),
            // The restarted server has a new log.
            FaultKind::ServerDown(_) => 0..0,
        };
        Fault { kind, begin, end, log_range }
    }

    /// Revokes access and waits until every server refuses it.
    fn revoke(&self) -> Revocation {
        let times = self.cluster.registry.revoke();
        let polled = self.cluster.wait_for_poll(&ALL_SERVERS);
        wait_until_refused(&self.load, &ALL_SERVERS);
        Revocation { times, isolated: None, polled }
    }

    fn finish(self, name: String, observations: Observations) -> ScenarioResult {
        let Self { cluster, load, listeners, catalog_changes, .. } = self;
        drop((listeners, catalog_changes));
        let Observations { faults, revocation, repaired, ready, isolated_at } = observations;
        let (calls, executed) = (load.stop(), cluster.registry.executed());
        let run = RunRecord { calls, executed, faults, revocation };
        let timings = Timings::of(&run, repaired, ready, isolated_at);
        let logs = cluster.servers.iter().map(RunningProcess::log).collect();
        ScenarioResult { name, run, timings, program: cluster.registry.program, logs }
    }
}

/// The database is killed, and restarted after the grace period of tokens.
pub(crate) fn database_is_killed(program: Program, engine: Engine) -> ScenarioResult {
    let scenario = Scenario::start(program, engine);
    let (cluster, load) = (&scenario.cluster, &scenario.load);
    cluster.database.kill();
    let accepted_until = ALL_SERVERS.map(|server| cluster.tokens_valid_until(server, GRACE));
    load.call_log.wait_until("every gateway still serves", |calls| {
        ALL_SERVERS
            .iter()
            .all(|server| calls.iter().any(|it| it.server == *server && it.is_served()))
    });
    cluster.wait_until("every gateway reports a stale registry", |it| {
        ALL_SERVERS.iter().all(|server| it.is_stale(*server))
    });
    wait_for_outcome(load, &ALL_SERVERS, ClientGroup::Unchanged, &Outcome::Unavailable);
    cluster.database.restart();
    let repaired = Instant::now();
    let ready = cluster.wait_until("all gateways are ready", |cluster| {
        ALL_SERVERS.iter().all(|server| cluster.is_ready(*server))
    });
    let faults = ALL_SERVERS
        .map(|server| {
            scenario.fault(FaultKind::RegistryUnreachable(server, accepted_until[server]), ready)
        })
        .to_vec();
    load.wait_until_served(&ALL_SERVERS, &ALL_GROUPS);
    scenario.listeners.wait_for_notifications();
    let revocation = Some(scenario.revoke());
    let name = format!("{} is killed", engine.name());
    scenario.finish(name, Observations { faults, revocation, repaired, ready, isolated_at: None })
}

/// A server is killed and started again.
pub(crate) fn server_is_killed(program: Program, engine: Engine) -> ScenarioResult {
    let mut scenario = Scenario::start(program, engine);
    scenario.cluster.servers[FAULTY].kill();
    scenario.load.wait_until_served(&OTHER_SERVERS, &ALL_GROUPS);
    let repaired = Instant::now();
    scenario.cluster.servers[FAULTY].restart();
    let ready = scenario
        .cluster
        .wait_until("the gateway is ready again", |cluster| cluster.is_ready(FAULTY));
    let faults = vec![scenario.fault(FaultKind::ServerDown(FAULTY), ready)];
    scenario.load.wait_until_served(&ALL_SERVERS, &ALL_GROUPS);
    scenario.listeners.wait_for_notifications();
    let revocation = Some(scenario.revoke());
    let name = format!("a server on {} is killed", engine.name());
    scenario.finish(name, Observations { faults, revocation, repaired, ready, isolated_at: None })
}

/// A server behind nginx is killed and started again. To the clients, nginx is the only server.
pub(crate) fn server_behind_nginx_is_killed(program: Program, engine: Engine) -> ScenarioResult {
    const NGINX: usize = 0;
    let cluster = Cluster::start(program, engine, GRACE);
    let files = tempfile::tempdir().unwrap();
    let nginx = nginx::start(files.path(), &cluster.addresses());
    let mut scenario = Scenario::with(cluster, &[nginx.address]);
    scenario.cluster.servers[FAULTY].kill();
    scenario.load.wait_until_served(&[NGINX], &ALL_GROUPS);
    let repaired = Instant::now();
    scenario.cluster.servers[FAULTY].restart();
    let ready = scenario
        .cluster
        .wait_until("the gateway is ready again", |cluster| cluster.is_ready(FAULTY));
    let faults = vec![scenario.fault(FaultKind::ServerDown(NGINX), ready)];
    scenario.load.wait_until_served(&[NGINX], &ALL_GROUPS);
    scenario.listeners.wait_for_notifications();
    let name = format!("a server on {} is killed behind nginx", engine.name());
    let mut result = scenario.finish(
        name,
        Observations { faults, revocation: None, repaired, ready, isolated_at: None },
    );
    // Any of the servers may have sent a 503.
    result.logs = vec![result.logs.join("\n")];
    result
}

/// A server is isolated from the database while access is revoked.
pub(crate) fn server_is_isolated(program: Program, engine: Engine, link: Link) -> ScenarioResult {
    let scenario = Scenario::start(program, engine);
    let (cluster, load) = (&scenario.cluster, &scenario.load);
    cluster.proxies[FAULTY].set(link);
    let isolated_at = Instant::now();
    let accepted_until = cluster.tokens_valid_until(FAULTY, GRACE);
    let times = cluster.registry.revoke();
    let mut polled = cluster.wait_for_poll(&OTHER_SERVERS);
    wait_until_refused(load, &OTHER_SERVERS);
    cluster.wait_until("the gateway reports a stale registry", |cluster| cluster.is_stale(FAULTY));
    wait_for_outcome(load, &[FAULTY], ClientGroup::Unchanged, &Outcome::Unavailable);
    cluster.proxies[FAULTY].set(Link::Up);
    let repaired = Instant::now();
    let ready =
        cluster.wait_until("the gateway is ready again", |cluster| cluster.is_ready(FAULTY));
    // The server has polled the registry, because it would otherwise not be ready.
    polled.push((FAULTY, ready));
    let faults =
        vec![scenario.fault(FaultKind::RegistryUnreachable(FAULTY, accepted_until), ready)];
    wait_until_refused(load, &[FAULTY]);
    load.wait_until_served(&ALL_SERVERS, &[ClientGroup::Unchanged]);
    scenario.listeners.wait_for_notifications();
    let revocation =
        Some(Revocation { times, isolated: Some((FAULTY, isolated_at + GRACE)), polled });
    let name = match link {
        Link::Blackhole => {
            format!("a server is cut off from {} (connections carry no data)", engine.name())
        }
        Link::Reset | Link::Up => {
            format!("a server is cut off from {} (connections are reset)", engine.name())
        }
    };
    scenario.finish(
        name,
        Observations { faults, revocation, repaired, ready, isolated_at: Some(isolated_at) },
    )
}

/// Waits until these servers refuse revoked access.
fn wait_until_refused(load: &Load, servers: &[usize]) {
    wait_for_outcome(load, servers, ClientGroup::TokenRevoked, &Outcome::Unauthorized);
    wait_for_outcome(load, servers, ClientGroup::GrantRevoked, &Outcome::Denied);
}

/// Waits until these servers return this outcome to clients of this group.
fn wait_for_outcome(load: &Load, servers: &[usize], group: ClientGroup, outcome: &Outcome) {
    let is_match = |call: &Call, server: usize| {
        let is_same =
            call.server == server && call.group == group && call.kind != RequestKind::Forbidden;
        is_same && call.outcome == *outcome
    };
    load.call_log.wait_until(&format!("{group:?} gets {outcome:?}"), |calls| {
        servers.iter().all(|server| calls.iter().any(|call| is_match(call, *server)))
    });
}
