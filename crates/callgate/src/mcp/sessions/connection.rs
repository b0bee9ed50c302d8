//! A connection that a client keeps, as over lines: it is the legacy session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::state::SessionState;
use crate::mcp::calls::in_flight::Scope;
use crate::upstream::client::Capabilities;
use crate::wire::revision::Revision;

/// A connection that a client keeps, with what legacy messages agreed on.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    agreed: Mutex<Agreed>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Agreed {
    pub(crate) revision: Option<Revision>,
    pub(crate) capabilities: Capabilities,
    pub(crate) state: SessionState,
}

impl Default for Connection {
    fn default() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { number: COUNT.fetch_add(1, Ordering::Relaxed), agreed: Mutex::default() }
    }
}

impl Connection {
    /// Returns `true` if the client has had its handshake, and so is told of changes.
    pub fn is_initialized(&self) -> bool {
        self.agreed().revision.is_some()
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::Connection(self.number)
    }

    pub(crate) fn agreed(&self) -> Agreed {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn agree(&self, change: impl FnOnce(&mut Agreed)) {
        change(&mut self.agreed.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
