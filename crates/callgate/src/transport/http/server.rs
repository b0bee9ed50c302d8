//! Accepts connections. Limits their number, the time to receive the head of a request, and the time to finish requests
//! at shutdown.

use std::convert::Infallible;
use std::iter::Cycle;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use axum::body::Body;
use axum::http::Request;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;
use tokio_io_timeout::TimeoutStream;

use super::client_address::is_trusted;
use super::connections::{Connections, Peer, TrackedStream};
use super::{ConnectionLimit, HttpService, body, respond};
use crate::access::{Principal, Share, Shares};

/// Maximum time to receive the head of a request, in multiples of [`HEAD_CHECK_INTERVAL`]. It also applies after a
/// response, so that idle connections do not stay open. All connections are checked together, because a timer for
/// each request costs more. HTTP/2 is not supported, because hyper's detection of the protocol has no timeout. Clients
/// can use HTTP/2 through a proxy.
const MAX_HEAD_CHECKS: u32 = 15;
/// Interval between checks of the connections.
const HEAD_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time for which a client may stop reading its response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of connections that are refused at the same time, shared among addresses. Further connections are
/// closed without a reply.
const MAX_REFUSALS: usize = 64;
/// Maximum time to receive the head of a request on a connection that is refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Errors of `accept` when the process (EMFILE) or the system (ENFILE) has too many open files.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// Pause after a failed accept. It prevents a busy loop if there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Options of a server.
///
/// Argument of [`serve`] and [`Builder::server_options`](crate::Builder::server_options). [`serve`] has an example.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Maximum number of connections. If it is reached, a new connection replaces an idle one. If no idle connection
    /// can be closed, the new connection is refused.
    pub max_connections: usize,
    /// Maximum time to finish requests at shutdown.
    pub shutdown_timeout: Duration,
    /// Runtimes that serve connections. Connections are assigned to them in turn. If the list is empty, the runtime
    /// that runs [`serve`] serves all connections.
    ///
    /// With a single-threaded runtime for each core, a request is served by one thread from beginning to end. On two
    /// cores, such a server handles at least a tenth more requests per second than one with a multi-threaded runtime. A
    /// function that blocks delays all connections of its thread.
    pub runtimes: Vec<Handle>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            shutdown_timeout: Duration::from_secs(10),
            runtimes: Vec::new(),
        }
    }
}

/// Serves until `stop` resolves, then finishes open requests.
///
/// [`Callgate::serve`](crate::Callgate::serve) calls this function for applications that build a
/// [`Callgate`](crate::Callgate).
///
/// ```no_run
/// use std::sync::Arc;
/// use callgate::http::{self, Anonymous, HttpOptions, Readiness, ServerOptions};
/// use callgate::mcp::Mcp;
/// use tokio::net::TcpListener;
///
/// async fn run(mcp: Arc<Mcp>) -> std::io::Result<()> {
///     let readiness = Readiness::default();
///     let options = HttpOptions { metrics: true, ..HttpOptions::default() };
///     let service = http::service(mcp, Arc::new(Anonymous), readiness.clone(), options);
///     let listener = TcpListener::bind("127.0.0.1:8080").await?;
///     // From now on, `/readyz` replies with the status 200.
///     readiness.set_ready();
///     let options = ServerOptions { max_connections: 4096, ..ServerOptions::default() };
///     http::serve(listener, service, options, http::shutdown_signal()).await;
///     Ok(())
/// }
/// ```
pub async fn serve(
    listener: TcpListener,
    service: HttpService,
    options: ServerOptions,
    stop: impl Future<Output = ()>,
) {
    let shutdown_timeout = options.shutdown_timeout;
    let mut server = HttpServer::new(service, options);
    let mut stop = pin!(stop);
    let mut head_check = tokio::time::interval(HEAD_CHECK_INTERVAL);
    head_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            _ = head_check.tick() => {
                server.connections.close_waiting(MAX_HEAD_CHECKS);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => server.connect(stream, address.ip()),
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) {
                    server.connections.close_one();
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tracing::info!("shutting down, finishing open requests");
    let shutdown = server.graceful.shutdown();
    if tokio::time::timeout(shutdown_timeout, shutdown).await.is_err() {
        tracing::warn!(limit = ?shutdown_timeout, "shutdown timed out, dropping open requests");
    }
}

struct HttpServer {
    service: HttpService,
    builder: Builder,
    /// Builder of connections that are refused.
    refusal_builder: Builder,
    connections: Arc<Connections>,
    refusals: Arc<Shares>,
    graceful: GracefulShutdown,
    runtimes: Cycle<vec::IntoIter<Handle>>,
}

impl HttpServer {
    fn new(service: HttpService, options: ServerOptions) -> Self {
        let mut builder = Builder::new();
        builder.header_read_timeout(None);
        let mut refusal_builder = Builder::new();
        refusal_builder.timer(TokioTimer::new()).header_read_timeout(REFUSAL_TIMEOUT);
        refusal_builder.keep_alive(false);
        Self {
            service,
            builder,
            refusal_builder,
            connections: Connections::new(options.max_connections),
            refusals: Shares::of_addresses(MAX_REFUSALS),
            graceful: GracefulShutdown::new(),
            runtimes: options.runtimes.into_iter().cycle(),
        }
    }

    fn connect(&mut self, stream: TcpStream, address: IpAddr) {
        let _ = stream.set_nodelay(true);
        let principal = Principal::address(address);
        let is_proxy = is_trusted(address.to_canonical(), &self.service.state.options);
        let peer = if is_proxy { Peer::Proxy } else { Peer::Client(principal) };
        if self.connections.make_room(peer) {
            self.accept(stream, address, peer);
        } else if let Ok(share) = self.refusals.try_acquire(principal, 1) {
            self.refuse(stream, address, share);
        }
    }

    /// Serves a connection on the next runtime.
    fn accept(&mut self, stream: TcpStream, address: IpAddr, peer: Peer) {
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "connection ended"),
        };
        let runtime = self.runtimes.next().unwrap_or_else(Handle::current);
        let (service, builder) = (self.service.clone(), self.builder.clone());
        let watcher = self.graceful.watcher();
        self.connections.add(peer, |connection| {
            let serving = async move {
                let activity = Arc::clone(&connection.activity);
                let stream = with_write_timeout(TcpStream::from_std(stream)?);
                let stream = TrackedStream::new(stream, Arc::clone(&activity));
                let handler = service_fn(move |request| {
                    let (activity, in_progress) = (Arc::clone(&activity), activity.request());
                    service.respond(request, Some(address)).map(move |response| {
                        let response = body::keep_until_sent(response, activity.unsent());
                        Ok::<_, Infallible>(body::keep_while_streaming(response, in_progress))
                    })
                });
                let serving = builder.serve_connection(TokioIo::new(stream), handler);
                serve_connection(watcher.watch(serving), connection).await;
                std::io::Result::Ok(())
            };
            runtime.spawn(serving).abort_handle()
        });
    }

    /// Serves a connection above `max_connections`. Only endpoints that need no caller are available on it.
    fn refuse(&self, stream: TcpStream, address: IpAddr, share: Share) {
        let state = Arc::clone(&self.service.state);
        let handler = service_fn(move |request: Request<Incoming>| {
            let (state, request) = (Arc::clone(&state), request.map(Body::new));
            respond(state, request, Some(address), ConnectionLimit::Exceeded)
                .map(Ok::<_, Infallible>)
        });
        let stream = TokioIo::new(with_write_timeout(stream));
        let serving = self.graceful.watch(self.refusal_builder.serve_connection(stream, handler));
        tokio::spawn(serve_connection(serving, share));
    }
}

fn with_write_timeout(stream: TcpStream) -> Pin<Box<TimeoutStream<TcpStream>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    Box::pin(stream)
}

/// Serves a connection. Keeps `guard` until the connection ends.
async fn serve_connection<T>(serving: impl Future<Output = hyper::Result<()>>, guard: T) {
    if let Err(error) = serving.await {
        tracing::debug!(%error, "connection ended");
    }
    drop(guard);
}

/// Waits for SIGTERM or Ctrl-C. Calling this function installs the signal handlers, before the future is polled, so
/// that no signal is missed.
///
/// Argument of [`serve`], which has an example.
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
///
/// Argument of [`serve`], which has an example.
#[cfg(not(unix))]
pub async fn shutdown_signal() {
    let _ = tokio::signal::ctrl_c().await;
}
