//! Keeps a server up to date with its registry.

pub(crate) mod credentials;
pub(crate) mod upstreams;
mod log;
mod catalog;
mod sessions;
mod replicas;
mod lease;
mod maintenance;
mod follower;
pub(crate) mod registry;
#[cfg(test)]
mod tests;
