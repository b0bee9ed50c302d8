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
use super::reject::Reject;
use super::session::Nonce;
use super::tools::ToolCall;
use super::voice::Voice;
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

    /// Cancels all that belongs to a session that ends.
    pub(crate) fn end(&self, scope: Scope) {
        let calls: Vec<_> = self.lock().cancel.extract_if(|(of, _), _| *of == scope).collect();
        for (_, (_, cancel)) in calls {
            let _ = cancel.send(());
        }
    }

    /// Cancels a call. Comes back with whether it runs here; one that does not is over, unknown or
    /// another server's.
    pub(crate) fn cancel(&self, scope: Scope, id: &RawValue) -> bool {
        let Some((_, cancel)) = self.lock().cancel.remove(&(scope, id.get().to_owned())) else {
            return false;
        };
        let _ = cancel.send(());
        true
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

/// A request that takes a while, ready to run.
#[derive(Debug)]
pub struct PreparedCall {
    work: Work,
    voice: Voice,
    entered: Option<Entered>,
}

/// What runs.
pub(crate) enum Work {
    /// `tools/call`
    Tool(ToolCall),
    /// Anything else, and the request's id.
    Other(Box<RawValue>, BoxFuture<'static, Answer>),
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tool(_) => "Tool",
            Self::Other(..) => "Other",
        })
    }
}

impl Work {
    async fn run(self) -> Answer {
        match self {
            Self::Tool(call) => call.run().await,
            Self::Other(_, run) => run.await,
        }
    }
}

impl PreparedCall {
    pub(crate) fn new(work: Work, voice: Voice, entered: Option<Entered>) -> Self {
        Self { work, voice, entered }
    }

    /// The request's id.
    pub fn id(&self) -> &RawValue {
        match &self.work {
            Work::Tool(call) => &call.id,
            Work::Other(id, _) => id,
        }
    }

    /// Runs it where the future is polled. To drop the future is to cancel the call.
    pub fn start(self) -> RunningCall {
        let Self { work, voice, entered } = self;
        RunningCall::new(Box::pin(run(work, entered)), voice)
    }
}

/// `None` where it was cancelled.
async fn run(work: Work, entered: Option<Entered>) -> Option<Answer> {
    let Some(mut entered) = entered else { return Some(work.run().await) };
    tokio::select! {
        biased;
        () = entered.cancelled() => None,
        answer = work.run() => Some(answer),
    }
}

/// How a request ended.
#[derive(Debug)]
pub struct Answer {
    /// What is told before it, where the client can be told.
    pub notes: Vec<OutMessage>,
    /// The reply.
    pub reply: OutMessage,
    /// For HTTP, where nothing was sent before.
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

/// A call that runs.
pub struct RunningCall {
    answer: BoxFuture<'static, Option<Answer>>,
    voice: Voice,
    /// Since when it is waited for.
    started: Option<Instant>,
    ticks: Option<Ticks>,
    waiting: VecDeque<Event>,
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

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.voice.line().hang_up();
    }
}

impl std::fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningCall").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl RunningCall {
    fn new(answer: BoxFuture<'static, Option<Answer>>, voice: Voice) -> Self {
        Self { answer, voice, started: None, ticks: None, waiting: VecDeque::new(), is_over: false }
    }

    /// Whether the client wants to hear how it goes.
    pub fn has_progress(&self) -> bool {
        self.voice.has_progress()
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
        Some(self.end(answer))
    }

    /// Waits for the end.
    pub async fn ended(&mut self) -> Ended {
        let answer = self.answer.as_mut().await;
        self.end(answer)
    }

    /// Waits for the end, but not longer than this, nor when there is something to say before it.
    pub async fn ended_within(&mut self, limit: Duration) -> Option<Ended> {
        tokio::select! {
            biased;
            answer = self.answer.as_mut() => Some(self.end(answer)),
            said = self.voice.line().heard() => {
                self.waiting.extend(self.voice.event(said));
                None
            }
            () = tokio::time::sleep(limit) => None,
        }
    }

    fn end(&mut self, answer: Option<Answer>) -> Ended {
        self.is_over = true;
        let Some(mut answer) = answer else { return Ended::Cancelled };
        let mut notes = self.voice.heard_already();
        notes.append(&mut answer.notes);
        Ended::Answered(Answer { notes, ..answer })
    }

    /// What to send next; the last message is the reply. `None` at the end, which comes without a
    /// reply where the call was cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
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
                    let Ended::Answered(Answer { notes, reply, .. }) = self.end(answer) else {
                        return None;
                    };
                    self.waiting.extend(notes.into_iter().chain([reply]).map(Event::Message));
                }
                said = self.voice.line().heard() => self.waiting.extend(self.voice.event(said)),
                _ = ticks.progress.tick(), if self.voice.tells_time() => {
                    self.waiting.extend(self.voice.elapsed(started.elapsed()).map(Event::Message));
                }
                _ = ticks.alive.tick() => return Some(Event::KeepAlive),
            }
        }
    }
}

pub(super) fn every(period: Duration, since: Instant) -> Interval {
    let mut interval = tokio::time::interval_at(since + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
