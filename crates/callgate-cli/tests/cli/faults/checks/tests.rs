//! Tests of the checks.

use std::time::Duration;

use super::*;

const GRACE: Duration = Duration::from_secs(2);
/// Minimum time after the begin of the fault during which tokens are accepted.
const ACCEPTED: Duration = Duration::from_millis(1500);

/// Returns a call of a client whose token is revoked. It begins `after` seconds after server 1 was
/// disconnected at `start`.
fn call(start: Instant, after: u64, outcome: Outcome) -> Call {
    let begin = start + Duration::from_secs(after);
    let (client, group, server, kind) = (6, ClientGroup::TokenRevoked, 1, RequestKind::Write);
    let (end, key) = (begin + Duration::from_millis(5), format!("6-{after}"));
    Call { client, group, server, kind, key, begin, end, outcome }
}

/// Returns a run with a fault of ten seconds and a revocation after one second. Server 0 reads the
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
fn violation_descriptions(
    start: Instant,
    calls: Vec<Call>,
    executed: &[(&str, End)],
) -> Vec<&'static str> {
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
    assert_eq!(violation_descriptions(start, calls, &[("6-0", End::Answered)]), [""; 0]);
}

#[test]
fn each_kind_of_violation_is_found() {
    let start = Instant::now();
    let single_call = |after, outcome| vec![call(start, after, outcome)];
    let wrong_reply = single_call(0, Outcome::Wrong(String::new()));
    assert_eq!(violation_descriptions(start, wrong_reply, &[]), ["wrong answer"]);
    let forbidden = Call { kind: RequestKind::Forbidden, ..call(start, 0, Outcome::Answered) };
    assert_eq!(violation_descriptions(start, vec![forbidden], &[]), ["answered a forbidden tool"]);
    let before_revocation = single_call(0, Outcome::Unauthorized);
    assert_eq!(violation_descriptions(start, before_revocation, &[]), ["error without a fault"]);
    let unaffected =
        Call { group: ClientGroup::Unchanged, ..call(start, 11, Outcome::Unavailable) };
    assert_eq!(violation_descriptions(start, vec![unaffected], &[]), [UNEXPLAINED_503]);
    let lost_connection = single_call(1, Outcome::ConnectionLost(String::new()));
    assert_eq!(violation_descriptions(start, lost_connection, &[]), ["error without a fault"]);
    let accepted = single_call(3, Outcome::Answered);
    assert_eq!(
        violation_descriptions(start, accepted, &[("6-3", End::Answered)]),
        ["accepted after the grace period"]
    );
    let after_poll = Call { server: 0, ..call(start, 4, Outcome::Answered) };
    let descriptions = violation_descriptions(start, vec![after_poll], &[("6-4", End::Answered)]);
    assert_eq!(descriptions, ["accepted after a poll of the registry"]);
    let within_grace =
        Call { group: ClientGroup::Unchanged, ..call(start, 1, Outcome::Unavailable) };
    assert_eq!(
        violation_descriptions(start, vec![within_grace], &[]),
        ["refused within the grace period"]
    );
    let accepted_again =
        vec![call(start, 1, Outcome::Unauthorized), call(start, 2, Outcome::Answered)];
    assert_eq!(
        violation_descriptions(start, accepted_again, &[("6-2", End::Answered)]),
        ["accepted again after a refusal"]
    );
    let repeated = single_call(0, Outcome::Answered);
    assert_eq!(
        violation_descriptions(start, repeated, &[("6-0", End::Answered); 2]),
        ["executed more than once"]
    );
    let not_executed = single_call(0, Outcome::Answered);
    assert_eq!(violation_descriptions(start, not_executed, &[]), ["answered but not executed"]);
    let refused = single_call(3, Outcome::Unavailable);
    assert_eq!(
        violation_descriptions(start, refused, &[("6-3", End::Answered)]),
        ["refused but executed"]
    );
}

#[test]
fn a_call_is_retried_after_a_closed_connection_only_if_it_is_read_only() {
    let start = Instant::now();
    let violations = |kind, outcome, ends: &[End]| {
        let executions: Vec<_> = ends.iter().map(|end| ("6-0", *end)).collect();
        violation_descriptions(start, vec![Call { kind, ..call(start, 0, outcome) }], &executions)
    };
    let failed = || Outcome::Failed(String::new());
    assert_eq!(violations(RequestKind::Write, failed(), &[End::ClosedBeforeReply]), [""; 0]);
    assert_eq!(violations(RequestKind::Write, failed(), &[End::ClosedDuringReply]), [""; 0]);
    assert_eq!(violations(RequestKind::Read, failed(), &[End::ClosedDuringReply]), [""; 0]);
    let retried = [End::ClosedBeforeReply, End::Answered];
    assert_eq!(violations(RequestKind::Read, Outcome::Answered, &retried), [""; 0]);
    assert_eq!(
        violations(RequestKind::Write, Outcome::Answered, &retried),
        ["executed more than once"]
    );
    let retried_during_reply = [End::ClosedDuringReply, End::Answered];
    assert_eq!(
        violations(RequestKind::Read, Outcome::Answered, &retried_during_reply),
        ["executed more than once"]
    );
    assert_eq!(
        violations(RequestKind::Read, failed(), &[End::ClosedBeforeReply]),
        ["error without a fault"]
    );
    assert_eq!(
        violations(RequestKind::Write, failed(), &[End::Answered]),
        ["error without a fault"]
    );
    let not_executed = ["answered but not executed"];
    assert_eq!(
        violations(RequestKind::Write, Outcome::Answered, &[End::ClosedDuringReply]),
        not_executed
    );
}
