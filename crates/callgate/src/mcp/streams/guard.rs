//! Ends an open stream when it may no longer be served.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::Instant;

use super::event::Identify;
use crate::access::Caller;
use crate::mcp::{Cancellation, Mcp, some_or_pending};

/// Ends a stream if its request is cancelled, its session ends, the server shuts down, or the caller's credential
/// becomes invalid.
pub(crate) struct StreamGuard {
    identify: Arc<dyn Identify>,
    closing: watch::Receiver<bool>,
    pub(crate) cancellation: Option<Cancellation>,
    /// Time at which the credential expires.
    expiry: Option<Instant>,
}

/// Reason why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The client cancelled the request or ended the session.
    Cancelled,
    Shutdown,
}

impl StreamGuard {
    pub(crate) fn new(
        mcp: &Mcp,
        caller: &Caller,
        identify: Arc<dyn Identify>,
        cancellation: Option<Cancellation>,
    ) -> Self {
        Self { identify, closing: mcp.closing(), cancellation, expiry: expiry(caller) }
    }

    /// Waits until the stream is cancelled or the server shuts down.
    pub(crate) async fn ended(&mut self) -> StreamEnd {
        let cancelled = self.cancellation.as_mut().map(Cancellation::cancelled);
        tokio::select! {
            biased;
            () = some_or_pending(cancelled) => StreamEnd::Cancelled,
            _ = self.closing.wait_for(|is_closing| *is_closing) => StreamEnd::Shutdown,
        }
    }

    /// Waits until the credential expires and has to be verified again.
    pub(crate) fn expired(&self) -> impl Future<Output = ()> + use<> {
        let expiry = self.expiry;
        async move {
            match expiry {
                // `sleep_until` may be pending until the timer is polled.
                Some(expiry) if expiry <= Instant::now() => {}
                Some(expiry) => tokio::time::sleep_until(expiry).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Verifies the credential again. Returns `None` if it is invalid, has expired or cannot be verified.
    pub(crate) async fn caller(&mut self) -> Option<Caller> {
        let caller = self.identify.identify().await.ok()?;
        if caller.expires_at().is_some_and(|expires_at| expires_at <= SystemTime::now()) {
            return None;
        }
        self.expiry = expiry(&caller);
        Some(caller)
    }
}

fn expiry(caller: &Caller) -> Option<Instant> {
    let remaining = caller.expires_at()?.duration_since(SystemTime::now()).unwrap_or_default();
    Instant::now().checked_add(remaining)
}
