//! Which database, and how to reach it.

use std::time::Duration;

use crate::db::database::{Database, Dialect};
use crate::db::driver::sqlite;
use crate::db::error::{OpenError, UrlError};
use crate::db::pool::Pool;
use crate::db::url::{DatabaseUrl, Place};

/// How a database is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// So many connections at once.
    pub max_connections: u32,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long an ordinary statement may take; with SQLite, how long to wait for another program
    /// that writes.
    pub statement_timeout: Duration,
    /// How long each statement may take that reads everything, or makes or changes tables.
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

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It must be there.
    There,
    /// A file is made if it is not there; a server has its database.
    Made,
    /// It is somebody else's, and is only read.
    OnlyRead,
    /// So too, and not for long: what is written meanwhile need not be seen.
    ReadOnce,
}

impl Wanted {
    /// Whether nothing may be written there.
    pub(crate) fn is_only_to_read(self) -> bool {
        matches!(self, Self::OnlyRead | Self::ReadOnce)
    }
}

/// Connects with the driver of the URL.
pub(crate) async fn connect(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    wanted: Wanted,
) -> Result<Pool, OpenError> {
    Ok(Pool::new(driver(url, options, wanted).await?, options))
}

async fn driver(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    wanted: Wanted,
) -> Result<Box<dyn Database>, OpenError> {
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    choose_cryptography();
    match &url.0 {
        Place::File(path) => sqlite::connect(path, options, wanted).await,
        // The drivers of servers stand here, each behind its feature.
        #[cfg(feature = "postgres")]
        Place::Server(Dialect::Postgres, url) => {
            crate::db::driver::postgres::connect(url, options, wanted).await
        }
        #[cfg(feature = "mysql")]
        Place::Server(Dialect::MySql, url) => {
            crate::db::driver::mysql::connect(url, options, wanted).await
        }
        #[cfg(feature = "mssql")]
        Place::Server(Dialect::SqlServer, url) => {
            crate::db::driver::mssql::connect(url, options, wanted).await
        }
        Place::Server(dialect, _) => Err(not_built(*dialect).into()),
    }
}

/// Where a certificate is to be checked, but not the host, sqlx asks for what the whole process uses, and
/// panics if several are built in and none was chosen. What the program has chosen stays.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn choose_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Another may have been faster.
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
