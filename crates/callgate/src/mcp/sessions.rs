//! Legacy sessions: signed ids, their state, and messages for calls that run on other servers.

pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod connection;
pub(crate) mod relay;
pub(crate) mod unread_pages;
