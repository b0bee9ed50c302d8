//! Credentials: which credentials a request is sent with, and how the service refuses them.

pub(crate) mod credential;
mod credential_cache;
pub(crate) mod login;
pub(crate) mod oauth;
pub(crate) mod challenge;
pub(crate) mod refusal;
pub(crate) mod redact;
