//! Tests of the exception for busy machines.

use super::*;

/// Returns a result with a 503 of this server after the fault of server 1.
fn result(program: Program, server: usize, logs: [String; SERVERS]) -> ScenarioResult {
    let start = Instant::now();
    let (begin, end) = (start + Duration::from_secs(11), start + Duration::from_secs(12));
    let call = Call {
        client: 0,
        group: ClientGroup::Unchanged,
        server,
        kind: RequestKind::Write,
        key: "0-0".to_owned(),
        begin,
        end,
        outcome: Outcome::Unavailable,
    };
    let fault = Fault {
        kind: FaultKind::RegistryUnreachable(FAULTY, start),
        begin: start,
        end: start + Duration::from_secs(10),
        log_range: 10..50,
    };
    let (calls, faults) = (vec![call], vec![fault]);
    let run = RunRecord { calls, executed: Vec::new(), faults, revocation: None };
    let timings = Timings::of(&run, start, start, None);
    ScenarioResult { name: String::new(), run, timings, program, logs: logs.into() }
}

#[test]
fn a_503_is_excused_only_by_a_slow_database_of_its_server_outside_of_a_fault() {
    let slow = |at: usize| " ".repeat(at) + TOO_SLOW;
    let quiet = String::new;
    let excused = |program, server, logs| result(program, server, logs).machine_is_too_busy();
    let tested = Program::Tested;
    assert!(excused(tested, 0, [slow(0), quiet(), quiet()]));
    assert!(excused(tested, FAULTY, [quiet(), slow(60), quiet()]));
    assert!(!excused(tested, 0, [quiet(), slow(60), slow(0)]), "log of another gateway");
    assert!(!excused(tested, FAULTY, [quiet(), slow(20), quiet()]), "within the fault");
    assert!(!excused(Program::Dist, 0, [slow(0), quiet(), quiet()]), "measurement");
}
