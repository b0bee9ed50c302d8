//! Faults under load: three servers on one registry serve 64 clients of both protocol eras while a component
//! fails. The upstream logs the key of every call, so each outcome can be checked.

mod cluster;
pub(crate) mod load;
mod checks;
mod scenario;
mod report;

use std::sync::{Mutex, MutexGuard, PoisonError};

use callgate_test_support::Engine;

use cluster::database::RegistryDatabase;
use cluster::proxy::Link;
use cluster::registry::{Program, TestRegistry};
use cluster::upstream::UpstreamMode;
use report::warm_calls;
use scenario::ScenarioResult;

/// Number of calls. It is large enough to show whether each call sends a statement.
const WARM_CALLS: usize = 2000;

/// Serialises scenarios within a process. `.config/nextest.toml` limits the number of processes.
fn lock_scenarios() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_killed_and_restarted_database_causes_no_wrong_reply() {
    let _lock = lock_scenarios();
    ScenarioResult::checked(|| scenario::database_is_killed(Program::Tested, Engine::Postgres));
}

#[test]
fn a_killed_server_loses_only_its_own_calls() {
    let _lock = lock_scenarios();
    ScenarioResult::checked(|| scenario::server_is_killed(Program::Tested, Engine::MariaDb));
}

#[test]
fn no_call_runs_twice_if_a_server_behind_nginx_is_killed() {
    let _lock = lock_scenarios();
    ScenarioResult::checked(|| {
        scenario::server_behind_nginx_is_killed(Program::Tested, Engine::Postgres)
    });
}

#[test]
fn a_server_whose_database_does_not_respond_stops_accepting_revoked_tokens() {
    let _lock = lock_scenarios();
    ScenarioResult::checked(|| {
        scenario::server_is_isolated(Program::Tested, Engine::Postgres, Link::Blackhole)
    });
}

#[test]
fn a_server_disconnected_from_its_database_stops_accepting_revoked_tokens() {
    let _lock = lock_scenarios();
    ScenarioResult::checked(|| {
        scenario::server_is_isolated(Program::Tested, Engine::MariaDb, Link::Reset)
    });
}

#[test]
fn warm_calls_send_no_statement_to_any_database() {
    let _lock = lock_scenarios();
    assert_warm_calls_send_no_statement(RegistryDatabase::without_sql_server());
}

#[test]
fn warm_calls_send_no_statement_to_sql_server() {
    let _lock = lock_scenarios();
    assert_warm_calls_send_no_statement(vec![RegistryDatabase::sql_server()]);
}

fn assert_warm_calls_send_no_statement(databases: Vec<(&str, RegistryDatabase)>) {
    for (name, database) in databases {
        let registry = TestRegistry::new(Program::Tested, database.url(), UpstreamMode::Reliable);
        let counts = warm_calls::warm_calls(&registry, &database, WARM_CALLS);
        assert_eq!(counts.statements, counts.polls, "{name}: {counts:?}");
        // The database also counts the polls, and the query of this test. Its count can be a second
        // late.
        let counted_by_database = counts.counted_by_database.unwrap_or(0);
        assert!(counted_by_database < counts.polls + 50, "{name}: {counts:?}");
    }
}
