//! Servers, packages and fake services for tests.
//!
//! [`Engine`] starts PostgreSQL and MariaDB, [`SqlServerEmulator`] a server with SQL Server's protocol. Programs
//! that the system lacks are unpacked from Debian packages below `target` ([`debian`]). Database servers listen on
//! loopback and stop when the test process ends, even if it is killed. They do not sync to disk, and their time
//! zone differs from UTC, so that a test fails if local time is used as UTC.
//!
//! The feature `fake` adds HTTP services with scripted replies ([`fake_service`]) and certificates ([`tls`]).
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "test code panics on failure"
)]

mod workspace;
mod packages;
mod process_guard;
mod databases;
#[cfg(feature = "fake")]
pub mod tls;
#[cfg(feature = "fake")]
pub mod fake_service;

pub use databases::{DatabaseServer, Engine, SqlServerEmulator, TestDatabase, TlsIdentity};
pub use packages::{debian, debian_package, npm, python};
pub use process_guard::suspend_process;
pub use workspace::{WORKSPACE_BUILT, workspace_program};
