//! Event streams to clients: notifications, and stored events for clients that reconnect.

pub(crate) mod event;
pub(crate) mod guard;
pub(crate) mod event_store;
pub(crate) mod notification_stream;
