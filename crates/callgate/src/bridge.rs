//! Connects an MCP client on standard input and output to a Streamable HTTP server. The server may use the legacy
//! revisions of MCP (with `initialize`) or the modern revisions (without `initialize`).
//!
//! [`run`] passes messages on unchanged in both directions. It adds the HTTP headers, waits for a server that is not
//! running yet, restores lost sessions and connections, and ensures that each request has one response.
//!
//! ```no_run
//! # use callgate::bridge::{self, Options};
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::new("http://127.0.0.1:8080/mcp".parse()?).token("cg_…")?;
//! let (input, output) = (tokio::io::BufReader::new(tokio::io::stdin()), tokio::io::stdout());
//! bridge::run(&options, input, output, std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```

mod options;
mod error_reply;
pub(crate) mod receive;
mod send;
mod session;
pub(crate) mod reply;

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::http_client::send_error::{SendError, SendErrorKind};
use error_reply::BridgeFailure;
use receive::MessageDispatcher;
use receive::in_flight::PendingRequests;
use send::client::ServerClient;
use send::param_headers::ParamHeaders;
use session::CurrentSession;
use session::settings::SessionSettings;

pub use crate::http_client::endpoint::{Endpoint, EndpointError};
pub use crate::http_client::tls::{CertificateError, TlsSetupError};
pub use options::{HeaderError, Limits, Options};

/// Maximum number of messages that are queued for the client.
const MAX_QUEUED_LINES: usize = 64;
/// Time limit for ending the session, and for writing the last messages to the client.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Error of [`run`].
#[derive(Debug, Error)]
pub enum BridgeError {
    /// TLS could not be configured.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// The input or the output failed.
    #[error("failed to read or write messages")]
    Io(#[from] io::Error),
}

/// Sends messages from `input` to the server and the server's messages to `output`, until the input ends or `stop`
/// completes. Must run in a tokio runtime.
///
/// The [module](self) has an example.
pub async fn run(
    options: &Options,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    stop: impl Future<Output = ()>,
) -> Result<(), BridgeError> {
    let (lines, queue) = mpsc::channel(MAX_QUEUED_LINES);
    let bridge = Arc::new(Bridge::new(options, lines)?);
    let mut write = pin!(write(output, queue));
    let exchange = async {
        let mut dispatcher = MessageDispatcher::new(Arc::clone(&bridge));
        let read = tokio::select! {
            read = dispatcher.read(input) => read,
            () = stop => {
                dispatcher.tasks.shutdown().await;
                Ok(())
            }
        };
        dispatcher.close().await;
        read
    };
    let read = tokio::select! {
        read = exchange => read,
        // The client closed the output.
        written = &mut write => return Ok(written?),
    };
    drop(bridge);
    // A client that does not read must not delay the shutdown.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, write).await;
    Ok(read?)
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    while let Some(mut line) = lines.recv().await {
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

#[derive(Debug)]
struct Bridge {
    http: ServerClient,
    limits: Limits,
    session: CurrentSession,
    in_flight: PendingRequests,
    param_headers: ParamHeaders,
    settings: SessionSettings,
    lines: mpsc::Sender<Vec<u8>>,
    reachability: Mutex<Reachability>,
}

#[derive(Debug)]
struct Reachability {
    /// Result of the last attempt to reach the server; `None` before the first attempt.
    last: Option<Result<(), String>>,
    /// Deadline for reaching the server for the first time; `None` once the server was reached.
    deadline: Option<Instant>,
}

impl Bridge {
    fn new(options: &Options, lines: mpsc::Sender<Vec<u8>>) -> Result<Self, TlsSetupError> {
        let deadline = Some(Instant::now() + options.limits.first_request_wait);
        Ok(Self {
            http: ServerClient::new(options)?,
            limits: options.limits,
            session: CurrentSession::default(),
            in_flight: PendingRequests::default(),
            param_headers: ParamHeaders::default(),
            settings: SessionSettings::default(),
            lines,
            reachability: Mutex::new(Reachability { last: None, deadline }),
        })
    }

    /// Writes a line to the client. Ignores a closed output, because the bridge then ends anyway.
    async fn write(&self, line: Vec<u8>) {
        let _ = self.lines.send(line).await;
    }

    /// Logs whether the server can be reached, if that has changed.
    fn set_reachable(&self, reached: Result<(), String>) {
        let endpoint = self.http.endpoint();
        let mut reachability = self.reachability();
        if reached.is_ok() && reachability.deadline.take().is_some() {
            self.http.set_connect_limit(self.limits.connect);
        }
        if reachability.last.as_ref().is_none_or(|last| last.is_ok() != reached.is_ok()) {
            match &reached {
                Ok(()) => tracing::info!("connected to {endpoint}"),
                Err(reason) => tracing::warn!("waiting for {endpoint}: {reason}"),
            }
        }
        reachability.last = Some(reached);
    }

    fn reachability(&self) -> MutexGuard<'_, Reachability> {
        self.reachability.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until which a request may be retried while the server is not running.
    fn retry_deadline(&self) -> Instant {
        let deadline = Instant::now() + self.limits.request_wait;
        self.reachability().deadline.unwrap_or(deadline)
    }

    /// Returns the failure for requests that are aborted after the input has ended.
    fn aborted_failure(&self) -> BridgeFailure {
        let endpoint = self.http.endpoint();
        match &self.reachability().last {
            Some(Err(reason)) => {
                let error = SendError::new(SendErrorKind::NotSent, reason.clone());
                BridgeFailure::of_sending(endpoint, &error)
            }
            _ => BridgeFailure::new(format!(
                "the input ended, and {endpoint} did not respond within {:?} after that. The request may \
                 have been executed; check before you send it again",
                self.limits.shutdown
            )),
        }
    }

    async fn end_session(&self) {
        let Some(session) = self.session.current().filter(|session| session.id.is_some()) else {
            return;
        };
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.http.delete(&session.headers())).await;
    }
}
