//! Database servers.

mod engine;
mod mariadb;
mod postgres;
mod server;
mod sql_server;

pub use engine::Engine;
pub use server::{DatabaseServer, TestDatabase, TlsIdentity};
pub use sql_server::SqlServerEmulator;
