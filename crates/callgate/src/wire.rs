//! Message formats: JSON-RPC, strict JSON, MCP revisions, cursors and lines.

pub(crate) mod cursor;
pub(crate) mod invisible;
pub mod jsonrpc;
#[cfg(any(feature = "bridge", feature = "stdio"))]
pub(crate) mod lines;
pub(crate) mod log_level;
pub(crate) mod percent;
pub(crate) mod revision;
pub(crate) mod strict_json;

#[cfg(feature = "http")]
pub(crate) use cursor::{CursorError, OffsetCursor};
pub use log_level::{LogLevel, LogLevelError};
pub use revision::{Era, Revision, RevisionError};

/// Maximum number of bytes of a message that repeats text of a client or of a service.
const MAX_MESSAGE: usize = 1000;

/// Truncates a message that repeats text of a client or of a service, because that text can be as long as a request
/// or a reply.
pub(crate) fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push('…');
    }
    message
}
