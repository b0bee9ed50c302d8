//! Transports: one HTTP request per call, batches, and WebSocket.

pub(crate) mod client;
pub(crate) mod queue;
pub(crate) mod batch;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;
