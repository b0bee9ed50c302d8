//! Every call that was made: by whom, where, when, and what came of it.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::support::PATIENCE;

/// So many more calls are waited for before it is looked again.
const MORE: usize = 64;

/// Who a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// Whose token and grants stay.
    Steady,
    /// Whose token may be revoked.
    Doomed,
    /// Whose grant may be withdrawn.
    Demoted,
}

impl Who {
    /// Of eight clients one is doomed and one demoted.
    pub(crate) fn of(client: usize) -> Self {
        match client % 8 {
            6 => Self::Doomed,
            7 => Self::Demoted,
            _ => Self::Steady,
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The tool of the client that may change something.
    Own,
    /// The tool of the client that only reads.
    Read,
    /// A tool that nobody has.
    Secret,
    /// The client's tools.
    List,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer to this call, or the list of this client's tools.
    Answered,
    /// There is no such tool for this caller.
    Denied,
    /// 401: the token is none.
    Unknown,
    /// 503: the gateway cannot say who this is.
    Away,
    /// Another error, in its words.
    Failed(String),
    /// The connection was refused, or broke.
    Broken(String),
    /// Something that is not an answer to this call.
    Wrong(String),
}

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) who: Who,
    pub(crate) gateway: usize,
    pub(crate) asked: Asked,
    /// What the upstream logs; there once.
    pub(crate) key: String,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
    pub(crate) outcome: Outcome,
}

impl Call {
    /// What this client has a right to, and got.
    pub(crate) fn is_served(&self) -> bool {
        self.asked != Asked::Secret && self.outcome == Outcome::Answered
    }
}

/// All calls so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    calls: Mutex<Vec<Call>>,
    added: Condvar,
}

impl Record {
    pub(crate) fn add(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
        self.added.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Waits until it is so of the calls that began after now.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&[&Call]) -> bool) {
        let started = Instant::now();
        let mut calls = self.calls.lock().unwrap();
        loop {
            let new: Vec<&Call> = calls.iter().filter(|call| call.begin > started).collect();
            if is_so(&new) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "never: {what}; the last: {:?}", new.last());
            let enough = calls.len() + MORE;
            let waited = self.added.wait_timeout_while(calls, PATIENCE, |all| all.len() < enough);
            calls = waited.unwrap().0;
        }
    }
}
