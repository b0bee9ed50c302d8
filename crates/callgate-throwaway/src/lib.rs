//! Servers that tests start and that are gone afterwards, however the tests end.
//!
//! [`Postgres`] and [`MariaDb`] are real ones: the system's own where it has them, else packages of Debian
//! that are unpacked below the build's files ([`debian`]). Each is started once by `cargo xtask test`, or else by a
//! test program, with a database of its own for each test. They listen on loopback. What they hold survives
//! `kill -9`, but not the machine: it is thrown away. Their clocks are set to places that are not at zero, so that nobody takes local time for UTC.
//!
//! With the feature `fake` there are services that answer as a test says ([`fake`]), and certificates
//! ([`tls`]).
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "for tests, which may stop"
)]

mod built;
mod debian;
#[cfg(feature = "fake")]
pub mod fake;
mod keeper;
mod mariadb;
mod npm;
mod postgres;
mod server;
mod stand_in;
#[cfg(feature = "fake")]
pub mod tls;

pub use built::{BUILT, built};
pub use debian::{debian, debian_package};
pub use keeper::stop;
pub use mariadb::MariaDb;
pub use npm::npm;
pub use postgres::Postgres;
pub use server::{Identity, Server, TestDatabase};
pub use stand_in::StandIn;
