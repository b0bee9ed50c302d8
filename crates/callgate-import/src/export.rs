//! Writes the registry's methods as a manifest or as an OpenRPC document.

pub mod manifest;
pub mod openrpc;

/// A document, and the definitions that are missing in it.
#[derive(Debug)]
pub struct Exported {
    /// The document.
    pub text: String,
    /// Methods and classes that cannot be exported, with the reason.
    pub omitted: Vec<(String, String)>,
}
