//! Definitions that the servers and the load generator share.

pub mod candidate;
pub mod case;
pub mod chart;
pub mod model;
pub mod packages;
pub mod reply;
pub mod suite;
pub mod table;
