//! What breaks, and what is waited for: events, never a time.

use std::time::{Duration, Instant};

use super::cluster::{Brand, Cluster, GATEWAYS};
use super::filled::Program;
use super::judge::{Broke, Fault, Story, UNCAUSED, Withdrawal};
use super::load::Load;
use super::proxy::Wire;
use super::record::{Asked, Call, Outcome, Who};
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
    /// What each gateway printed.
    pub(crate) logs: Vec<String>,
}

impl Shown {
    /// Runs a scenario, and fails with what is wrong, if anything is. Where a gateway found its database
    /// too slow, and so said 503 without our doing, the machine is too busy to tell, and it is tried again.
    pub(crate) fn judged(run: impl Fn() -> Self) -> Self {
        for _ in 1..MAX_RUNS {
            let shown = run();
            let problems = shown.story.problems();
            let is_slow = shown.logs.iter().any(|log| log.contains(TOO_SLOW));
            if problems.is_empty()
                || !is_slow
                || !problems.iter().all(|it| it.starts_with(UNCAUSED))
            {
                return shown.judge();
            }
            eprintln!("{}: the machine is too busy; once more", shown.what);
        }
        run().judge()
    }

    fn judge(self) -> Self {
        let problems = self.story.problems();
        let told = problems.iter().take(MAX_TOLD).cloned().collect::<Vec<_>>().join("\n");
        let (what, count, logs) = (&self.what, problems.len(), self.logs.join("\n"));
        assert!(problems.is_empty(), "{what}: {count} problems\n{told}\n{logs}");
        eprintln!("{what}: {} calls, {:?}", self.story.calls.len(), self.times);
        self
    }
}

/// What is told in figures, and not judged.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Times {
    /// From when it was whole again until every gateway was well.
    pub(crate) recovery: Duration,
    /// From the withdrawal until the last gateway that could hear of it refused.
    pub(crate) heard: Option<Duration>,
    /// How long after the cut the deaf gateway last honoured what was withdrawn.
    pub(crate) honoured: Option<Duration>,
}

/// The database is killed, stays away until tokens no longer count, and comes back.
pub(crate) fn database_is_killed(program: Program, brand: Brand) -> Shown {
    let mut cluster = Cluster::start(program, brand, GRACE);
    let load = cluster.load();
    load.until_served(&EACH, &ALL);
    let begin = Instant::now();
    cluster.database.kill();
    load.record.until("every gateway serves on", |calls| {
        EACH.iter().all(|gateway| calls.iter().any(|it| it.gateway == *gateway && it.is_served()))
    });
    cluster.until("every gateway says so", |it| EACH.iter().all(|gateway| it.is_stale(*gateway)));
    until_each(&load, &EACH, Who::Steady, &Outcome::Away);
    cluster.database.start_again();
    let whole = Instant::now();
    let end = cluster.until("all are ready", |it| EACH.iter().all(|it_is| it.is_ready(*it_is)));
    load.until_served(&EACH, &ALL);
    // They follow the registry again.
    let withdrawn = cluster.registry.withdraw();
    until_refused(&load, &EACH);
    let withdrawal = Withdrawal { begin: withdrawn, deaf: None };
    let faults = EACH.map(|gateway| Fault { broke: Broke::Registry(gateway), begin, end });
    let what = format!("{} is killed", brand.name());
    let times = Times { recovery: end - whole, ..Times::default() };
    shown(what, &mut cluster, load, faults.to_vec(), Some(withdrawal), times)
}

/// A gateway is killed and started again.
pub(crate) fn gateway_is_killed(program: Program, brand: Brand) -> Shown {
    let mut cluster = Cluster::start(program, brand, GRACE);
    let load = cluster.load();
    load.until_served(&EACH, &ALL);
    let begin = Instant::now();
    cluster.gateways[ONE].kill();
    load.until_served(&OTHERS, &ALL);
    let whole = Instant::now();
    cluster.gateways[ONE].start_again();
    let end = cluster.until("it is ready again", |cluster| cluster.is_ready(ONE));
    load.until_served(&EACH, &ALL);
    let faults = vec![Fault { broke: Broke::Gateway(ONE), begin, end }];
    let times = Times { recovery: end - whole, ..Times::default() };
    let what = format!("a gateway on {} is killed", brand.name());
    shown(what, &mut cluster, load, faults, None, times)
}

/// A gateway is cut off from the database, while what others hear of is withdrawn.
pub(crate) fn gateway_is_cut_off(program: Program, brand: Brand, how: Wire) -> Shown {
    let mut cluster = Cluster::start(program, brand, GRACE);
    let load = cluster.load();
    load.until_served(&EACH, &ALL);
    let begin = Instant::now();
    cluster.wires[ONE].set(how);
    let cut = Instant::now();
    let withdrawn = cluster.registry.withdraw();
    until_refused(&load, &OTHERS);
    cluster.until("it says so", |cluster| cluster.is_stale(ONE));
    until_each(&load, &[ONE], Who::Steady, &Outcome::Away);
    cluster.wires[ONE].set(Wire::Passes);
    let whole = Instant::now();
    let end = cluster.until("it is ready again", |cluster| cluster.is_ready(ONE));
    until_refused(&load, &[ONE]);
    load.until_served(&EACH, &[Who::Steady]);
    let faults = vec![Fault { broke: Broke::Registry(ONE), begin, end }];
    let withdrawal = Withdrawal { begin: withdrawn, deaf: Some((ONE, cut + GRACE)) };
    let what = match how {
        Wire::Swallows => format!("a gateway hears nothing more of {}", brand.name()),
        Wire::IsCut | Wire::Passes => format!("a gateway is cut off from {}", brand.name()),
    };
    let times = Times { recovery: end - whole, ..Times::default() };
    let mut shown = shown(what, &mut cluster, load, faults, Some(withdrawal), times);
    let calls = &shown.story.calls;
    let honoured = calls.iter().filter(|it| is_withdrawn(it) && it.is_served());
    let at = |gateways: &[usize]| {
        let there = honoured.clone().filter(|call| gateways.contains(&call.gateway));
        there.map(|call| call.begin).max()
    };
    shown.times.heard = at(&OTHERS).map(|last| last.saturating_duration_since(withdrawn));
    shown.times.honoured = at(&[ONE]).map(|last| last.saturating_duration_since(cut));
    shown
}

fn shown(
    what: String,
    cluster: &mut Cluster,
    load: Load,
    faults: Vec<Fault>,
    withdrawal: Option<Withdrawal>,
    times: Times,
) -> Shown {
    let story =
        Story { calls: load.stop(), executed: cluster.registry.executed(), faults, withdrawal };
    let logs = cluster.gateways.iter_mut().map(Running::said).collect();
    Shown { what, story, times, logs }
}

fn is_withdrawn(call: &Call) -> bool {
    call.who != Who::Steady
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
