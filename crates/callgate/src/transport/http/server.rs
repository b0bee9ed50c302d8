//! Accepts connections, with limits on their number, on the time to receive a request's head, and on the time to
//! finish requests at shutdown.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

use super::HttpService;

/// Maximum time to receive the head of a request, also after a response: idle connections must not use up the limit.
/// HTTP/2 is left to proxies, because hyper's detection of the protocol has no timeout.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time for which a client may stop reading its response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after a failed accept, so that a lack of file descriptors causes no busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Maximum number of connections; others wait.
    pub max_connections: usize,
    /// Maximum time to finish requests at shutdown.
    pub shutdown_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { max_connections: 1024, shutdown_timeout: Duration::from_secs(10) }
    }
}

/// Serves until `stop` resolves, then finishes open requests.
pub async fn serve(
    listener: TcpListener,
    service: HttpService,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) {
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let connections = Arc::new(Semaphore::new(limits.max_connections));
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        let service = service.clone();
        let each = service_fn(move |request| {
            service.respond(request, Some(peer.ip())).map(Ok::<_, Infallible>)
        });
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIMEOUT));
        let stream = TokioIo::new(Box::pin(stream));
        let connection = graceful.watch(builder.serve_connection(stream, each));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %error, "connection ended");
            }
            drop(permit);
        });
    }
    drop(listener);
    tracing::info!("shutting down, finishing open requests");
    if tokio::time::timeout(limits.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!(limit = ?limits.shutdown_timeout, "shutdown timed out, dropping open requests");
    }
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // The permit comes first, so that connections beyond the limit wait in the system's queue.
    let permit = match Arc::clone(connections).try_acquire_owned() {
        Ok(permit) => permit,
        Err(_) => {
            tracing::warn!("`max_connections` reached, new connections wait");
            Arc::clone(connections).acquire_owned().await.ok()?
        }
    };
    match listener.accept().await {
        Ok((stream, peer)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, peer, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "failed to accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Waits for SIGTERM or Ctrl-C. The signal handlers are installed by the call, before the future is polled, so that
/// no signal is missed.
#[cfg(unix)]
pub fn shutdown_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = signal(SignalKind::terminate())
        .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
    async {
        match signals {
            Ok((mut terminate, mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            Err(error) => {
                tracing::warn!(%error, "failed to install signal handlers");
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub async fn shutdown_signal() {
    let _ = tokio::signal::ctrl_c().await;
}
