//! A connection that knows whether anything came back since something was last written to it.
//!
//! A request that was lost may be sent again only if no byte of its response was there (D31), and
//! hyper's error does not tell.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection needs to be.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Whether bytes came since the last that were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<AtomicBool>);

#[cfg(feature = "forward")]
impl Heard {
    /// Whether there were any.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A connection of any kind.
pub(crate) struct Stream {
    io: Box<dyn Io>,
    is_http2: bool,
    heard: Heard,
}

impl Stream {
    pub(crate) fn new(io: impl Io + 'static) -> Self {
        Self { io: Box::new(io), is_http2: false, heard: Heard::default() }
    }

    /// Where TLS agreed on HTTP/2.
    pub(crate) fn http2(mut self, is_http2: bool) -> Self {
        self.is_http2 = is_http2;
        self
    }

    fn wrote(&self) {
        self.heard.0.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("heard", &self.heard).finish_non_exhaustive()
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(self.heard.clone());
        if self.is_http2 { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut *self.io).poll_read(context, buffer));
        if buffer.filled().len() > before {
            self.heard.0.store(true, Ordering::Release);
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wrote();
        Pin::new(&mut *self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wrote();
        Pin::new(&mut *self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_shutdown(context)
    }
}
