//! Ends an open stream when it may no longer be served.

use std::sync::Arc;

use tokio::sync::watch;

use super::event::Identify;
use crate::access::Caller;
use crate::mcp::{Cancellation, Mcp};

/// Ends a stream with its request, its session or the server, or if the caller's credential becomes invalid.
pub(crate) struct StreamGuard {
    identify: Arc<dyn Identify>,
    closing: watch::Receiver<bool>,
    pub(crate) cancellation: Option<Cancellation>,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The client cancelled the request or ended the session.
    Cancelled,
    Shutdown,
}

impl StreamGuard {
    pub(crate) fn new(
        mcp: &Mcp,
        identify: Arc<dyn Identify>,
        cancellation: Option<Cancellation>,
    ) -> Self {
        Self { identify, closing: mcp.closing(), cancellation }
    }

    /// Waits until the stream is cancelled or the server shuts down.
    pub(crate) async fn ended(&mut self) -> StreamEnd {
        tokio::select! {
            biased;
            () = Cancellation::of(&mut self.cancellation) => StreamEnd::Cancelled,
            _ = self.closing.wait_for(|is_closing| *is_closing) => StreamEnd::Shutdown,
        }
    }

    /// Verifies the credential again. Returns `None` if it is invalid or cannot be verified.
    pub(crate) async fn caller(&self) -> Option<Caller> {
        self.identify.identify().await.ok()
    }
}
