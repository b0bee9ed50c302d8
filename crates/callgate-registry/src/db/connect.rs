//! Connects to databases.

use std::time::Duration;

use crate::db::driver;
use crate::db::error::OpenError;
use crate::db::pool::Pool;
use crate::db::url::DatabaseUrl;

/// Limits for the use of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// Maximum number of connections.
    pub max_connections: u32,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Time limit of an ordinary statement. In SQLite, maximum time to wait for another writer.
    pub statement_timeout: Duration,
    /// Time limit of a statement that reads whole tables or changes the schema.
    pub load_timeout: Duration,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            max_connections: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            load_timeout: Duration::from_mins(2),
        }
    }
}

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Fails if the file does not exist.
    Existing,
    /// Creates the file if it does not exist.
    Create,
    /// Read-only.
    ReadOnly,
    /// Read-only for a short time. Concurrent writes are not visible.
    ReadOnce,
}

impl OpenMode {
    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly | Self::ReadOnce)
    }
}

/// Connects to a database.
pub(crate) async fn connect(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    mode: OpenMode,
) -> Result<Pool, OpenError> {
    Ok(Pool::new(driver::open(url, options, mode).await?, options))
}
