//! Definitions that the servers and the load generator share.

pub mod candidate;
pub mod case;
pub mod model;
pub mod npm;
pub mod reply;
pub mod suite;
pub mod table;
