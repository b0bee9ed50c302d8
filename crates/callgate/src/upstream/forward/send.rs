//! Calls that share requests or a connection: batches and WebSocket.

pub(crate) mod queue;
pub(crate) mod batch;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;
