//! The judgement: what may have come of a call, given the faults that there were.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Instant;

use super::filled::SECRET_METHOD;
use super::record::{Asked, Call, Outcome, Who};

/// A 503 for which nothing was broken.
pub(crate) const UNCAUSED: &str = "a 503 without a cause";

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broke {
    /// Connections to a gateway may fail.
    Gateway(usize),
    /// A gateway may not know who callers are.
    Registry(usize),
}

/// From before it was broken until all was seen to be well.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) broke: Broke,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
}

/// The token of the doomed was revoked, and the grant of the demoted withdrawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Withdrawal {
    pub(crate) begin: Instant,
    /// A gateway that could not hear of it, and when it must have stopped at the latest.
    pub(crate) deaf: Option<(usize, Instant)>,
}

/// All that happened.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) calls: Vec<Call>,
    /// What the upstream ran: method and key.
    pub(crate) executed: Vec<(String, String)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) withdrawal: Option<Withdrawal>,
}

impl Story {
    /// What is wrong, a line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let refusals = self.first_refusals();
        let of_calls = self.calls.iter().filter_map(|call| {
            let problem = self.problem(call).or_else(|| self.too_late(call, &refusals))?;
            Some(format!("{problem}: {call:?}"))
        });
        of_calls.chain(self.problems_of_executions()).collect()
    }

    fn problem(&self, call: &Call) -> Option<&'static str> {
        let withdrawn = self.withdrawal.is_some_and(|it| call.end > it.begin);
        let is_fine = match (&call.outcome, call.asked) {
            (Outcome::Wrong(_), _) => return Some("a wrong answer"),
            (Outcome::Answered, Asked::Secret) => return Some("a tool that was not granted"),
            (Outcome::Answered, _) | (Outcome::Denied, Asked::Secret) => true,
            (Outcome::Denied, _) => withdrawn && call.who == Who::Demoted,
            (Outcome::Unknown, _) => withdrawn && call.who == Who::Doomed,
            // A revoked token is looked up each time; where that takes too long it is refused too.
            (Outcome::Away, _) if withdrawn && call.who == Who::Doomed => true,
            (Outcome::Away, _) => self.is_within(call, Broke::Registry(call.gateway)),
            (Outcome::Failed(_) | Outcome::Broken(_), _) => {
                self.is_within(call, Broke::Gateway(call.gateway))
            }
        };
        let problem =
            if call.outcome == Outcome::Away { UNCAUSED } else { "an error without a cause" };
        (!is_fine).then_some(problem)
    }

    fn is_within(&self, call: &Call, broke: Broke) -> bool {
        let mut faults = self.faults.iter().filter(|fault| fault.broke == broke);
        faults.any(|fault| call.begin <= fault.end && call.end >= fault.begin)
    }

    /// What was withdrawn and honoured all the same.
    fn too_late(
        &self,
        call: &Call,
        refusals: &HashMap<(usize, Who), Instant>,
    ) -> Option<&'static str> {
        let deaf = self.withdrawal?.deaf;
        if call.who == Who::Steady || !call.is_served() {
            return None;
        }
        if deaf.is_some_and(|(gateway, bound)| call.gateway == gateway && call.begin > bound) {
            return Some("honoured beyond the bound");
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

    fn problems_of_executions(&self) -> impl Iterator<Item = String> {
        let mut executed: HashMap<&str, usize> = HashMap::new();
        for (_, key) in &self.executed {
            *executed.entry(key).or_default() += 1;
        }
        let forbidden = self.executed.iter().filter(|(method, _)| method == SECRET_METHOD);
        let forbidden = forbidden.map(|(_, key)| format!("a tool that was not granted ran: {key}"));
        let calls = self.calls.iter().filter_map(move |call| {
            let times = executed.get(call.key.as_str()).copied().unwrap_or(0);
            let problem = match (&call.outcome, call.asked, times) {
                (_, _, 2..) => "executed more than once",
                (Outcome::Answered, Asked::Own, 0) => "answered without having been executed",
                (Outcome::Denied | Outcome::Unknown | Outcome::Away, _, 1) => {
                    "refused, and executed all the same"
                }
                _ => return None,
            };
            Some(format!("{problem}: {call:?}"))
        });
        forbidden.chain(calls)
    }
}
