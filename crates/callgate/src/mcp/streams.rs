//! Event streams to clients: notifications, and events stored for clients that reconnect.

pub(crate) mod event;
pub(crate) mod event_store;
pub(crate) mod notification_stream;
