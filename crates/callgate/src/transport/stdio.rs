//! MCP over stdio, or any other pair of byte streams: one client, one message per line.
//!
//! When the input ends or the server shuts down, running calls may still send their replies.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use callgate::Caller;
//! # use callgate::mcp::Mcp;
//! # use callgate::stdio::{self, StdioError, StdioOptions};
//! # async fn run(mcp: Arc<Mcp>) -> Result<(), StdioError> {
//! let (input, output) = (tokio::io::BufReader::new(tokio::io::stdin()), tokio::io::stdout());
//! stdio::serve(mcp, Arc::new(Caller::anonymous()), input, output, StdioOptions::default()).await?;
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
mod tests;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::mcp::{
    Connection, EncodedMessage, Event, Identify, IdentifyError, Inbound, InboundKind, Mcp,
    McpError, McpResponse, NotificationStream, answer_batch,
};
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, Request};
use crate::wire::lines::{Line, read_line};

/// Maximum number of messages that are queued for a slow client.
const MAX_WAITING: usize = 64;
/// Maximum number of running calls.
const MAX_CALLS: usize = 256;

/// Maximum number of open subscriptions.
const MAX_STREAMS: usize = 64;

/// Maximum time for which a client may stop reading. After the input has ended, [`StdioOptions::end_timeout`] also
/// applies.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// Limits of the transport.
///
/// Argument of [`serve`]. The module [`stdio`](self) has an example.
#[derive(Debug, Clone, Copy)]
pub struct StdioOptions {
    /// Maximum length of a message, in bytes.
    pub max_line_bytes: usize,
    /// Maximum time to finish calls after the input has ended or the server shuts down. The same limit applies to
    /// writing the last messages after that.
    pub end_timeout: Duration,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self { max_line_bytes: 1024 * 1024, end_timeout: Duration::from_secs(10) }
    }
}

/// Reason why serving a client failed.
///
/// Error of [`serve`] and [`Callgate::serve_stdio`](crate::Callgate::serve_stdio).
#[derive(Debug, Error)]
pub enum StdioError {
    /// Reading or writing failed.
    #[error("failed to read or write a message")]
    Io(#[from] io::Error),
}

/// Serves one client until the input ends or the server shuts down.
///
/// [`Callgate::serve_stdio`](crate::Callgate::serve_stdio) calls this function with standard input and output. The
/// module [`stdio`](self) has an example.
pub async fn serve(
    mcp: Arc<Mcp>,
    identify: Arc<dyn Identify>,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    options: StdioOptions,
) -> Result<(), StdioError> {
    let (sender, messages) = mpsc::channel(MAX_WAITING);
    let server = StdioServer {
        mcp,
        identify,
        connection: Arc::default(),
        sender,
        calls: JoinSet::new(),
        streams: JoinSet::new(),
        options,
    };
    let mut write = pin!(write(output, messages));
    tokio::select! {
        read = server.read(input) => read?,
        written = &mut write => return Ok(written?),
    }
    // A client that does not read must not delay the shutdown.
    match tokio::time::timeout(options.end_timeout, write).await {
        Ok(written) => Ok(written?),
        Err(_) => Ok(()),
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<EncodedMessage>,
) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        let line = async {
            for slice in message.into_slices() {
                output.write_all(&slice).await?;
            }
            output.write_all(b"\n").await?;
            output.flush().await
        };
        let timed_out =
            || io::Error::new(io::ErrorKind::TimedOut, "the client does not read its messages");
        tokio::time::timeout(WRITE_TIMEOUT, line).await.map_err(|_| timed_out())??;
    }
    Ok(())
}

struct StdioServer {
    mcp: Arc<Mcp>,
    identify: Arc<dyn Identify>,
    connection: Arc<Connection>,
    sender: mpsc::Sender<EncodedMessage>,
    calls: JoinSet<()>,
    streams: JoinSet<()>,
    options: StdioOptions,
}

impl StdioServer {
    async fn read(mut self, mut input: impl AsyncBufRead + Unpin) -> Result<(), StdioError> {
        let mut closing = self.mcp.closing();
        loop {
            let line = tokio::select! {
                line = read_line(&mut input, self.options.max_line_bytes) => line?,
                _ = closing.wait_for(|is_closing| *is_closing) => Line::End,
            };
            // Removes tasks that have ended, so that they do not count against the limit.
            while self.calls.try_join_next().is_some() {}
            while self.streams.try_join_next().is_some() {}
            match line {
                Line::End => break,
                Line::TooLong(_) => {
                    let limit = self.options.max_line_bytes;
                    let message = format!("the message is longer than {limit} bytes");
                    let error = McpError::new(413, INVALID_REQUEST, message);
                    self.send(error.message()).await;
                }
                Line::Text(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                Line::Text(line) => self.handle(&line).await,
            }
        }
        self.streams.shutdown().await;
        let ended = async { while self.calls.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.end_timeout, ended).await.is_err() {
            tracing::warn!(limit = ?self.options.end_timeout, "calls did not end in time, dropping them");
            self.calls.shutdown().await;
        }
        Ok(())
    }

    /// Queues a message. If the client does not read its messages, the function `write` returns an error.
    async fn send(&self, message: EncodedMessage) {
        let _ = self.sender.send(message).await;
    }

    /// Refuses a request because the credential is invalid or cannot be verified. Ignores notifications.
    async fn refuse(&self, text: &str, reason: IdentifyError) {
        if let Some(id) = Request::parse(text).ok().and_then(|request| request.id) {
            let error = match reason {
                IdentifyError::Refused => {
                    McpError::new(401, INVALID_REQUEST, self.identify.refusal())
                }
                IdentifyError::Unavailable => {
                    McpError::new(503, INTERNAL_ERROR, reason.to_string())
                }
            };
            self.send(error.with_id(id).message()).await;
        }
    }

    async fn handle(&mut self, line: &[u8]) {
        let identified = self.identify.identify().await;
        let Ok(text) = std::str::from_utf8(line) else {
            let error = McpError::new(400, PARSE_ERROR, "not valid JSON: not UTF-8");
            self.send(error.message()).await;
            return;
        };
        let caller = match identified {
            Ok(caller) => caller,
            Err(error) => return self.refuse(text, error).await,
        };
        let (mcp, connection, identify) =
            (Arc::clone(&self.mcp), Arc::clone(&self.connection), Arc::clone(&self.identify));
        let was_initialized = connection.is_initialized();
        let inbound = Inbound {
            kind: InboundKind::Message,
            headers: None,
            body: text,
            connection: Some(&connection),
            caller: &caller,
            identify: &|| Arc::clone(&identify),
            accepts_events: true,
        };
        match mcp.handle(&inbound).await {
            Err(error) if error.is_for_notification => {}
            Err(error) => self.send(error.message()).await,
            Ok(response) => self.respond(response).await,
        }
        if connection.is_initialized() && !was_initialized {
            let caller = mcp.gateway().prepare(caller).await;
            self.listen(NotificationStream::legacy(&mcp, &caller, identify).over(&connection));
        }
    }

    async fn respond(&mut self, response: McpResponse) {
        match response {
            McpResponse::Message(message) | McpResponse::SessionOpened { message, .. } => {
                self.send(message).await;
            }
            // Over stdio, streams cannot be resumed.
            McpResponse::Accepted | McpResponse::Resumed(_) => {}
            McpResponse::Call(call) if self.calls.len() >= MAX_CALLS => {
                self.send(too_many(MAX_CALLS, "running calls").with_id(call.id()).message()).await;
            }
            McpResponse::Call(mut call) => {
                let sender = self.sender.clone();
                self.calls.spawn(async move {
                    while let Some(event) = call.next().await {
                        send_event(&sender, event).await;
                    }
                });
            }
            McpResponse::Notifications(stream) if self.streams.len() >= MAX_STREAMS => {
                let error = stream.error(too_many(MAX_STREAMS, "subscriptions"));
                self.send(error.message()).await;
            }
            McpResponse::Notifications(stream) => self.listen(*stream),
            McpResponse::Batch(parts) if self.calls.len() + parts.len() > MAX_CALLS => {
                self.send(too_many(MAX_CALLS, "running calls").message()).await;
            }
            McpResponse::Batch(parts) => {
                let sender = self.sender.clone();
                let mut futures = Vec::new();
                let reply = answer_batch(parts, |future| futures.push(future));
                for future in futures {
                    self.calls.spawn(future);
                }
                self.calls.spawn(async move {
                    if let Some(message) = reply.await {
                        let _ = sender.send(message).await;
                    }
                });
            }
        }
    }

    fn listen(&mut self, mut stream: NotificationStream) {
        let sender = self.sender.clone();
        self.streams.spawn(async move {
            while let Some(event) = stream.next().await {
                send_event(&sender, event).await;
            }
        });
    }
}

fn too_many(limit: usize, subject: &str) -> McpError {
    let message = format!("at most {limit} {subject} are allowed");
    McpError::new(503, INTERNAL_ERROR, message)
}

/// Queues the messages of an event. Stdio needs no keep-alive, so such events are skipped.
async fn send_event(sender: &mpsc::Sender<EncodedMessage>, event: Event) {
    for message in event.into_messages() {
        let _ = sender.send(message).await;
    }
}
