//! New connections, TCP and TLS together within a time limit.

use std::error::Error;
use std::io;
#[cfg(all(unix, feature = "forward"))]
use std::path::Path;
use std::pin::Pin;
#[cfg(all(unix, feature = "forward"))]
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tower_service::Service;

use super::stream::Stream;

/// A peer that is gone without a word is noticed after so long.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;

type BoxError = Box<dyn Error + Send + Sync>;
type Connecting = dyn Future<Output = Result<TokioIo<Stream>, BoxError>> + Send;

/// Connects to servers. A server that takes the connection and then says nothing of TLS holds up
/// nobody.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    way: Way,
    time_limit: Duration,
}

#[derive(Debug, Clone)]
enum Way {
    /// TCP, with TLS where the URL says so.
    Net(HttpsConnector<HttpConnector>),
    /// A socket in the file system, whatever the URL says.
    #[cfg(all(unix, feature = "forward"))]
    Unix(Arc<Path>),
}

impl Connector {
    /// HTTP/1.1 over TCP.
    pub(crate) fn new(tls: &ClientConfig, time_limit: Duration) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let way = Way::Net(builder.enable_http1().wrap_connector(tcp(time_limit)));
        Self { way, time_limit }
    }

    /// HTTP/1.1 over TCP, or HTTP/2 where TLS agrees on it.
    #[cfg(feature = "forward")]
    pub(crate) fn with_http2(tls: &ClientConfig, time_limit: Duration) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let way = Way::Net(builder.enable_all_versions().wrap_connector(tcp(time_limit)));
        Self { way, time_limit }
    }

    /// A socket in the file system.
    #[cfg(all(unix, feature = "forward"))]
    pub(crate) fn unix(path: &Path, time_limit: Duration) -> Self {
        Self { way: Way::Unix(path.into()), time_limit }
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

impl Way {
    fn connect(&mut self, uri: Uri) -> Pin<Box<Connecting>> {
        match self {
            Self::Net(connector) => {
                let connecting = connector.call(uri);
                Box::pin(async move {
                    let stream = connecting.await?;
                    let is_http2 = stream.connected().is_negotiated_h2();
                    Ok(TokioIo::new(Stream::new(TokioIo::new(stream)).http2(is_http2)))
                })
            }
            #[cfg(all(unix, feature = "forward"))]
            Self::Unix(path) => {
                let path = Arc::clone(path);
                Box::pin(async move {
                    let stream = tokio::net::UnixStream::connect(path).await?;
                    Ok(TokioIo::new(Stream::new(stream)))
                })
            }
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<Connecting>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.way {
            Way::Net(connector) => connector.poll_ready(context),
            #[cfg(all(unix, feature = "forward"))]
            Way::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.time_limit, self.way.connect(uri));
        Box::pin(async move {
            connecting
                .await
                .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        })
    }
}
