//! The judgement finds what it is there for.

use std::time::Duration;

use super::*;

const GRACE: Duration = Duration::from_secs(2);

/// One call of a client that is doomed, at gateway 1, which was cut off at `start`; it began so many
/// seconds later.
fn call(start: Instant, after: u64, outcome: Outcome) -> Call {
    let begin = start + Duration::from_secs(after);
    let (client, who, gateway, asked) = (6, Who::Doomed, 1, Asked::Own);
    let (end, key) = (begin + Duration::from_millis(5), format!("6-{after}"));
    Call { client, who, gateway, asked, key, begin, end, outcome }
}

/// A fault of ten seconds, and a withdrawal one second into it.
fn story(start: Instant, calls: Vec<Call>, executed: &[&str]) -> Story {
    let broke = Broke::Registry(1);
    let deaf = Some((1, start + GRACE));
    Story {
        calls,
        executed: executed.iter().map(|key| ("work.do".to_owned(), (*key).to_owned())).collect(),
        faults: vec![Fault { broke, begin: start, end: start + Duration::from_secs(10) }],
        withdrawal: Some(Withdrawal { begin: start + Duration::from_secs(1), deaf }),
    }
}

/// What is found, without the calls.
fn found(start: Instant, calls: Vec<Call>, executed: &[&str]) -> Vec<String> {
    let problems = story(start, calls, executed).problems();
    problems.iter().map(|it| it.split(": ").next().unwrap().to_owned()).collect()
}

#[test]
fn what_may_be_is_no_problem() {
    let start = Instant::now();
    let calls = vec![
        call(start, 0, Outcome::Answered),
        call(start, 3, Outcome::Away),
        call(start, 11, Outcome::Unknown),
    ];
    assert_eq!(found(start, calls, &["6-0"]), [""; 0]);
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
    assert_eq!(found(start, honoured, &["6-3"]), ["honoured beyond the bound"]);
    let again = vec![call(start, 1, Outcome::Unknown), call(start, 2, Outcome::Answered)];
    assert_eq!(found(start, again, &["6-2"]), ["honoured again after a refusal"]);
    let twice = one(0, Outcome::Answered);
    assert_eq!(found(start, twice, &["6-0", "6-0"]), ["executed more than once"]);
    let never = one(0, Outcome::Answered);
    assert_eq!(found(start, never, &[]), ["answered without having been executed"]);
    let refused = one(3, Outcome::Away);
    assert_eq!(found(start, refused, &["6-3"]), ["refused, and executed all the same"]);
}
