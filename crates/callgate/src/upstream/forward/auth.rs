//! Credentials: which ones a request is sent with, and what the service says if it rejects them.

pub(crate) mod credential;
pub(crate) mod oauth;
pub(crate) mod challenge;
pub(crate) mod rejection;
pub(crate) mod redact;
