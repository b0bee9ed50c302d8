//! Message formats: JSON-RPC, strict JSON, MCP revisions, cursors and lines.

pub(crate) mod cursor;
pub mod jsonrpc;
#[cfg(any(feature = "bridge", feature = "stdio"))]
pub(crate) mod lines;
pub(crate) mod log_level;
pub(crate) mod percent;
pub(crate) mod revision;
pub(crate) mod strict_json;

pub use cursor::{CursorError, OffsetCursor};
pub use log_level::{LogLevel, LogLevelError};
pub use revision::{Era, Revision, RevisionError};
