//! A running call, and the messages that are sent to its client before the reply.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::poll_immediate;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::context::CallContext;
use super::in_flight::InFlightKey;
use super::notifier::Notifier;
use super::questions::run_with_questions;
use crate::mcp::streams::event::KEEP_ALIVE;
use crate::mcp::{EncodedMessage, Event, McpError, ResumableStream};
use crate::upstream::BoxFuture;
use crate::wire::Revision;

/// Interval between progress notifications if the method itself reports no progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The result of a call that has ended.
#[derive(Debug)]
pub struct CallReply {
    /// Messages to send before the response.
    pub notifications: Vec<EncodedMessage>,
    /// The JSON-RPC response.
    pub message: EncodedMessage,
    /// HTTP status, used if no message was sent before the response.
    pub status: u16,
}

impl From<EncodedMessage> for CallReply {
    fn from(message: EncodedMessage) -> Self {
        Self { notifications: Vec::new(), message, status: 200 }
    }
}

impl From<McpError> for CallReply {
    fn from(error: McpError) -> Self {
        Self { status: error.status, ..error.message().into() }
    }
}

/// A call that runs while it is polled. Dropping it cancels the call, unless the call was detached.
pub struct RunningCall {
    context: Arc<CallContext>,
    /// Resolves to `None` if the client cancels the call.
    reply: BoxFuture<'static, Option<CallReply>>,
    notifier: Notifier,
    /// Stores the events of the call.
    stream: Option<ResumableStream>,
    started: Instant,
    ticks: Option<Box<Ticks>>,
    peeked: Option<Event>,
    has_ended: bool,
}

struct Ticks {
    progress: Interval,
    keep_alive: Interval,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if let Some(channel) = self.context.channel.as_ref().filter(|_| !self.has_ended) {
            channel.disconnect();
        }
    }
}

impl std::fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningCall").field("id", &self.context.id).finish_non_exhaustive()
    }
}

impl RunningCall {
    pub(crate) fn new(
        context: Arc<CallContext>,
        notifier: Notifier,
        work: impl Future<Output = Result<CallReply, McpError>> + Send + 'static,
    ) -> Self {
        let CallContext { mcp, id, negotiated, .. } = &*context;
        let key = || InFlightKey::Request(id.get().to_owned());
        let cancellation = negotiated.scope.map(|scope| mcp.cancellations.register(scope, key()));
        let stream = match (negotiated.session, &mcp.services.event_store) {
            // Clients of older revisions fail on events without data, so events are stored only for this revision.
            (Some(session), Some(store)) if negotiated.revision == Revision::V2025_11_25 => {
                ResumableStream::open(session.nonce, store)
            }
            _ => None,
        };
        let call = Arc::clone(&context);
        let to_reply = move |reply: Result<CallReply, McpError>| {
            reply.unwrap_or_else(|error| error.with_id(&call.id).into())
        };
        let reply: BoxFuture<'static, _> = match (cancellation, &context.channel) {
            // `async` blocks around the future would make the future several times as large, and each move copies it.
            (None, None) => Box::pin(work.map(move |reply| Some(to_reply(reply)))),
            (cancellation, _) => {
                let (call, work) = (Arc::clone(&context), Box::pin(work));
                Box::pin(async move {
                    let reply = run_with_questions(&call, work).map(to_reply);
                    let Some(mut cancellation) = cancellation else { return Some(reply.await) };
                    tokio::select! {
                        biased;
                        () = cancellation.cancelled() => None,
                        reply = reply => Some(reply),
                    }
                })
            }
        };
        Self {
            context,
            reply,
            notifier,
            stream,
            started: Instant::now(),
            ticks: None,
            peeked: None,
            has_ended: false,
        }
    }

    /// Returns the id of the request.
    pub fn id(&self) -> &RawValue {
        &self.context.id
    }

    /// Returns `true` if the call ends when its client disconnects. Legacy calls continue.
    pub fn ends_with_client(&self) -> bool {
        self.context.negotiated.revision.is_modern()
    }

    /// Takes the stream in which the events of the call are stored.
    pub fn take_stream(&mut self) -> Option<ResumableStream> {
        self.stream.take()
    }

    /// Returns `true` if the client requested progress notifications.
    pub fn has_progress(&self) -> bool {
        self.notifier.has_progress()
    }

    /// Returns the future that runs the call, to be polled elsewhere. After that, dropping `self` does not cancel the
    /// call.
    pub fn detach(&mut self) -> BoxFuture<'static, ()> {
        let (sender, receiver) = oneshot::channel();
        let receiver = Box::pin(async move { receiver.await.ok().flatten() });
        let reply = std::mem::replace(&mut self.reply, receiver);
        Box::pin(async move {
            let _ = sender.send(reply.await);
        })
    }

    /// Polls the call once. For a call that is ready immediately, neither a task nor a timer is needed.
    pub async fn try_ready(&mut self) -> Poll<Option<CallReply>> {
        match poll_immediate(self.reply.as_mut()).await {
            Some(reply) => Poll::Ready(self.finish(reply)),
            None => Poll::Pending,
        }
    }

    /// Waits until the call ends. Returns `None` if the call was cancelled.
    pub async fn reply(&mut self) -> Option<CallReply> {
        let reply = self.reply.as_mut().await;
        self.finish(reply)
    }

    /// Waits until the call ends, until it sends a message, or until `limit` has passed.
    pub async fn reply_within(&mut self, limit: Duration) -> Poll<Option<CallReply>> {
        // Does not use the timers of `next`, because their intervals are longer.
        let first = async {
            loop {
                let event = tokio::select! {
                    biased;
                    reply = self.reply.as_mut() => return Ok(reply),
                    outgoing = self.context.next_outgoing() => self.notifier.event(outgoing),
                };
                if let Some(event) = event {
                    return Err(event);
                }
            }
        };
        match tokio::time::timeout(limit, first).await {
            Ok(Ok(reply)) => return Poll::Ready(self.finish(reply)),
            Ok(Err(event)) => self.peeked = Some(event),
            Err(_) => {}
        }
        Poll::Pending
    }

    fn finish(&mut self, reply: Option<CallReply>) -> Option<CallReply> {
        self.has_ended = true;
        let mut reply = reply?;
        if let Some(channel) = &self.context.channel {
            let mut notifications = self.notifier.take_messages(channel);
            notifications.append(&mut reply.notifications);
            reply.notifications = notifications;
        }
        Some(reply)
    }

    /// Returns the next event. The last event is the reply, unless the call was cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        if self.peeked.is_some() || self.has_ended {
            return self.peeked.take();
        }
        let started = self.started;
        loop {
            let ticks = self.ticks.get_or_insert_with(|| {
                Box::new(Ticks {
                    progress: interval_from(PROGRESS_INTERVAL, started),
                    keep_alive: interval_from(KEEP_ALIVE, started),
                })
            });
            let event = tokio::select! {
                biased;
                reply = self.reply.as_mut() => return self.finish(reply).map(Event::Reply),
                outgoing = self.context.next_outgoing() => self.notifier.event(outgoing),
                _ = ticks.progress.tick(), if self.notifier.reports_elapsed_time() => {
                    self.notifier.elapsed(started.elapsed()).map(Event::Message)
                }
                _ = ticks.keep_alive.tick() => Some(Event::KeepAlive),
            };
            if event.is_some() {
                return event;
            }
        }
    }
}

pub(crate) fn interval_from(period: Duration, since: Instant) -> Interval {
    let mut interval = tokio::time::interval_at(since + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
