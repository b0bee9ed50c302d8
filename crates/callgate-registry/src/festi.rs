//! The database of a Festi application, which is only read.

mod layout;
mod fingerprint;
mod read;
pub(crate) mod database;
pub(crate) mod merge;
pub(crate) mod watch;
pub(crate) mod site;
pub(crate) mod attached;
mod edit;

pub(crate) use edit::Change;
