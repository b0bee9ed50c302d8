//! New connections, TCP and TLS together within a time limit.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::ClientConfig;
use tower_service::Service;

/// A peer that is gone without a word is noticed after so long.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;

type Inner = HttpsConnector<HttpConnector>;
type Connecting = dyn Future<Output = Result<<Inner as Service<Uri>>::Response, BoxError>> + Send;
type BoxError = Box<dyn Error + Send + Sync>;

/// Connects to servers. A server that takes the connection and then says nothing of TLS holds up
/// nobody.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    inner: Inner,
    time_limit: Duration,
}

impl Connector {
    pub(super) fn new(tls: &ClientConfig, time_limit: Duration) -> Self {
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
        let inner = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Self { inner, time_limit }
    }
}

impl Service<Uri> for Connector {
    type Response = <Inner as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<Connecting>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.time_limit, self.inner.call(uri));
        Box::pin(async move {
            connecting
                .await
                .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        })
    }
}
