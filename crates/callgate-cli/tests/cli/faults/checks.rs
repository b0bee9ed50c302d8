//! Checks the outcome of every call, given the faults of a run.

pub(crate) mod timings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use crate::faults::cluster::registry::{FORBIDDEN_METHOD, RevocationTimes};
use crate::faults::cluster::upstream::{End, Execution};
use crate::faults::load::call_log::{Call, ClientGroup, Outcome, RequestKind};

/// Violation: status 503 without a fault.
pub(crate) const UNEXPLAINED_503: &str = "503 without a fault";

/// Kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Connections to this server may fail.
    ServerDown(usize),
    /// This server may fail to authenticate callers. Until the instant, the server accepts known
    /// tokens.
    RegistryUnreachable(usize, Instant),
}

impl FaultKind {
    pub(crate) fn server(self) -> usize {
        match self {
            Self::ServerDown(server) | Self::RegistryUnreachable(server, _) => server,
        }
    }
}

/// A fault, from before it began until recovery was observed.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
    /// Range of Callgate's log that was written during the fault.
    pub(crate) log_range: Range<usize>,
}

/// Revocation of a token and a grant.
#[derive(Debug, Clone)]
pub(crate) struct Revocation {
    pub(crate) times: RevocationTimes,
    /// Server that could not read the registry, and the time at which it must refuse revoked access.
    pub(crate) isolated: Option<(usize, Instant)>,
    /// Times at which servers had read the registry after the revocation.
    pub(crate) polled: Vec<(usize, Instant)>,
}

/// All events of a run.
#[derive(Debug)]
pub(crate) struct RunRecord {
    pub(crate) calls: Vec<Call>,
    pub(crate) executed: Vec<Execution>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) revocation: Option<Revocation>,
}

/// An outcome that the documentation does not allow.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) description: &'static str,
    pub(crate) call: Call,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?}", self.description, self.call)
    }
}

/// Executions by key of the call.
type Executions<'a> = HashMap<&'a str, Vec<&'a Execution>>;

impl RunRecord {
    /// Returns the first violation of each call.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        let (refusals, runs) = (self.first_refusals(), self.runs());
        let first_violation = |call: &Call| {
            let runs = runs.get(call.key.as_str()).map_or(&[][..], Vec::as_slice);
            let candidates = [
                violation_of_runs(call, runs),
                self.violation_of_revocation(call, &refusals),
                self.violation_of_outcome(call, runs),
            ];
            candidates
                .into_iter()
                .flatten()
                .map(|description| Violation { description, call: call.clone() })
                .next()
        };
        self.calls.iter().filter_map(first_violation).collect()
    }

    fn violation_of_outcome(&self, call: &Call, runs: &[&Execution]) -> Option<&'static str> {
        let times = self.revocation.as_ref().and_then(|it| it.times.of(call.group));
        let is_revoked = times.is_some_and(|(begin, _)| call.end > begin);
        let is_allowed = match (&call.outcome, call.kind) {
            (Outcome::Wrong(_), _) => return Some("wrong answer"),
            (Outcome::Answered, RequestKind::Forbidden) => {
                return Some("answered a forbidden tool");
            }
            (Outcome::Answered, _) | (Outcome::Denied, RequestKind::Forbidden) => true,
            (Outcome::Denied, _) => is_revoked && call.group == ClientGroup::GrantRevoked,
            (Outcome::Unauthorized, _) => is_revoked && call.group == ClientGroup::TokenRevoked,
            // A revoked token is looked up on each call, which may time out.
            (Outcome::Unavailable, _) if is_revoked && call.group == ClientGroup::TokenRevoked => {
                true
            }
            (Outcome::Unavailable, _) => return self.violation_of_503(call),
            (Outcome::Failed(_), _) if is_caused_by_upstream(call, runs) => true,
            (Outcome::Failed(_) | Outcome::ConnectionLost(_), _) => {
                self.faults_of(call).any(|fault| fault.kind == FaultKind::ServerDown(call.server))
            }
        };
        (!is_allowed).then_some("error without a fault")
    }

    fn violation_of_503(&self, call: &Call) -> Option<&'static str> {
        let mut accepted_until = self.faults_of(call).filter_map(|fault| match fault.kind {
            FaultKind::RegistryUnreachable(_, until) => Some(until),
            FaultKind::ServerDown(_) => None,
        });
        match accepted_until.next() {
            None => Some(UNEXPLAINED_503),
            // All tokens were known before the fault.
            Some(until) => (call.end < until).then_some("refused within the grace period"),
        }
    }

    /// Returns the faults of the call's server that overlap the call.
    fn faults_of(&self, call: &Call) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(|fault| {
            let is_same = fault.kind.server() == call.server;
            is_same && call.begin <= fault.end && call.end >= fault.begin
        })
    }

    /// Checks that revoked access is refused in time.
    fn violation_of_revocation(
        &self,
        call: &Call,
        refusals: &HashMap<(usize, ClientGroup), Instant>,
    ) -> Option<&'static str> {
        let revocation = self.revocation.as_ref()?;
        if call.group == ClientGroup::Unchanged || !call.is_served() {
            return None;
        }
        let is_after =
            |(server, bound): &(usize, Instant)| call.server == *server && call.begin > *bound;
        if revocation.isolated.is_some_and(|bound| is_after(&bound)) {
            return Some("accepted after the grace period");
        }
        if revocation.polled.iter().any(is_after) {
            return Some("accepted after a poll of the registry");
        }
        let refused = refusals.get(&(call.server, call.group));
        refused.is_some_and(|at| call.begin > *at).then_some("accepted again after a refusal")
    }

    /// Returns the time at which each server first refused each group.
    fn first_refusals(&self) -> HashMap<(usize, ClientGroup), Instant> {
        let mut refusals = HashMap::new();
        for call in self.calls.iter().filter(|call| call.kind != RequestKind::Forbidden) {
            if matches!(call.outcome, Outcome::Denied | Outcome::Unauthorized) {
                let first = refusals.entry((call.server, call.group)).or_insert(call.end);
                *first = call.end.min(*first);
            }
        }
        refusals
    }

    fn runs(&self) -> Executions<'_> {
        let mut runs = Executions::new();
        for run in &self.executed {
            runs.entry(&run.key).or_default().push(run);
        }
        runs
    }
}

/// Returns `true` if the upstream caused a failure. If the connection was closed before the first
/// byte of the reply, a read-only call is retried, and the retry must succeed.
fn is_caused_by_upstream(call: &Call, runs: &[&Execution]) -> bool {
    match runs {
        [.., last] if last.end == End::ClosedBeforeReply => call.kind != RequestKind::Read,
        [.., last] => last.end == End::ClosedDuringReply,
        [] => false,
    }
}

fn violation_of_runs(call: &Call, runs: &[&Execution]) -> Option<&'static str> {
    if runs.iter().any(|run| run.method == FORBIDDEN_METHOD) {
        return Some("ran a forbidden tool");
    }
    let max_runs = match runs {
        // A read-only call may be retried once.
        [first, ..] if call.kind == RequestKind::Read && first.end == End::ClosedBeforeReply => 2,
        _ => 1,
    };
    let is_refused =
        matches!(call.outcome, Outcome::Denied | Outcome::Unauthorized | Outcome::Unavailable);
    let is_call = matches!(call.kind, RequestKind::Write | RequestKind::Read);
    let is_answered = runs.last().is_some_and(|run| run.end == End::Answered);
    if runs.len() > max_runs {
        Some("executed more than once")
    } else if is_refused && !runs.is_empty() {
        Some("refused but executed")
    } else if call.outcome == Outcome::Answered && is_call && !is_answered {
        Some("answered but not executed")
    } else {
        None
    }
}
