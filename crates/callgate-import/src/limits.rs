//! Limits on what a source may contain. A watching server reads sources that others write.

/// Maximum size of a file or of a document that a service returns, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
