//! Limits the total size of the replies to a batch: [`BatchReplies`].

use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum total size of the replies to a batch, in bytes.
pub(crate) const MAX_BATCH_REPLY_BYTES: usize = 16 << 20;

/// Counts the bytes of the replies to a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchReplies(AtomicUsize);

impl BatchReplies {
    /// Adds the size of a reply. Returns `false` if the replies together are now too large.
    pub(crate) fn add(&self, bytes: usize) -> bool {
        let previous = self.0.fetch_add(bytes, Ordering::Relaxed);
        previous.saturating_add(bytes) <= MAX_BATCH_REPLY_BYTES
    }

    /// Returns `true` if the replies together are too large.
    pub(crate) fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_BATCH_REPLY_BYTES
    }
}
