//! Accepting connections: bounded in number, in how long a request's head may take, and in how
//! long requests under way may take to finish at the end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;

use super::HttpService;

/// A client that takes longer to say what it wants, from the first moment on or after a reply, is
/// let go: silent connections must not take the places of others. HTTP/2 is left to proxies in
/// front, since finding out which protocol a silent client means has no time limit.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// A client that does not read what it asked for is let go.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// After a failed accept, so that a lack of file descriptors is not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a server allows.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// How many connections there may be at once; others wait.
    pub max_connections: usize,
    /// How long requests under way may take to finish at the end.
    pub shutdown_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { max_connections: 1024, shutdown_timeout: Duration::from_secs(10) }
    }
}

/// Serves until `stop`, then lets requests under way finish.
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
        let Some((stream, permit)) = accepted else { continue };
        let service = service.clone();
        let each = service_fn(move |request| service.respond(request).map(Ok::<_, Infallible>));
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
    tracing::info!("stopping; requests under way may finish");
    if tokio::time::timeout(limits.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!(limit = ?limits.shutdown_timeout, "requests were cut off");
    }
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    // First a place, then a connection: those beyond the limit wait in the system's queue.
    let permit = match Arc::clone(connections).try_acquire_owned() {
        Ok(permit) => permit,
        Err(_) => {
            tracing::warn!("all connections are taken (`max_connections`); new ones wait");
            Arc::clone(connections).acquire_owned().await.ok()?
        }
    };
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Waits for SIGTERM or Ctrl-C. They are listened for from this call on, not only when it is awaited: who
/// is told where the program listens may stop it at once.
#[cfg(unix)]
pub fn told_to_stop() -> impl Future<Output = ()> {
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
                tracing::warn!(%error, "cannot listen for signals");
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub async fn told_to_stop() {
    let _ = tokio::signal::ctrl_c().await;
}
