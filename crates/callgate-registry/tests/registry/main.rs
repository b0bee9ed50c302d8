//! The registry on real databases: the contract of all databases, and behaviour that is specific to single databases.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test may stop")]

mod contract;
mod databases;
mod decisions;
mod tls_proxy;
mod install;
mod layers;
mod limits;
mod lookups;
mod replicas;
mod servers;
mod sql_server;
mod sqlite;
mod emulator;
mod tls;
