//! Connects to databases.

use std::time::Duration;

use crate::db::database::Database;
use crate::db::dialect::Dialect;
use crate::db::driver::sqlite;
use crate::db::error::{OpenError, UrlError};
use crate::db::pool::Pool;
use crate::db::url::{DatabaseUrl, Location};

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
    Ok(Pool::new(driver(url, options, mode).await?, options))
}

async fn driver(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    mode: OpenMode,
) -> Result<Box<dyn Database>, OpenError> {
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    choose_cryptography();
    match &url.0 {
        Location::File(path) => sqlite::connect(path, options, mode).await,
        #[cfg(feature = "postgres")]
        Location::Server(Dialect::Postgres, url) => {
            crate::db::driver::postgres::connect(url, options, mode).await
        }
        #[cfg(feature = "mysql")]
        Location::Server(Dialect::MySql, url) => {
            crate::db::driver::mysql::connect(url, options, mode).await
        }
        #[cfg(feature = "mssql")]
        Location::Server(Dialect::SqlServer, url) => {
            crate::db::driver::mssql::connect(url, options, mode).await
        }
        Location::Server(dialect, _) => Err(not_built(*dialect).into()),
    }
}

/// Installs a cryptography provider, unless the program has installed one. If a certificate is checked without its host
/// name, sqlx uses the provider of the process. sqlx panics if several providers are built in and none is installed.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn choose_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Fails if another thread has installed one meanwhile.
        let _ = ring::default_provider().install_default();
    }
}

fn not_built(dialect: Dialect) -> UrlError {
    let (database, feature) = match dialect {
        Dialect::Sqlite => ("SQLite", "sqlite"),
        Dialect::Postgres => ("PostgreSQL", "postgres"),
        Dialect::MySql => ("MySQL", "mysql"),
        Dialect::SqlServer => ("SQL Server", "mssql"),
    };
    UrlError::NotBuilt { database, feature }
}
