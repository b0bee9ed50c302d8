//! A connection that carries all messages of one client, as over stdio. It takes the place of a legacy session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::state::SessionState;
use crate::mcp::Scope;
use crate::upstream::client::Capabilities;
use crate::wire::Revision;

/// A connection that carries all messages of one client.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    state: Mutex<ConnectionState>,
}

/// The result of `initialize`, and the state that has changed since then.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionState {
    pub(crate) revision: Option<Revision>,
    pub(crate) capabilities: Capabilities,
    pub(crate) session: SessionState,
}

impl Default for Connection {
    fn default() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { number: COUNT.fetch_add(1, Ordering::Relaxed), state: Mutex::default() }
    }
}

impl Connection {
    /// Returns `true` if the client has sent `initialize`.
    pub fn is_initialized(&self) -> bool {
        self.state().revision.is_some()
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::Connection(self.number)
    }

    pub(crate) fn state(&self) -> ConnectionState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut ConnectionState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
