//! Before servers that no one here wrote: they are installed and started here, on loopback.

mod aria2;
pub(crate) mod servers;
