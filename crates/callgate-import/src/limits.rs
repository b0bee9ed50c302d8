//! Limits on what a source may contain. A watching server reads sources that others write.

/// Maximum size of a file or of a document that a service returns, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of methods that a service lists.
pub(crate) const MAX_METHODS: usize = 10_000;
/// Maximum number of definitions that the schemas of a method need.
pub(crate) const MAX_DEFINITIONS: usize = 1000;
/// Maximum size of a schema of a method, in bytes.
pub(crate) const MAX_SCHEMA_BYTES: usize = 1024 * 1024;
