//! What excuses a 503, and what does not.

use super::*;

/// A call at this gateway that had a 503 after the fault of gateway 1 was over, and the logs.
fn shown(program: Program, gateway: usize, logs: [String; GATEWAYS]) -> Shown {
    let start = Instant::now();
    let (begin, end) = (start + Duration::from_secs(11), start + Duration::from_secs(12));
    let call = Call {
        client: 0,
        who: Who::Steady,
        gateway,
        asked: Asked::Own,
        key: "0-0".to_owned(),
        begin,
        end,
        outcome: Outcome::Away,
    };
    let fault = Fault {
        broke: Broke::Registry(ONE, start),
        begin: start,
        end: start + Duration::from_secs(10),
        told: 10..50,
    };
    let (calls, faults) = (vec![call], vec![fault]);
    let story = Story { calls, executed: Vec::new(), faults, withdrawal: None };
    let times = Times::of(&story, start, start, None);
    Shown { what: String::new(), story, times, program, logs: logs.into() }
}

#[test]
fn a_503_is_excused_by_its_own_gateway_and_by_what_we_did_not_break() {
    let slow = |at: usize| " ".repeat(at) + TOO_SLOW;
    let quiet = String::new;
    let excused = |program, gateway, logs| shown(program, gateway, logs).machine_is_too_busy();
    let tested = Program::Tested;
    assert!(excused(tested, 0, [slow(0), quiet(), quiet()]));
    assert!(excused(tested, ONE, [quiet(), slow(60), quiet()]));
    assert!(!excused(tested, 0, [quiet(), slow(60), slow(0)]), "another gateway's");
    assert!(!excused(tested, ONE, [quiet(), slow(20), quiet()]), "of our doing");
    assert!(!excused(Program::Dist, 0, [slow(0), quiet(), quiet()]), "the machine is quiet");
}
