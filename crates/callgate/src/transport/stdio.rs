//! MCP over lines: one client, on standard input and output or any other pair of streams.
//!
//! Nothing but messages is written. At the end of the input, and when the protocol is closed, calls
//! under way may still answer.

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
    Connection, Event, Identify, Inbound, Listener, Mcp, OutMessage, Reject, Reply, Unidentified,
    Verb, answer_batch,
};
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, Request};
use crate::wire::lines::{Line, read_line};

/// So many messages may wait for a client that does not read.
const MAX_WAITING: usize = 64;
/// So many calls of one client run at once.
const MAX_CALLS: usize = 256;

/// So many subscriptions of one client are open at once.
const MAX_LISTENERS: usize = 64;

/// A client that does not read for so long is let go; its input may have ended long ago.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// What is allowed.
#[derive(Debug, Clone, Copy)]
pub struct StdioOptions {
    /// How long a message may be.
    pub max_line_bytes: usize,
    /// How long calls under way may take when the input has ended.
    pub end_timeout: Duration,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self { max_line_bytes: 1024 * 1024, end_timeout: Duration::from_secs(10) }
    }
}

/// Why a client is no longer served.
#[derive(Debug, Error)]
pub enum StdioError {
    /// The streams broke.
    #[error("cannot read or write messages")]
    Io(#[from] io::Error),
    /// The caller may no longer be here.
    #[error("the credential is not, or no longer, good")]
    Credential,
}

/// Serves one client until the input ends.
pub async fn serve(
    mcp: Arc<Mcp>,
    who: Arc<dyn Identify>,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    options: StdioOptions,
) -> Result<(), StdioError> {
    let (sender, messages) = mpsc::channel(MAX_WAITING);
    let server = Server {
        mcp,
        who,
        connection: Arc::default(),
        sender,
        calls: JoinSet::new(),
        listeners: JoinSet::new(),
        options,
    };
    let mut write = pin!(write(output, messages));
    tokio::select! {
        read = server.read(input) => read?,
        written = &mut write => return Ok(written?),
    }
    // A client that does not read holds up no end.
    match tokio::time::timeout(options.end_timeout, write).await {
        Ok(written) => Ok(written?),
        Err(_) => Ok(()),
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<OutMessage>,
) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        let line = async {
            for slice in message.into_slices() {
                output.write_all(&slice).await?;
            }
            output.write_all(b"\n").await?;
            output.flush().await
        };
        let stuck = || io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
        tokio::time::timeout(WRITE_TIMEOUT, line).await.map_err(|_| stuck())??;
    }
    Ok(())
}

struct Server {
    mcp: Arc<Mcp>,
    who: Arc<dyn Identify>,
    connection: Arc<Connection>,
    sender: mpsc::Sender<OutMessage>,
    calls: JoinSet<()>,
    listeners: JoinSet<()>,
    options: StdioOptions,
}

impl Server {
    async fn read(mut self, mut input: impl AsyncBufRead + Unpin) -> Result<(), StdioError> {
        let mut closing = self.mcp.closing();
        loop {
            let line = tokio::select! {
                line = read_line(&mut input, self.options.max_line_bytes) => line?,
                _ = closing.wait_for(|is_closing| *is_closing) => Line::End,
            };
            // What has ended takes no place.
            while self.calls.try_join_next().is_some() {}
            while self.listeners.try_join_next().is_some() {}
            match line {
                Line::End => break,
                Line::TooLong(_) => {
                    let limit = self.options.max_line_bytes;
                    let message = format!("the message is longer than {limit} bytes");
                    let reject = Reject::with_status(413, INVALID_REQUEST, message);
                    self.send(reject.message()).await;
                }
                Line::Text(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                Line::Text(line) => self.answer(&line).await?,
            }
        }
        self.listeners.shutdown().await;
        let ended = async { while self.calls.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.end_timeout, ended).await.is_err() {
            tracing::warn!(limit = ?self.options.end_timeout, "calls were cut off");
            self.calls.shutdown().await;
        }
        Ok(())
    }

    /// Who does not read is told nothing; the writer says so.
    async fn send(&self, message: OutMessage) {
        let _ = self.sender.send(message).await;
    }

    /// Refuses a message for now. One that needs no answer is lost.
    async fn put_off(&self, text: &str, why: Unidentified) {
        if let Some(id) = Request::parse(text).ok().and_then(|request| request.id) {
            let reject = Reject::with_status(503, INTERNAL_ERROR, why.to_string());
            self.send(reject.of(id).message()).await;
        }
    }

    async fn answer(&mut self, line: &[u8]) -> Result<(), StdioError> {
        let identified = self.who.identify().await;
        if identified.as_ref().is_err_and(|error| *error == Unidentified::Refused) {
            return Err(StdioError::Credential);
        }
        let Ok(text) = std::str::from_utf8(line) else {
            let reject = Reject::with_status(400, PARSE_ERROR, "not valid JSON: not UTF-8");
            self.send(reject.message()).await;
            return Ok(());
        };
        let caller = match identified {
            Ok(caller) => caller,
            Err(error) => {
                self.put_off(text, error).await;
                return Ok(());
            }
        };
        let (mcp, connection, who) =
            (Arc::clone(&self.mcp), Arc::clone(&self.connection), Arc::clone(&self.who));
        let was_initialized = connection.is_initialized();
        let inbound = Inbound {
            verb: Verb::Post,
            headers: None,
            body: text,
            connection: Some(&connection),
            caller: &caller,
            identify: &|| Arc::clone(&who),
            accepts_events: true,
        };
        match mcp.handle(&inbound).await {
            Err(reject) if reject.is_unasked => {}
            Err(reject) => self.send(reject.message()).await,
            Ok(Reply::Opened { message, .. }) => {
                self.send(message).await;
                if !was_initialized {
                    let caller = mcp.gateway().prepare(caller).await;
                    self.listen(Listener::legacy(&mcp, &caller, who).over(&connection));
                }
            }
            Ok(reply) => self.reply(reply).await,
        }
        Ok(())
    }

    async fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Message(message) | Reply::Opened { message, .. } => self.send(message).await,
            // Lines are never lost, so nothing is kept.
            Reply::Accepted | Reply::Replay(_) => {}
            Reply::Call(call) if self.calls.len() >= MAX_CALLS => {
                self.send(too_many(MAX_CALLS, "calls run").of(call.id()).message()).await;
            }
            Reply::Call(mut call) => {
                let sender = self.sender.clone();
                self.calls.spawn(async move {
                    while let Some(event) = call.next().await {
                        send_event(&sender, event).await;
                    }
                });
            }
            Reply::Listen(listener) if self.listeners.len() >= MAX_LISTENERS => {
                let reject = listener.refused(too_many(MAX_LISTENERS, "subscriptions"));
                self.send(reject.message()).await;
            }
            Reply::Listen(listener) => self.listen(*listener),
            Reply::Batch(parts) if self.calls.len() + parts.len() > MAX_CALLS => {
                self.send(too_many(MAX_CALLS, "calls run").message()).await;
            }
            Reply::Batch(parts) => {
                let sender = self.sender.clone();
                let mut runs = Vec::new();
                let answer = answer_batch(parts, |run| runs.push(run));
                for run in runs {
                    self.calls.spawn(run);
                }
                self.calls.spawn(async move {
                    if let Some(message) = answer.await {
                        let _ = sender.send(message).await;
                    }
                });
            }
        }
    }

    fn listen(&mut self, mut listener: Listener) {
        let sender = self.sender.clone();
        self.listeners.spawn(async move {
            while let Some(event) = listener.next().await {
                send_event(&sender, event).await;
            }
        });
    }
}

fn too_many(limit: usize, what: &str) -> Reject {
    let message = format!("no more than {limit} {what} at once");
    Reject::with_status(503, INTERNAL_ERROR, message)
}

/// Lines need no sign of life; and where nobody reads, the end is near.
async fn send_event(sender: &mpsc::Sender<OutMessage>, event: Event) {
    for message in event.into_messages() {
        let _ = sender.send(message).await;
    }
}
