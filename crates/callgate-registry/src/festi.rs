//! Reads the database of a Festi application.

pub(crate) mod error;
pub(crate) mod layout;
mod fingerprint;
mod read;
pub(crate) mod database;
pub(crate) mod merge;
pub(crate) mod poll_state;
pub(crate) mod poller;
pub(crate) mod attached;
