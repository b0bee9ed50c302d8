//! The methods of the protocol, one file per feature.

pub(crate) mod handshake;
pub(crate) mod pagination;
pub(crate) mod tools;
pub(crate) mod prompts;
#[cfg(feature = "macros")]
pub(crate) mod prompt_function;
pub(crate) mod resources;
#[cfg(feature = "macros")]
pub(crate) mod resource_function;
pub(crate) mod completion;
pub(crate) mod tasks;
