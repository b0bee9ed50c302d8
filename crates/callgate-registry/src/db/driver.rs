//! One driver for each kind of database.
//!
//! A new kind of database needs:
//!
//! - a module here with a `connect` function, and implementations of `Database` and `Connection` (`database.rs`)
//! - a variant of `Dialect` and its SQL (`dialect.rs`)
//! - the scheme of its URLs (`url.rs`)
//! - arms in `open` and `not_built`
//! - its element in each `PerDialect` array (`column.rs`, `schema.rs`), and its triggers (`schema/triggers.rs`)
//! - a feature in `Cargo.toml`, and a line in `tests/registry/contract.rs`
//!
//! The compiler reports every other `match` over `Dialect`, such as those in `festi/`. It does not report comparisons
//! such as `dialect == Dialect::Sqlite`.

mod sqlx_driver;
mod sqlx_error;
pub(crate) mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sqlx_pool;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_listener;
#[cfg(feature = "mssql")]
mod mssql;

use crate::db::connect::{DatabaseOptions, OpenMode};
use crate::db::database::Database;
use crate::db::dialect::Dialect;
use crate::db::error::{OpenError, UrlError};
use crate::db::url::{DatabaseUrl, Location};

/// Opens a database with the driver of its URL.
pub(super) async fn open(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    mode: OpenMode,
) -> Result<Box<dyn Database>, OpenError> {
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    install_crypto_provider();
    match &url.0 {
        Location::File(path) => sqlite::connect(path, options, mode).await,
        #[cfg(feature = "postgres")]
        Location::Server(Dialect::Postgres, url) => postgres::connect(url, options, mode).await,
        #[cfg(feature = "mysql")]
        Location::Server(Dialect::MySql, url) => mysql::connect(url, options, mode).await,
        #[cfg(feature = "mssql")]
        Location::Server(Dialect::SqlServer, url) => mssql::connect(url, options, mode).await,
        Location::Server(dialect, _) => Err(not_built(*dialect).into()),
    }
}

/// Installs a cryptography provider, unless the program has installed one. If a certificate is checked without its host
/// name, sqlx uses the provider of the process. sqlx panics if several providers are built in and none is installed.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn install_crypto_provider() {
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
