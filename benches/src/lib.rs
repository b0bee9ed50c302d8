//! What the servers under measurement and the load generator agree on.

pub mod candidate;
pub mod case;
pub mod model;
pub mod npm;
pub mod suite;
