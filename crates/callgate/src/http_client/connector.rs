//! New connections, TCP and TLS together within a time limit.

use std::error::Error;
use std::fmt;
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
use tokio::time::timeout;
use tower_service::Service;

/// TCP keep-alive, so that a peer that vanished is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;

type BoxError = Box<dyn Error + Send + Sync>;

/// Connects to servers, each within a time limit that includes TLS.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    transport: Transport,
    time_limit: Duration,
}

#[derive(Debug, Clone)]
enum Transport {
    /// TCP, with TLS if the URL says so.
    Net(HttpsConnector<HttpConnector>),
    /// A Unix socket, whatever the URL says.
    #[cfg(all(unix, feature = "forward"))]
    Unix(Arc<Path>),
}

impl Connector {
    /// HTTP/1.1 over TCP.
    pub(crate) fn new(tls: &ClientConfig, time_limit: Duration) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let net = builder.enable_http1().wrap_connector(tcp(time_limit));
        Self { transport: Transport::Net(net), time_limit }
    }

    /// HTTP/1.1 over TCP, or HTTP/2 if TLS negotiates it.
    #[cfg(feature = "forward")]
    pub(crate) fn with_http2(tls: &ClientConfig, time_limit: Duration) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let net = builder.enable_all_versions().wrap_connector(tcp(time_limit));
        Self { transport: Transport::Net(net), time_limit }
    }

    /// A Unix socket.
    #[cfg(all(unix, feature = "forward"))]
    pub(crate) fn unix(path: &Path, time_limit: Duration) -> Self {
        Self { transport: Transport::Unix(path.into()), time_limit }
    }
}

fn tcp(time_limit: Duration) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // Shared among all addresses of a name.
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
                    let connecting = timeout(time_limit, tokio::net::UnixStream::connect(path));
                    let stream = connecting.await.map_err(timed_out)??;
                    Ok(TokioIo::new(Stream::new(stream, false)))
                })
            }
        }
    }
}

/// The operations that a connection needs.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Records whether bytes arrived since the last that were written.
#[derive(Debug, Clone, Default)]
struct Heard(Arc<AtomicBool>);

/// Returns `true` if bytes may have arrived since the request was written. Over HTTP/2 they belong to any
/// request or to none, and a response without its head is no response.
pub(super) fn was_heard(connected: &Connected) -> bool {
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    let heard = extras.get::<Heard>();
    !connected.is_negotiated_h2() && heard.is_none_or(|heard| heard.0.load(Ordering::Acquire))
}

/// A connection of any kind that records whether anything arrived since the last write.
///
/// A lost request may be sent again only if no byte of its response had arrived, and hyper's error does
/// not tell.
pub(crate) struct Stream {
    io: Box<dyn Io>,
    is_http2: bool,
    heard: Heard,
}

impl Stream {
    fn new(io: impl Io + 'static, is_http2: bool) -> Self {
        Self { io: Box::new(io), is_http2, heard: Heard::default() }
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
