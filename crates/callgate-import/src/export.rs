//! The registry's methods, written for others: as a manifest, or as an OpenRPC document.

pub mod manifest;
pub mod openrpc;

/// What was written, and what had to be left out.
#[derive(Debug)]
pub struct Exported {
    /// The document.
    pub text: String,
    /// Method, or class, and why.
    pub left_out: Vec<(String, String)>,
}
