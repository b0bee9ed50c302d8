//! The database of a Festi application, which is only read.

pub(crate) mod error;
pub(crate) mod layout;
mod fingerprint;
mod read;
pub(crate) mod database;
pub(crate) mod merge;
pub(crate) mod watch;
pub(crate) mod site;
pub(crate) mod attached;
mod edit;
