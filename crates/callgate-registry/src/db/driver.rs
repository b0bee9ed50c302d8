//! One driver for each kind of database.

mod sqlx_driver;
mod sqlx_error;
pub(crate) mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sqlx_pool;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "postgres")]
mod postgres_listener;
#[cfg(feature = "mssql")]
pub(crate) mod mssql;
