//! Faults under load: three gateways on one registry, sixty-four clients of both eras, and something that
//! breaks. Every call has a key that the upstream logs, so that it can be said of each what became of it.

mod balancer;
mod churn;
pub(crate) mod client;
mod cluster;
mod figures;
mod filled;
mod judge;
mod kept;
mod listeners;
mod load;
mod metrics;
mod proxy;
mod record;
mod scenario;
mod start_up;
mod times;
mod upstream;
mod warm;
pub(crate) mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster::Brand;
use filled::{Filled, Program};
use kept::Kept;
use proxy::Wire;
use scenario::Shown;
use upstream::Manner;

/// So many calls show whether each of them asks something.
const WARM_CALLS: usize = 2000;

/// One scenario at a time in a process; how many processes run scenarios is in `.config/nextest.toml`.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn users_9_a_database_that_is_killed_and_comes_back_costs_no_wrong_answer() {
    let _alone = alone();
    Shown::judged(|| scenario::database_is_killed(Program::Tested, Brand::Postgres));
}

#[test]
fn users_9_a_gateway_that_is_killed_takes_only_its_own_calls_with_it() {
    let _alone = alone();
    Shown::judged(|| scenario::gateway_is_killed(Program::Tested, Brand::MariaDb));
}

#[test]
fn a_gateway_that_is_killed_behind_nginx_has_no_call_run_twice() {
    let _alone = alone();
    Shown::judged(|| scenario::gateway_behind_nginx_is_killed(Program::Tested, Brand::Postgres));
}

#[test]
fn a_gateway_that_hears_nothing_of_its_database_stops_honouring_what_was_withdrawn() {
    let _alone = alone();
    Shown::judged(|| {
        scenario::gateway_is_cut_off(Program::Tested, Brand::Postgres, Wire::Swallows)
    });
}

#[test]
fn a_gateway_that_is_cut_off_from_its_database_stops_honouring_what_was_withdrawn() {
    let _alone = alone();
    Shown::judged(|| scenario::gateway_is_cut_off(Program::Tested, Brand::MariaDb, Wire::IsCut));
}

#[test]
fn warm_calls_ask_nothing_of_any_database() {
    let _alone = alone();
    warm_calls_ask_nothing(Kept::real());
}

#[test]
fn warm_calls_ask_nothing_of_sql_server() {
    let _alone = alone();
    warm_calls_ask_nothing(vec![Kept::sql_server()]);
}

fn warm_calls_ask_nothing(databases: Vec<(&str, Kept)>) {
    for (name, kept) in databases {
        let filled = Filled::new(Program::Tested, kept.url(), Manner::Calm);
        let counted = warm::warm_calls(&filled, &kept, WARM_CALLS);
        assert_eq!(counted.statements, counted.looks, "{name}: {counted:?}");
        // The database counts the looks too, and who asks it; and it may be a second late.
        let seen = counted.seen.unwrap_or(0);
        assert!(seen < counted.looks + 50, "{name}: {counted:?}");
    }
}
