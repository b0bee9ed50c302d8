//! Programs that tests start, installed below `target` where the system lacks them.

mod debian;
mod npm;

pub use debian::{debian, debian_package};
pub use npm::npm;
