//! A connection that a client keeps, as over lines: it is the legacy session.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::running::Scope;
use crate::client::Capabilities;
use crate::log_level::LogLevel;
use crate::revision::Revision;

/// A connection that a client keeps: what legacy messages agreed on.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    agreed: Mutex<Agreed>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Agreed {
    pub(super) revision: Option<Revision>,
    pub(super) capabilities: Capabilities,
    pub(super) log_level: Option<LogLevel>,
    /// The resources that the client wants to hear of.
    pub(super) subscriptions: Arc<BTreeSet<String>>,
}

impl Default for Connection {
    fn default() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { number: COUNT.fetch_add(1, Ordering::Relaxed), agreed: Mutex::default() }
    }
}

impl Connection {
    /// Whether the client has had its handshake, and so hears of changes unasked.
    pub fn is_initialized(&self) -> bool {
        self.agreed().revision.is_some()
    }

    pub(super) fn scope(&self) -> Scope {
        Scope::Connection(self.number)
    }

    pub(super) fn agreed(&self) -> Agreed {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn agree(&self, change: impl FnOnce(&mut Agreed)) {
        change(&mut self.agreed.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
