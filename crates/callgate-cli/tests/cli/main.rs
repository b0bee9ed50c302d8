//! Tests of the program as users run it: the binary in a temporary directory, with sockets on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests panic on failure"
)]

mod admin;
mod attach;
mod bridge;
mod call;
mod clients;
mod configuration;
mod conformance;
mod copy;
mod credentials;
mod databases;
mod demo;
mod drift;
mod drupal_site;
mod fake;
mod faults;
mod guide;
mod http_client;
mod import;
mod import_process;
mod keys;
mod lint;
mod mcp;
mod rate_limits;
mod real;
mod registry_upstreams;
mod reload;
mod replicas;
mod reverse_proxy;
mod server;
mod support;
mod try_service;
mod unavailable_database;
mod upstreams;
mod visibility;
