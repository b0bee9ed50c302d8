//! Writes messages to clients: results, errors, notifications.

pub(crate) mod message;
pub(crate) mod error;
pub(crate) mod compact;
