//! Sessions whose clients do not read all pages of `tools/list`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::access::Caller;
use crate::lru_cache::LruCache;
use crate::mcp::Scope;

/// Maximum number of sessions that are remembered.
const MAX_SESSIONS: usize = 10_000;

/// Logs a warning, once per session, if a client calls a tool without having read all pages of the list.
#[derive(Debug)]
pub(crate) struct UnreadPages {
    /// Whether a page with a cursor was ever sent. If not, `sessions` need not be searched. Most lists have only
    /// one page, without a cursor.
    has_sent_cursor: AtomicBool,
    /// For each session, whether the next page is still unread.
    sessions: LruCache<Scope, bool>,
}

impl Default for UnreadPages {
    fn default() -> Self {
        Self { has_sent_cursor: AtomicBool::new(false), sessions: LruCache::new(MAX_SESSIONS) }
    }
}

impl UnreadPages {
    /// Records the first page of a list that has more pages.
    pub(crate) fn record_first_page(&self, scope: Option<Scope>) {
        if let Some(scope) = scope {
            self.has_sent_cursor.store(true, Ordering::Relaxed);
            self.sessions.get_or_insert_with(scope, || true);
        }
    }

    /// Records that the client has requested a further page.
    pub(crate) fn record_next_page(&self, scope: Option<Scope>) {
        if let Some(scope) = scope {
            self.sessions.insert(scope, false);
        }
    }

    /// Logs a warning if the client calls a tool while the next page is unread.
    pub(crate) fn warn_if_unread(&self, scope: Option<Scope>, caller: &Caller) {
        if !self.has_sent_cursor.load(Ordering::Relaxed) {
            return;
        }
        let Some(scope) = scope.filter(|scope| self.sessions.get(scope) == Some(true)) else {
            return;
        };
        self.sessions.insert(scope, false);
        tracing::warn!(
            user = caller.user.as_ref().map(|user| &*user.name),
            "a client did not follow `nextCursor` of `tools/list`, so it does not know all tools; raise \
             `mcp_page_size`, or let the caller see fewer tools"
        );
    }
}
