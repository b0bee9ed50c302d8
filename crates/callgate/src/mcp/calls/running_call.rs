//! Calls under way: what their clients are sent until the reply.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::in_flight::Cancellation;
use super::notifier::Notifier;
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::OutMessage;
use crate::mcp::streams::event::{Event, KEEP_ALIVE};
use crate::mcp::streams::event_store::KeptStream;
use crate::upstream::BoxFuture;

/// Interval between reports of progress for methods that make none.
const PROGRESS: Duration = Duration::from_secs(5);

/// How a request ended.
#[derive(Debug)]
pub struct Answer {
    /// Messages before the reply.
    pub notes: Vec<OutMessage>,
    /// The reply.
    pub reply: OutMessage,
    /// HTTP status, if nothing was sent before.
    pub status: u16,
}

impl From<OutMessage> for Answer {
    fn from(reply: OutMessage) -> Self {
        Self { notes: Vec::new(), reply, status: 200 }
    }
}

impl From<Reject> for Answer {
    fn from(reject: Reject) -> Self {
        Self { status: reject.status, ..reject.message().into() }
    }
}

/// A call that runs while it is polled. Dropping it cancels the call, unless it was detached.
pub struct RunningCall {
    id: Box<RawValue>,
    /// Resolves to `None` if the client cancels the call.
    answer: BoxFuture<'static, Option<Answer>>,
    notifier: Notifier,
    /// Whether the call goes on when its client disconnects.
    outlives_client: bool,
    /// Where its events are stored, if they are.
    kept: Option<KeptStream>,
    started: Option<Instant>,
    ticks: Option<Box<Ticks>>,
    peeked: Option<Event>,
    is_over: bool,
}

struct Ticks {
    progress: Interval,
    alive: Interval,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if let Some(channel) = self.notifier.channel().filter(|_| !self.is_over) {
            channel.disconnect();
        }
    }
}

impl std::fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningCall").field("id", &self.id).finish_non_exhaustive()
    }
}

impl RunningCall {
    pub(crate) fn new(
        id: &RawValue,
        notifier: Notifier,
        cancellation: Option<Cancellation>,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Self {
        let answer = async move {
            let Some(mut cancellation) = cancellation else { return Some(work.await) };
            tokio::select! {
                biased;
                () = cancellation.cancelled() => None,
                answer = work => Some(answer),
            }
        };
        Self {
            id: id.to_owned(),
            answer: Box::pin(answer),
            notifier,
            outlives_client: false,
            kept: None,
            started: None,
            ticks: None,
            peeked: None,
            is_over: false,
        }
    }

    /// Has the call go on when its client disconnects, with its events stored where that is wanted.
    pub(crate) fn outlives_client(mut self, kept: Option<KeptStream>) -> Self {
        self.outlives_client = true;
        self.kept = kept;
        self
    }

    /// The request's id.
    pub fn id(&self) -> &RawValue {
        &self.id
    }

    /// Returns `true` if the call ends with its client.
    pub fn ends_with_client(&self) -> bool {
        !self.outlives_client
    }

    /// Returns where the events are stored.
    pub fn take_kept(&mut self) -> Option<KeptStream> {
        self.kept.take()
    }

    /// Returns `true` if the client wants to know about progress.
    pub fn has_progress(&self) -> bool {
        self.notifier.has_progress()
    }

    /// Returns the part that runs, to be polled elsewhere; dropping the call does not cancel it then.
    pub fn detach(&mut self) -> BoxFuture<'static, ()> {
        let (sender, receiver) = oneshot::channel();
        let receiver = Box::pin(async move { receiver.await.ok().flatten() });
        let answer = std::mem::replace(&mut self.answer, receiver);
        Box::pin(async move {
            let _ = sender.send(answer.await);
        })
    }

    /// Polls the call once: one that is ready needs neither a task nor a timer.
    pub async fn try_ready(&mut self) -> Poll<Option<Answer>> {
        let answer = poll_fn(|context| Poll::Ready(self.answer.as_mut().poll(context))).await;
        if answer.is_pending() {
            self.started = Some(Instant::now());
        }
        answer.map(|answer| self.finish(answer))
    }

    /// Waits for the end.
    pub async fn answer(&mut self) -> Option<Answer> {
        let answer = self.answer.as_mut().await;
        self.finish(answer)
    }

    /// Waits for the end, but no longer than `limit` and only until there is another event.
    pub async fn answer_within(&mut self, limit: Duration) -> Poll<Option<Answer>> {
        match tokio::time::timeout(limit, self.next()).await {
            Ok(Some(Event::Reply(answer))) => return Poll::Ready(Some(answer)),
            Ok(None) => return Poll::Ready(None),
            Ok(event) => self.peeked = event,
            Err(_) => {}
        }
        Poll::Pending
    }

    fn finish(&mut self, answer: Option<Answer>) -> Option<Answer> {
        self.is_over = true;
        let mut answer = answer?;
        let mut notes = self.notifier.take_messages();
        notes.append(&mut answer.notes);
        Some(Answer { notes, ..answer })
    }

    /// Returns the next event; the last one is the reply, unless the call was cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        if self.peeked.is_some() || self.is_over {
            return self.peeked.take();
        }
        let started = *self.started.get_or_insert_with(Instant::now);
        loop {
            let ticks = self.ticks.get_or_insert_with(|| {
                Box::new(Ticks {
                    progress: every(PROGRESS, started),
                    alive: every(KEEP_ALIVE, started),
                })
            });
            let event = tokio::select! {
                biased;
                answer = self.answer.as_mut() => return self.finish(answer).map(Event::Reply),
                outgoing = self.notifier.next_outgoing() => self.notifier.event(outgoing),
                _ = ticks.progress.tick(), if self.notifier.reports_time() => {
                    self.notifier.elapsed(started.elapsed()).map(Event::Message)
                }
                _ = ticks.alive.tick() => Some(Event::KeepAlive),
            };
            if event.is_some() {
                return event;
            }
        }
    }
}

pub(crate) fn every(period: Duration, since: Instant) -> Interval {
    let mut interval = tokio::time::interval_at(since + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
