//! One driver for each kind of database.
//!
//! A new kind of database needs:
//!
//! - a module here with a `connect` function, and implementations of `Database` and `Connection` (`database.rs`)
//! - a variant of `Dialect` and its SQL (`dialect.rs`)
//! - the scheme of its URLs (`url.rs`)
//! - arms in `driver` and `not_built` (`connect.rs`)
//! - its element in each `PerDialect` array (`column.rs`, `schema.rs`), and its triggers (`schema/triggers.rs`)
//! - a feature in `Cargo.toml`, and a line in `tests/registry/contract.rs`
//!
//! The compiler reports each other `match` over `Dialect`, such as those in `festi/`. It does not report comparisons such
//! as `dialect == Dialect::Sqlite`.

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
