//! Calls under way: what a client hears while one runs, and how it is cancelled.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::message::OutMessage;
use super::session::Nonce;
use super::tools::{Answer, Progress, ToolCall};
use super::watch::{Event, KEEP_ALIVE};
use crate::upstream::BoxFuture;

/// How often a client that asked for it hears that a call is still running.
const PROGRESS: Duration = Duration::from_secs(5);

/// Whose calls an id belongs to: ids are unique within a session or a connection only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Session(Nonce),
    Connection(u64),
}

/// The calls that can be cancelled.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    count: u64,
    cancel: HashMap<(Scope, String), (u64, oneshot::Sender<()>)>,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call, until what comes back is dropped. How many there are is for the transport to
    /// bound.
    pub(crate) fn enter(self: &Arc<Self>, scope: Scope, id: &RawValue) -> Entered {
        let (cancel, cancelled) = oneshot::channel();
        let key = (scope, id.get().to_owned());
        let mut calls = self.lock();
        calls.count += 1;
        let number = calls.count;
        calls.cancel.insert(key.clone(), (number, cancel));
        drop(calls);
        Entered { calls: Arc::clone(self), key, number, cancelled }
    }

    /// Cancels a call; one that is over or unknown is none of ours.
    pub(crate) fn cancel(&self, scope: Scope, id: &RawValue) {
        let call = self.lock().cancel.remove(&(scope, id.get().to_owned()));
        if let Some((_, cancel)) = call {
            let _ = cancel.send(());
        }
    }
}

/// A call's place among those that can be cancelled.
#[derive(Debug)]
pub(crate) struct Entered {
    calls: Arc<InFlight>,
    key: (Scope, String),
    number: u64,
    cancelled: oneshot::Receiver<()>,
}

impl Entered {
    /// Waits until the client takes its request back.
    pub(crate) async fn cancelled(&mut self) {
        if (&mut self.cancelled).await.is_err() {
            // Another request has taken the id, and with it the place.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        // A client may have used the id again.
        if calls.cancel.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            calls.cancel.remove(&self.key);
        }
    }
}

/// A call that can run.
#[derive(Debug)]
pub struct PreparedCall {
    call: ToolCall,
    entered: Option<Entered>,
}

impl PreparedCall {
    pub(crate) fn new(call: ToolCall, entered: Option<Entered>) -> Self {
        Self { call, entered }
    }

    /// The request's id.
    pub fn id(&self) -> &RawValue {
        self.call.id()
    }

    /// Runs it where the future is polled. To drop the future is to cancel the call.
    pub fn start(self) -> RunningCall {
        let progress = self.call.progress();
        RunningCall::new(Box::pin(self.run()), progress)
    }

    /// `None` where it was cancelled.
    async fn run(self) -> Option<Answer> {
        let Some(mut entered) = self.entered else { return Some(self.call.run().await) };
        tokio::select! {
            biased;
            () = entered.cancelled() => None,
            answer = self.call.run() => Some(answer),
        }
    }
}

/// A call that runs.
pub struct RunningCall {
    answer: BoxFuture<'static, Option<Answer>>,
    progress: Option<Progress>,
    /// Since when it is waited for.
    started: Option<Instant>,
    ticks: Option<Ticks>,
    waiting: VecDeque<OutMessage>,
    is_over: bool,
}

struct Ticks {
    progress: Interval,
    alive: Interval,
}

/// How a call stands after a while.
#[derive(Debug)]
pub enum Ended {
    /// It has an answer.
    Answered(Answer),
    /// The client took it back.
    Cancelled,
}

impl std::fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningCall").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl RunningCall {
    fn new(answer: BoxFuture<'static, Option<Answer>>, progress: Option<Progress>) -> Self {
        Self {
            answer,
            progress,
            started: None,
            ticks: None,
            waiting: VecDeque::new(),
            is_over: false,
        }
    }

    /// Whether the client wants to hear how it goes.
    pub fn has_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Splits off what runs, to be run elsewhere: then dropping this does not cancel the call.
    pub fn detach(&mut self) -> BoxFuture<'static, ()> {
        let (answer, answered) = oneshot::channel();
        let answered = Box::pin(async move { answered.await.ok().flatten() });
        let run = std::mem::replace(&mut self.answer, answered);
        Box::pin(async move {
            let _ = answer.send(run.await);
        })
    }

    /// The end, if the call needs not wait for anything.
    pub async fn ended_at_once(&mut self) -> Option<Ended> {
        let polled = poll_fn(|context| Poll::Ready(self.answer.as_mut().poll(context))).await;
        let Poll::Ready(answer) = polled else {
            self.started = Some(Instant::now());
            return None;
        };
        self.is_over = true;
        Some(answer.map_or(Ended::Cancelled, Ended::Answered))
    }

    /// Waits for the end.
    pub async fn ended(&mut self) -> Ended {
        self.is_over = true;
        self.answer.as_mut().await.map_or(Ended::Cancelled, Ended::Answered)
    }

    /// Waits for the end, but not longer than this.
    pub async fn ended_within(&mut self, limit: Duration) -> Option<Ended> {
        let answer = tokio::time::timeout(limit, self.answer.as_mut()).await.ok()?;
        self.is_over = true;
        Some(answer.map_or(Ended::Cancelled, Ended::Answered))
    }

    /// What to send next; the last message is the reply. `None` at the end, which comes without a
    /// reply where the call was cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(message) = self.waiting.pop_front() {
            return Some(Event::Message(message));
        }
        if self.is_over {
            return None;
        }
        let started = *self.started.get_or_insert_with(Instant::now);
        let ticks = self.ticks.get_or_insert_with(|| Ticks {
            progress: every(PROGRESS, started),
            alive: every(KEEP_ALIVE, started),
        });
        tokio::select! {
            biased;
            answer = self.answer.as_mut() => {
                self.is_over = true;
                let Answer { notes, reply } = answer?;
                self.waiting.extend(notes);
                self.waiting.push_back(reply);
                self.waiting.pop_front().map(Event::Message)
            }
            _ = ticks.progress.tick(), if self.progress.is_some() => {
                let progress = self.progress.as_ref()?;
                Some(Event::Message(progress.message(started.elapsed())))
            }
            _ = ticks.alive.tick() => Some(Event::KeepAlive),
        }
    }
}

pub(super) fn every(period: Duration, since: Instant) -> Interval {
    let mut interval = tokio::time::interval_at(since + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
