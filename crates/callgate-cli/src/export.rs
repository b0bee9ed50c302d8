//! The registry's methods, written for others: as a manifest, or as an OpenRPC document.

pub(crate) mod manifest;
pub(crate) mod openrpc;

/// What was written, and what had to be left out.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) text: String,
    /// Method, or class, and why.
    pub(crate) left_out: Vec<(String, String)>,
}
