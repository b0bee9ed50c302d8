//! Builds a catalog from rows and from methods that are defined in code.

pub(crate) mod definition;
pub(crate) mod assemble;
