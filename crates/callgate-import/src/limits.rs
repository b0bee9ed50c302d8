//! Limits on the contents of a source. They are necessary, because a server that repeats imports reads sources that
//! other people write.

use callgate_registry::{MethodRow, TypeRow};

/// Maximum size of a file or of a document that a service returns, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of methods that a service lists.
pub(crate) const MAX_METHODS: usize = 10_000;
/// Maximum number of definitions that the schemas of a method need.
pub(crate) const MAX_DEFINITIONS: usize = 1000;
/// Maximum size of a schema of a method, in bytes.
pub(crate) const MAX_SCHEMA_BYTES: usize = 1024 * 1024;
/// Maximum total size of the schemas that are copied for one schema of a method, in bytes. It is larger than the
/// maximum size of a schema, because parts of the copies, such as their definitions, are not needed.
pub(crate) const MAX_COPIED_BYTES: usize = 4 * MAX_SCHEMA_BYTES;
/// Maximum size of a method or a class, in bytes.
pub(crate) const MAX_METHOD_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of all methods and classes of a source, in bytes.
pub(crate) const MAX_SOURCE_BYTES: usize = 64 * 1024 * 1024;
/// Assumed size of a method in memory in addition to its texts, in bytes.
pub(crate) const METHOD_OVERHEAD: usize = 1024;

/// Returns the size of the texts of a method.
pub(crate) fn method_bytes(row: &MethodRow) -> usize {
    let columns = MethodRow::COLUMNS.iter().filter_map(|column| column.get(row).as_deref());
    row.rpc_method.len() + columns.map(str::len).sum::<usize>()
}

/// Returns the size of the texts of a class.
pub(crate) fn type_bytes(row: &TypeRow) -> usize {
    let texts = [row.fields.as_deref(), row.schema.as_deref()];
    row.name.len() + texts.into_iter().flatten().map(str::len).sum::<usize>()
}
