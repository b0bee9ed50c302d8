//! The judgement: what may have come of a call, given the faults that there were.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use super::filled::{SECRET_METHOD, Withdrawn};
use super::record::{Asked, Call, Outcome, Who};
use super::upstream::{End, Execution};

/// A 503 for which nothing was broken.
pub(crate) const UNCAUSED: &str = "a 503 without a cause";

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broke {
    /// Connections to a gateway may fail.
    Gateway(usize),
    /// A gateway may not know who callers are. Those that it knows, it honours until then at least.
    Registry(usize, Instant),
}

impl Broke {
    pub(crate) fn gateway(self) -> usize {
        match self {
            Self::Gateway(gateway) | Self::Registry(gateway, _) => gateway,
        }
    }
}

/// From before it was broken until all was seen to be well.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) broke: Broke,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
    /// Where in its log is what the gateway printed of it.
    pub(crate) told: Range<usize>,
}

/// The token of the doomed was revoked, and the grant of the demoted withdrawn.
#[derive(Debug, Clone)]
pub(crate) struct Withdrawal {
    pub(crate) withdrawn: Withdrawn,
    /// A gateway that could not hear of it, and when it must have stopped at the latest.
    pub(crate) deaf: Option<(usize, Instant)>,
    /// By gateway, when it had seen a registry in which all was withdrawn.
    pub(crate) looked: Vec<(usize, Instant)>,
}

/// All that happened.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) calls: Vec<Call>,
    pub(crate) executed: Vec<Execution>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) withdrawal: Option<Withdrawal>,
}

/// Something that is wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) what: &'static str,
    pub(crate) call: Call,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?}", self.what, self.call)
    }
}

/// How a call went at the service, each time that it ran there.
type Runs<'a> = HashMap<&'a str, Vec<&'a Execution>>;

impl Story {
    /// What is wrong.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let (refusals, runs) = (self.first_refusals(), self.runs());
        let of_call = |call: &Call| {
            let runs = runs.get(call.key.as_str()).map_or(&[][..], Vec::as_slice);
            let of_it = [
                problem_of_runs(call, runs),
                self.too_late(call, &refusals),
                self.problem_of_outcome(call, runs),
            ];
            of_it.into_iter().flatten().map(|what| Problem { what, call: call.clone() }).next()
        };
        self.calls.iter().filter_map(of_call).collect()
    }

    fn problem_of_outcome(&self, call: &Call, runs: &[&Execution]) -> Option<&'static str> {
        let withdrawn = self.withdrawal.as_ref().and_then(|it| it.withdrawn.of(call.who));
        let withdrawn = withdrawn.is_some_and(|(begin, _)| call.end > begin);
        let is_fine = match (&call.outcome, call.asked) {
            (Outcome::Wrong(_), _) => return Some("a wrong answer"),
            (Outcome::Answered, Asked::Secret) => return Some("a tool that was not granted"),
            (Outcome::Answered, _) | (Outcome::Denied, Asked::Secret) => true,
            (Outcome::Denied, _) => withdrawn && call.who == Who::Demoted,
            (Outcome::Unknown, _) => withdrawn && call.who == Who::Doomed,
            // A revoked token is looked up each time; where that takes too long it is refused too.
            (Outcome::Away, _) if withdrawn && call.who == Who::Doomed => true,
            (Outcome::Away, _) => return self.problem_of_503(call),
            (Outcome::Failed(_), _) if is_the_services(call, runs) => true,
            (Outcome::Failed(_) | Outcome::Broken(_), _) => {
                self.faults_of(call).any(|fault| fault.broke == Broke::Gateway(call.gateway))
            }
        };
        (!is_fine).then_some("an error without a cause")
    }

    fn problem_of_503(&self, call: &Call) -> Option<&'static str> {
        let mut honoured = self.faults_of(call).filter_map(|fault| match fault.broke {
            Broke::Registry(_, until) => Some(until),
            Broke::Gateway(_) => None,
        });
        match honoured.next() {
            None => Some(UNCAUSED),
            // All tokens were seen before anything broke.
            Some(until) => (call.end < until).then_some("refused while tokens are honoured"),
        }
    }

    /// The faults of its gateway that a call overlaps.
    fn faults_of(&self, call: &Call) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(|fault| {
            let is_there = fault.broke.gateway() == call.gateway;
            is_there && call.begin <= fault.end && call.end >= fault.begin
        })
    }

    /// What was withdrawn and honoured all the same.
    fn too_late(
        &self,
        call: &Call,
        refusals: &HashMap<(usize, Who), Instant>,
    ) -> Option<&'static str> {
        let withdrawal = self.withdrawal.as_ref()?;
        if call.who == Who::Steady || !call.is_served() {
            return None;
        }
        let is_after =
            |(gateway, bound): &(usize, Instant)| call.gateway == *gateway && call.begin > *bound;
        if withdrawal.deaf.is_some_and(|bound| is_after(&bound)) {
            return Some("honoured beyond the bound");
        }
        if withdrawal.looked.iter().any(is_after) {
            return Some("honoured after a look at the registry");
        }
        let refused = refusals.get(&(call.gateway, call.who));
        refused.is_some_and(|at| call.begin > *at).then_some("honoured again after a refusal")
    }

    /// When each gateway first refused what was withdrawn.
    fn first_refusals(&self) -> HashMap<(usize, Who), Instant> {
        let mut refusals = HashMap::new();
        for call in self.calls.iter().filter(|call| call.asked != Asked::Secret) {
            if matches!(call.outcome, Outcome::Denied | Outcome::Unknown) {
                let first = refusals.entry((call.gateway, call.who)).or_insert(call.end);
                *first = call.end.min(*first);
            }
        }
        refusals
    }

    fn runs(&self) -> Runs<'_> {
        let mut runs = Runs::new();
        for run in &self.executed {
            runs.entry(&run.key).or_default().push(run);
        }
        runs
    }
}

/// Whether the service is to blame for a failure. What only reads is asked for again if the connection ended
/// before any byte of an answer, and is answered then.
fn is_the_services(call: &Call, runs: &[&Execution]) -> bool {
    match runs {
        [.., last] if last.end == End::HungUp => call.asked != Asked::Read,
        [.., last] => last.end == End::BrokeOff,
        [] => false,
    }
}

fn problem_of_runs(call: &Call, runs: &[&Execution]) -> Option<&'static str> {
    if runs.iter().any(|run| run.method == SECRET_METHOD) {
        return Some("a tool that was not granted ran");
    }
    let most = match runs {
        // D31: this one may be sent once more.
        [first, ..] if call.asked == Asked::Read && first.end == End::HungUp => 2,
        _ => 1,
    };
    let is_refused = matches!(call.outcome, Outcome::Denied | Outcome::Unknown | Outcome::Away);
    let is_call = matches!(call.asked, Asked::Own | Asked::Read);
    let is_answered = runs.last().is_some_and(|run| run.end == End::Answered);
    if runs.len() > most {
        Some("executed more than once")
    } else if is_refused && !runs.is_empty() {
        Some("refused, and executed all the same")
    } else if call.outcome == Outcome::Answered && is_call && !is_answered {
        Some("answered without having been executed")
    } else {
        None
    }
}
