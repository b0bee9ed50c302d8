//! The judgement finds what it is there for.

use std::time::Duration;

use super::*;

const GRACE: Duration = Duration::from_secs(2);
/// So long after the fault began tokens are honoured at least.
const HONOURED: Duration = Duration::from_millis(1500);

/// One call of a client that is doomed, at gateway 1, which was cut off at `start`; it began so many
/// seconds later.
fn call(start: Instant, after: u64, outcome: Outcome) -> Call {
    let begin = start + Duration::from_secs(after);
    let (client, who, gateway, asked) = (6, Who::Doomed, 1, Asked::Own);
    let (end, key) = (begin + Duration::from_millis(5), format!("6-{after}"));
    Call { client, who, gateway, asked, key, begin, end, outcome }
}

/// A fault of ten seconds, and a withdrawal one second into it. Gateway 0 has heard of that after three.
fn story(start: Instant, calls: Vec<Call>, executed: &[(&str, End)]) -> Story {
    let at = |seconds| start + Duration::from_secs(seconds);
    let executed = executed.iter().map(|(key, end)| Execution {
        method: "work.do".to_owned(),
        key: (*key).to_owned(),
        end: *end,
    });
    let withdrawn = Withdrawn::at_once(at(1));
    let (deaf, looked) = (Some((1, start + GRACE)), vec![(0, at(3))]);
    let broke = Broke::Registry(1, start + HONOURED);
    Story {
        calls,
        executed: executed.collect(),
        faults: vec![Fault { broke, begin: start, end: at(10), told: 0..0 }],
        withdrawal: Some(Withdrawal { withdrawn, deaf, looked }),
    }
}

/// What is found.
fn found(start: Instant, calls: Vec<Call>, executed: &[(&str, End)]) -> Vec<&'static str> {
    story(start, calls, executed).problems().iter().map(|it| it.what).collect()
}

#[test]
fn what_may_be_is_no_problem() {
    let start = Instant::now();
    let calls = vec![
        call(start, 0, Outcome::Answered),
        call(start, 3, Outcome::Away),
        call(start, 11, Outcome::Unknown),
    ];
    assert_eq!(found(start, calls, &[("6-0", End::Answered)]), [""; 0]);
}

#[test]
fn each_promise_that_is_broken_is_found() {
    let start = Instant::now();
    let one = |after, outcome| vec![call(start, after, outcome)];
    let wrong = one(0, Outcome::Wrong(String::new()));
    assert_eq!(found(start, wrong, &[]), ["a wrong answer"]);
    let secret = Call { asked: Asked::Secret, ..call(start, 0, Outcome::Answered) };
    assert_eq!(found(start, vec![secret], &[]), ["a tool that was not granted"]);
    let early = one(0, Outcome::Unknown);
    assert_eq!(found(start, early, &[]), ["an error without a cause"]);
    let steady = Call { who: Who::Steady, ..call(start, 11, Outcome::Away) };
    assert_eq!(found(start, vec![steady], &[]), [UNCAUSED]);
    let broken = one(1, Outcome::Broken(String::new()));
    assert_eq!(found(start, broken, &[]), ["an error without a cause"]);
    let honoured = one(3, Outcome::Answered);
    assert_eq!(found(start, honoured, &[("6-3", End::Answered)]), ["honoured beyond the bound"]);
    let heard = Call { gateway: 0, ..call(start, 4, Outcome::Answered) };
    let looked = found(start, vec![heard], &[("6-4", End::Answered)]);
    assert_eq!(looked, ["honoured after a look at the registry"]);
    let hasty = Call { who: Who::Steady, ..call(start, 1, Outcome::Away) };
    assert_eq!(found(start, vec![hasty], &[]), ["refused while tokens are honoured"]);
    let again = vec![call(start, 1, Outcome::Unknown), call(start, 2, Outcome::Answered)];
    assert_eq!(found(start, again, &[("6-2", End::Answered)]), ["honoured again after a refusal"]);
    let twice = one(0, Outcome::Answered);
    assert_eq!(found(start, twice, &[("6-0", End::Answered); 2]), ["executed more than once"]);
    let never = one(0, Outcome::Answered);
    assert_eq!(found(start, never, &[]), ["answered without having been executed"]);
    let refused = one(3, Outcome::Away);
    assert_eq!(
        found(start, refused, &[("6-3", End::Answered)]),
        ["refused, and executed all the same"]
    );
}

/// What the service breaks off is told to the caller, and sent once more only where D31 allows it.
#[test]
fn a_call_that_the_service_breaks_off_is_asked_again_only_if_it_reads() {
    let start = Instant::now();
    let broken = |asked, outcome, ends: &[End]| {
        let ran: Vec<_> = ends.iter().map(|end| ("6-0", *end)).collect();
        found(start, vec![Call { asked, ..call(start, 0, outcome) }], &ran)
    };
    let failed = || Outcome::Failed(String::new());
    assert_eq!(broken(Asked::Own, failed(), &[End::HungUp]), [""; 0]);
    assert_eq!(broken(Asked::Own, failed(), &[End::BrokeOff]), [""; 0]);
    assert_eq!(broken(Asked::Read, failed(), &[End::BrokeOff]), [""; 0]);
    let twice = [End::HungUp, End::Answered];
    assert_eq!(broken(Asked::Read, Outcome::Answered, &twice), [""; 0]);
    assert_eq!(broken(Asked::Own, Outcome::Answered, &twice), ["executed more than once"]);
    let within = [End::BrokeOff, End::Answered];
    assert_eq!(broken(Asked::Read, Outcome::Answered, &within), ["executed more than once"]);
    assert_eq!(broken(Asked::Read, failed(), &[End::HungUp]), ["an error without a cause"]);
    assert_eq!(broken(Asked::Own, failed(), &[End::Answered]), ["an error without a cause"]);
    let made_up = ["answered without having been executed"];
    assert_eq!(broken(Asked::Own, Outcome::Answered, &[End::BrokeOff]), made_up);
}
