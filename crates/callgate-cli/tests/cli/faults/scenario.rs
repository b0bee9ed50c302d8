//! What breaks, and what is waited for: events, never a time.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::balancer;
use super::churn::Churn;
use super::cluster::{Brand, Cluster, GATEWAYS};
use super::filled::Program;
use super::judge::{Broke, Fault, Problem, Story, UNCAUSED, Withdrawal};
use super::listeners::Listeners;
use super::load::Load;
use super::proxy::Wire;
use super::record::{Asked, Call, Outcome, Who};
use super::times::Times;
use crate::real::servers::Running;

/// Every kind of client.
const ALL: [Who; 3] = [Who::Steady, Who::Doomed, Who::Demoted];
/// Every gateway.
const EACH: [usize; GATEWAYS] = [0, 1, 2];
/// The gateway that something happens to, and the others.
const ONE: usize = 1;
/// See [`ONE`].
const OTHERS: [usize; 2] = [0, 2];
/// So many problems are told.
const MAX_TOLD: usize = 10;
/// So often a scenario is run where the machine is too busy.
const MAX_RUNS: usize = 3;
/// What a gateway logs of a database that takes its time.
const TOO_SLOW: &str = "did not answer within";
/// How long tokens count while the registry is away.
pub(crate) const GRACE: Duration = Duration::from_secs(4);

/// What happened, and what took how long.
pub(crate) struct Shown {
    pub(crate) what: String,
    pub(crate) story: Story,
    pub(crate) times: Times,
    program: Program,
    /// What each gateway printed.
    logs: Vec<String>,
}

impl Shown {
    /// Runs a scenario, and fails with what is wrong, if anything is.
    pub(crate) fn judged(run: impl Fn() -> Self) -> Self {
        for _ in 1..MAX_RUNS {
            let shown = run();
            if !shown.machine_is_too_busy() {
                return shown.judge();
            }
            eprintln!("{}: the machine is too busy; once more", shown.what);
        }
        run().judge()
    }

    /// Whether all that is wrong are 503s of gateways that found their database too slow without our doing.
    /// Where the program is measured, the machine is quiet.
    fn machine_is_too_busy(&self) -> bool {
        let problems = self.story.problems();
        let is_excused =
            |problem: &Problem| problem.what == UNCAUSED && self.was_slow(problem.call.gateway);
        self.program == Program::Tested && !problems.is_empty() && problems.iter().all(is_excused)
    }

    /// Whether a gateway found its database too slow while nothing was wrong with either.
    fn was_slow(&self, gateway: usize) -> bool {
        let faults = &self.story.faults;
        let is_ours = |at: usize| {
            let mut own = faults.iter().filter(|fault| fault.broke.gateway() == gateway);
            own.any(|fault| fault.told.contains(&at))
        };
        self.logs[gateway].match_indices(TOO_SLOW).any(|(at, _)| !is_ours(at))
    }

    fn judge(self) -> Self {
        let problems = self.story.problems();
        let told: Vec<String> = problems.iter().take(MAX_TOLD).map(ToString::to_string).collect();
        let told = told.join("\n");
        let (what, count, logs) = (&self.what, problems.len(), self.logs.join("\n"));
        assert!(problems.is_empty(), "{what}: {count} problems\n{told}\n{logs}");
        eprintln!("{what}: {} calls, {:?}", self.story.calls.len(), self.times);
        self
    }
}

/// A scenario while it runs.
struct Scene {
    cluster: Cluster,
    load: Load,
    listeners: Listeners,
    churn: Churn,
    /// When something broke, and how much each gateway had printed by then.
    broke: (Instant, [usize; GATEWAYS]),
}

/// What is known of it at the end.
struct Seen {
    faults: Vec<Fault>,
    withdrawal: Option<Withdrawal>,
    /// When it was whole again.
    whole: Instant,
    /// When all was well.
    well: Instant,
    /// When a gateway was cut off.
    cut: Option<Instant>,
}

impl Scene {
    /// The clients ask the gateways themselves.
    fn set(program: Program, brand: Brand) -> Self {
        let cluster = Cluster::start(program, brand, GRACE);
        let addresses = cluster.addresses();
        Self::with(cluster, &addresses)
    }

    /// The clients ask these addresses. All is well, and something is about to break.
    fn with(cluster: Cluster, addresses: &[SocketAddr]) -> Self {
        let (load, churn) = (cluster.load(addresses), cluster.churn());
        let listeners = cluster.listeners(addresses);
        load.until_served(&EACH[..addresses.len()], &ALL);
        listeners.until_told();
        let broke = (Instant::now(), EACH.map(|gateway| cluster.told(gateway)));
        Self { cluster, load, listeners, churn, broke }
    }

    /// Something broke, and is well at `end`, which is about now.
    fn fault(&self, broke: Broke, end: Instant) -> Fault {
        let (gateway, (begin, before)) = (broke.gateway(), self.broke);
        let told = match broke {
            Broke::Registry(..) => before[gateway]..self.cluster.told(gateway),
            // It has begun a new log, and nothing was wrong with its registry.
            Broke::Gateway(_) => 0..0,
        };
        Fault { broke, begin, end, told }
    }

    /// Withdraws something at the end: every gateway follows the registry.
    fn withdraw(&self) -> Withdrawal {
        let withdrawn = self.cluster.registry.withdraw();
        let looked = self.cluster.until_looked(&EACH);
        until_refused(&self.load, &EACH);
        Withdrawal { withdrawn, deaf: None, looked }
    }

    fn shown(self, what: String, seen: Seen) -> Shown {
        let Self { cluster, load, listeners, churn, .. } = self;
        drop((listeners, churn));
        let Seen { faults, withdrawal, whole, well, cut } = seen;
        let (calls, executed) = (load.stop(), cluster.registry.executed());
        let story = Story { calls, executed, faults, withdrawal };
        let times = Times::of(&story, whole, well, cut);
        let logs = cluster.gateways.iter().map(Running::said).collect();
        Shown { what, story, times, program: cluster.registry.program, logs }
    }
}

/// The database is killed, stays away until tokens no longer count, and comes back.
pub(crate) fn database_is_killed(program: Program, brand: Brand) -> Shown {
    let scene = Scene::set(program, brand);
    let (cluster, load) = (&scene.cluster, &scene.load);
    cluster.database.kill();
    let honoured = EACH.map(|gateway| cluster.honoured_until(gateway, GRACE));
    load.record.until("every gateway serves on", |calls| {
        EACH.iter().all(|gateway| calls.iter().any(|it| it.gateway == *gateway && it.is_served()))
    });
    cluster.until("every gateway says so", |it| EACH.iter().all(|gateway| it.is_stale(*gateway)));
    until_each(load, &EACH, Who::Steady, &Outcome::Away);
    cluster.database.restart();
    let whole = Instant::now();
    let well = cluster.until("all are ready", |it| EACH.iter().all(|it_is| it.is_ready(*it_is)));
    let faults = EACH.map(|one| scene.fault(Broke::Registry(one, honoured[one]), well)).to_vec();
    load.until_served(&EACH, &ALL);
    scene.listeners.until_told();
    let withdrawal = Some(scene.withdraw());
    let what = format!("{} is killed", brand.name());
    scene.shown(what, Seen { faults, withdrawal, whole, well, cut: None })
}

/// A gateway is killed and started again.
pub(crate) fn gateway_is_killed(program: Program, brand: Brand) -> Shown {
    let mut scene = Scene::set(program, brand);
    scene.cluster.gateways[ONE].kill();
    scene.load.until_served(&OTHERS, &ALL);
    let whole = Instant::now();
    scene.cluster.gateways[ONE].start_again();
    let well = scene.cluster.until("it is ready again", |cluster| cluster.is_ready(ONE));
    let faults = vec![scene.fault(Broke::Gateway(ONE), well)];
    scene.load.until_served(&EACH, &ALL);
    scene.listeners.until_told();
    let withdrawal = Some(scene.withdraw());
    let what = format!("a gateway on {} is killed", brand.name());
    scene.shown(what, Seen { faults, withdrawal, whole, well, cut: None })
}

/// The same, with nginx before all of them: to the clients it is one gateway.
pub(crate) fn gateway_behind_nginx_is_killed(program: Program, brand: Brand) -> Shown {
    const NGINX: usize = 0;
    let cluster = Cluster::start(program, brand, GRACE);
    let files = tempfile::tempdir().unwrap();
    let nginx = balancer::nginx(files.path(), &cluster.addresses());
    let mut scene = Scene::with(cluster, &[nginx.address]);
    scene.cluster.gateways[ONE].kill();
    scene.load.until_served(&[NGINX], &ALL);
    let whole = Instant::now();
    scene.cluster.gateways[ONE].start_again();
    let well = scene.cluster.until("it is ready again", |cluster| cluster.is_ready(ONE));
    let faults = vec![scene.fault(Broke::Gateway(NGINX), well)];
    scene.load.until_served(&[NGINX], &ALL);
    scene.listeners.until_told();
    let what = format!("a gateway on {} is killed behind nginx", brand.name());
    let mut shown = scene.shown(what, Seen { faults, withdrawal: None, whole, well, cut: None });
    // A 503 may be of any of them.
    shown.logs = vec![shown.logs.join("\n")];
    shown
}

/// A gateway is cut off from the database, while what others hear of is withdrawn.
pub(crate) fn gateway_is_cut_off(program: Program, brand: Brand, how: Wire) -> Shown {
    let scene = Scene::set(program, brand);
    let (cluster, load) = (&scene.cluster, &scene.load);
    cluster.wires[ONE].set(how);
    let cut = Instant::now();
    let honoured = cluster.honoured_until(ONE, GRACE);
    let withdrawn = cluster.registry.withdraw();
    let mut looked = cluster.until_looked(&OTHERS);
    until_refused(load, &OTHERS);
    cluster.until("it says so", |cluster| cluster.is_stale(ONE));
    until_each(load, &[ONE], Who::Steady, &Outcome::Away);
    cluster.wires[ONE].set(Wire::Passes);
    let whole = Instant::now();
    let well = cluster.until("it is ready again", |cluster| cluster.is_ready(ONE));
    // It has looked, or would not say so.
    looked.push((ONE, well));
    let faults = vec![scene.fault(Broke::Registry(ONE, honoured), well)];
    until_refused(load, &[ONE]);
    load.until_served(&EACH, &[Who::Steady]);
    scene.listeners.until_told();
    let withdrawal = Some(Withdrawal { withdrawn, deaf: Some((ONE, cut + GRACE)), looked });
    let what = match how {
        Wire::Swallows => format!("a gateway receives nothing from {}", brand.name()),
        Wire::IsCut | Wire::Passes => format!("a gateway is cut off from {}", brand.name()),
    };
    scene.shown(what, Seen { faults, withdrawal, whole, well, cut: Some(cut) })
}

/// Waits until what was withdrawn is refused at each of these gateways.
fn until_refused(load: &Load, gateways: &[usize]) {
    until_each(load, gateways, Who::Doomed, &Outcome::Unknown);
    until_each(load, gateways, Who::Demoted, &Outcome::Denied);
}

/// Waits until each of these gateways gave this to clients of this kind.
fn until_each(load: &Load, gateways: &[usize], who: Who, outcome: &Outcome) {
    let is_it = |call: &Call, gateway: usize| {
        let is_asked = call.gateway == gateway && call.who == who && call.asked != Asked::Secret;
        is_asked && call.outcome == *outcome
    };
    load.record.until(&format!("{who:?} get {outcome:?}"), |calls| {
        gateways.iter().all(|gateway| calls.iter().any(|call| is_it(call, *gateway)))
    });
}
