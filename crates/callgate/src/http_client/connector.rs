//! Opens connections.

use std::error::Error;
use std::io::{self, IoSlice};
#[cfg(all(unix, feature = "forward"))]
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(all(unix, feature = "forward"))]
use tokio::net::UnixStream;
use tokio::time::timeout;
use tower_service::Service;

/// Idle time before TCP keep-alive, which detects peers that disappeared without closing the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

#[derive(Debug, Clone)]
pub(crate) struct Connector {
    transport: Transport,
    time_limit: Duration,
}

#[derive(Debug, Clone)]
enum Transport {
    /// TCP, with TLS if the URL is `https`.
    Net(HttpsConnector<HttpConnector>),
    /// A Unix socket. The host of the URL is ignored.
    #[cfg(all(unix, feature = "forward"))]
    Unix(Arc<Path>),
}

impl Connector {
    pub(crate) fn new(tls: &ClientConfig, time_limit: Duration) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let net = builder.enable_http1().wrap_connector(tcp(time_limit));
        Self { transport: Transport::Net(net), time_limit }
    }

    /// Returns a connector for HTTP/1.1 over TCP, or HTTP/2 if TLS negotiates it.
    #[cfg(feature = "forward")]
    pub(crate) fn with_http2(tls: &ClientConfig, time_limit: Duration) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let net = builder.enable_all_versions().wrap_connector(tcp(time_limit));
        Self { transport: Transport::Net(net), time_limit }
    }

    #[cfg(all(unix, feature = "forward"))]
    pub(crate) fn unix(path: &Path, time_limit: Duration) -> Self {
        Self { transport: Transport::Unix(path.into()), time_limit }
    }
}

pub(super) fn tcp(time_limit: Duration) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // The limit applies to all addresses of a host name together.
    tcp.set_connect_timeout(Some(time_limit));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(KEEP_ALIVE + KEEP_ALIVE_RETRIES * KEEP_ALIVE_INTERVAL));
    tcp
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.transport {
            Transport::Net(connector) => connector.poll_ready(context),
            #[cfg(all(unix, feature = "forward"))]
            Transport::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let time_limit = self.time_limit;
        let timed_out = |_| BoxError::from(io::Error::from(io::ErrorKind::TimedOut));
        match &mut self.transport {
            Transport::Net(connector) => {
                let connecting = timeout(time_limit, connector.call(uri));
                Box::pin(async move {
                    let stream = connecting.await.map_err(timed_out)??;
                    let is_http2 = stream.connected().is_negotiated_h2();
                    Ok(TokioIo::new(Stream::new(TokioIo::new(stream), is_http2)))
                })
            }
            #[cfg(all(unix, feature = "forward"))]
            Transport::Unix(path) => {
                let path = Arc::clone(path);
                Box::pin(async move {
                    let connecting = timeout(time_limit, UnixStream::connect(path));
                    let stream = connecting.await.map_err(timed_out)??;
                    Ok(TokioIo::new(Stream::new(stream, false)))
                })
            }
        }
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

#[derive(Debug, Clone, Default)]
struct ResponseBytes(Arc<AtomicBool>);

/// Returns `true` if bytes of the response may have arrived. Over HTTP/2, always returns `false`: the connection
/// carries several requests, so received bytes do not show which request they answer.
pub(super) fn has_response_bytes(connected: &Connected) -> bool {
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    let received = extras.get::<ResponseBytes>();
    !connected.is_negotiated_h2()
        && received.is_none_or(|received| received.0.load(Ordering::Acquire))
}

/// A connection that records whether bytes have been read since the last write.
///
/// A request may be retried only if no byte of its response arrived. hyper's error does not report this.
pub(crate) struct Stream {
    io: Box<dyn Io>,
    is_http2: bool,
    received: ResponseBytes,
}

impl Stream {
    fn new(io: impl Io + 'static, is_http2: bool) -> Self {
        Self { io: Box::new(io), is_http2, received: ResponseBytes::default() }
    }

    fn clear_received(&self) {
        self.received.0.store(false, Ordering::Release);
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(self.received.clone());
        if self.is_http2 { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let previous_len = buffer.filled().len();
        let read = ready!(Pin::new(&mut *self.io).poll_read(context, buffer));
        if buffer.filled().len() > previous_len {
            self.received.0.store(true, Ordering::Release);
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
        self.clear_received();
        Pin::new(&mut *self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.clear_received();
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
