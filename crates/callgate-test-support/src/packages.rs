//! Programs that tests start, installed below `target` where the system lacks them.

mod debian;
mod npm;
mod python;

pub use debian::{debian, debian_package};
pub use npm::npm;
pub use python::python;
