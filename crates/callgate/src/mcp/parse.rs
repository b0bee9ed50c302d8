//! Reads a message: the JSON-RPC envelope, the HTTP headers that repeat parts of it, and the protocol era.

pub(crate) mod envelope;
pub(crate) mod headers;
pub(crate) mod method;
pub(crate) mod classify;
pub(crate) mod param_headers;
