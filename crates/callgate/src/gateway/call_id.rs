//! Unique ids of calls.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Generates ids: `mcp_`, a random number of the process, and a counter.
#[derive(Debug)]
pub(super) struct CallIds {
    /// `mcp_` and the number of the process.
    start: Box<str>,
    count: AtomicU64,
}

impl Default for CallIds {
    fn default() -> Self {
        // If no random number is available, ids are unique in this process only, which is acceptable for logs.
        let process = getrandom::u64().unwrap_or_default();
        Self { start: format!("mcp_{process:016x}").into(), count: AtomicU64::new(0) }
    }
}

impl CallIds {
    pub(super) fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(self.start.len() + 16);
        id.push_str(&self.start);
        let _ = write!(id, "{count:08x}");
        id
    }
}
