//! Log of every call of the clients.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::support::TIMEOUT;

/// Number of new calls before a condition is checked again.
const BATCH: usize = 64;

/// Group of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ClientGroup {
    /// Token and grants stay valid.
    Unchanged,
    /// The token may be revoked.
    TokenRevoked,
    /// The grant may be revoked.
    GrantRevoked,
}

impl ClientGroup {
    /// Returns the group of a client: of eight clients, one loses its token and one its grant.
    pub(crate) fn of(client: usize) -> Self {
        match client % 8 {
            6 => Self::TokenRevoked,
            7 => Self::GrantRevoked,
            _ => Self::Unchanged,
        }
    }
}

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Call of the tool that writes.
    Write,
    /// Call of the tool that only reads.
    Read,
    /// Call of a tool that no client is allowed to call.
    Forbidden,
    /// List of the tools.
    List,
}

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Correct reply.
    Answered,
    /// The tool is unknown or denied.
    Denied,
    /// Status 401.
    Unauthorized,
    /// Status 503.
    Unavailable,
    /// Another error with its text.
    Failed(String),
    /// The connection was refused or closed.
    ConnectionLost(String),
    /// Reply that does not belong to the request.
    Wrong(String),
}

/// A request and its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) group: ClientGroup,
    pub(crate) server: usize,
    pub(crate) kind: RequestKind,
    /// Unique key, which the upstream logs.
    pub(crate) key: String,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
    pub(crate) outcome: Outcome,
}

impl Call {
    /// Returns `true` if an allowed request was answered.
    pub(crate) fn is_served(&self) -> bool {
        self.kind != RequestKind::Forbidden && self.outcome == Outcome::Answered
    }
}

/// All calls so far.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    calls: Mutex<Vec<Call>>,
    added: Condvar,
}

impl CallLog {
    pub(crate) fn add(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
        self.added.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Waits until the calls that begin after now meet a condition.
    pub(crate) fn wait_until(&self, condition: &str, is_met: impl Fn(&[&Call]) -> bool) {
        let started = Instant::now();
        let mut calls = self.calls.lock().unwrap();
        loop {
            let new_calls: Vec<&Call> = calls.iter().filter(|call| call.begin > started).collect();
            if is_met(&new_calls) {
                return;
            }
            assert!(
                started.elapsed() < TIMEOUT,
                "timed out waiting until {condition}; last call: {:?}",
                new_calls.last()
            );
            let next_length = calls.len() + BATCH;
            let result =
                self.added.wait_timeout_while(calls, TIMEOUT, |calls| calls.len() < next_length);
            calls = result.unwrap().0;
        }
    }
}
