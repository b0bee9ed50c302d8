//! Identifies callers and decides what they may do, from the rows of a registry.

pub(crate) mod build_access;
pub(crate) mod token;
pub(crate) mod signing_keys;
pub(crate) mod grace_period;
pub(crate) mod tracked_store;
pub(crate) mod token_cache;
pub(crate) mod authenticator;
