//! Tests of the checks.

use std::time::Duration;

use super::*;

const GRACE: Duration = Duration::from_secs(2);
/// Minimum time after the begin of the fault during which tokens are accepted.
const ACCEPTED: Duration = Duration::from_millis(1500);

/// Returns a call of a client whose token is revoked. It begins `after` seconds after gateway 1 was
/// disconnected at `start`.
fn call(start: Instant, after: u64, outcome: Outcome) -> Call {
    let begin = start + Duration::from_secs(after);
    let (client, group, gateway, kind) = (6, ClientGroup::TokenRevoked, 1, RequestKind::Write);
    let (end, key) = (begin + Duration::from_millis(5), format!("6-{after}"));
    Call { client, group, gateway, kind, key, begin, end, outcome }
}

/// Returns a run with a fault of ten seconds and a revocation after one second. Gateway 0 reads the
/// revocation after three seconds.
fn run(start: Instant, calls: Vec<Call>, executed: &[(&str, End)]) -> RunRecord {
    let at = |seconds| start + Duration::from_secs(seconds);
    let executed = executed.iter().map(|(key, end)| Execution {
        method: "work.do".to_owned(),
        key: (*key).to_owned(),
        end: *end,
    });
    let times = RevocationTimes::at_once(at(1));
    let (isolated, polled) = (Some((1, start + GRACE)), vec![(0, at(3))]);
    let kind = FaultKind::RegistryUnreachable(1, start + ACCEPTED);
    RunRecord {
        calls,
        executed: executed.collect(),
        faults: vec![Fault { kind, begin: start, end: at(10), log_range: 0..0 }],
        revocation: Some(Revocation { times, isolated, polled }),
    }
}

/// Returns the descriptions of the violations.
fn found(start: Instant, calls: Vec<Call>, executed: &[(&str, End)]) -> Vec<&'static str> {
    run(start, calls, executed).violations().iter().map(|it| it.description).collect()
}

#[test]
fn allowed_outcomes_are_no_violations() {
    let start = Instant::now();
    let calls = vec![
        call(start, 0, Outcome::Answered),
        call(start, 3, Outcome::Unavailable),
        call(start, 11, Outcome::Unauthorized),
    ];
    assert_eq!(found(start, calls, &[("6-0", End::Answered)]), [""; 0]);
}

#[test]
fn each_kind_of_violation_is_found() {
    let start = Instant::now();
    let one = |after, outcome| vec![call(start, after, outcome)];
    let wrong = one(0, Outcome::Wrong(String::new()));
    assert_eq!(found(start, wrong, &[]), ["wrong answer"]);
    let secret = Call { kind: RequestKind::Forbidden, ..call(start, 0, Outcome::Answered) };
    assert_eq!(found(start, vec![secret], &[]), ["answered a forbidden tool"]);
    let early = one(0, Outcome::Unauthorized);
    assert_eq!(found(start, early, &[]), ["error without a fault"]);
    let steady = Call { group: ClientGroup::Unchanged, ..call(start, 11, Outcome::Unavailable) };
    assert_eq!(found(start, vec![steady], &[]), [UNEXPLAINED_503]);
    let broken = one(1, Outcome::ConnectionLost(String::new()));
    assert_eq!(found(start, broken, &[]), ["error without a fault"]);
    let accepted = one(3, Outcome::Answered);
    assert_eq!(
        found(start, accepted, &[("6-3", End::Answered)]),
        ["accepted after the grace period"]
    );
    let heard = Call { gateway: 0, ..call(start, 4, Outcome::Answered) };
    let polled = found(start, vec![heard], &[("6-4", End::Answered)]);
    assert_eq!(polled, ["accepted after a poll of the registry"]);
    let hasty = Call { group: ClientGroup::Unchanged, ..call(start, 1, Outcome::Unavailable) };
    assert_eq!(found(start, vec![hasty], &[]), ["refused within the grace period"]);
    let again = vec![call(start, 1, Outcome::Unauthorized), call(start, 2, Outcome::Answered)];
    assert_eq!(found(start, again, &[("6-2", End::Answered)]), ["accepted again after a refusal"]);
    let twice = one(0, Outcome::Answered);
    assert_eq!(found(start, twice, &[("6-0", End::Answered); 2]), ["executed more than once"]);
    let never = one(0, Outcome::Answered);
    assert_eq!(found(start, never, &[]), ["answered but not executed"]);
    let refused = one(3, Outcome::Unavailable);
    assert_eq!(found(start, refused, &[("6-3", End::Answered)]), ["refused but executed"]);
}

#[test]
fn a_call_is_retried_after_a_closed_connection_only_if_it_is_read_only() {
    let start = Instant::now();
    let broken = |kind, outcome, ends: &[End]| {
        let ran: Vec<_> = ends.iter().map(|end| ("6-0", *end)).collect();
        found(start, vec![Call { kind, ..call(start, 0, outcome) }], &ran)
    };
    let failed = || Outcome::Failed(String::new());
    assert_eq!(broken(RequestKind::Write, failed(), &[End::ClosedBeforeReply]), [""; 0]);
    assert_eq!(broken(RequestKind::Write, failed(), &[End::ClosedDuringReply]), [""; 0]);
    assert_eq!(broken(RequestKind::Read, failed(), &[End::ClosedDuringReply]), [""; 0]);
    let twice = [End::ClosedBeforeReply, End::Answered];
    assert_eq!(broken(RequestKind::Read, Outcome::Answered, &twice), [""; 0]);
    assert_eq!(broken(RequestKind::Write, Outcome::Answered, &twice), ["executed more than once"]);
    let within = [End::ClosedDuringReply, End::Answered];
    assert_eq!(broken(RequestKind::Read, Outcome::Answered, &within), ["executed more than once"]);
    assert_eq!(
        broken(RequestKind::Read, failed(), &[End::ClosedBeforeReply]),
        ["error without a fault"]
    );
    assert_eq!(broken(RequestKind::Write, failed(), &[End::Answered]), ["error without a fault"]);
    let made_up = ["answered but not executed"];
    assert_eq!(broken(RequestKind::Write, Outcome::Answered, &[End::ClosedDuringReply]), made_up);
}
