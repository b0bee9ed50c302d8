//! The line between one call and its client: what was said and wished waits in it until it is taken
//! out.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::capability::{Capabilities, Capability};
use crate::ask::Question;
use crate::local::Error;
use crate::log_level::LogLevel;

/// So much may wait for a client that does not read; what comes then is let go.
const MAX_SAID: usize = 256;
/// So many wishes of one call may wait to be seen to.
const MAX_WISHED: usize = 32;

/// What a method said.
#[derive(Debug)]
pub(crate) enum Said {
    Progress {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    },
    Log {
        level: LogLevel,
        logger: String,
        data: Box<RawValue>,
    },
    /// A question, on its way to a client that answers while the method waits.
    Request {
        id: String,
        method: &'static str,
        params: serde_json::Value,
    },
    ComeBack {
        retry: Duration,
    },
}

/// What a method wants of its client.
#[derive(Debug)]
pub(crate) enum Wish {
    /// An answer.
    Question(Posed),
    /// That it comes back for the result.
    Task(TaskWish),
}

/// A method that would run on without its client.
#[derive(Debug)]
pub(crate) struct TaskWish {
    /// Whether it cannot do without.
    pub(crate) is_required: bool,
    reply: oneshot::Sender<Result<bool, String>>,
}

impl TaskWish {
    /// Whether it runs on as a task, or why it cannot.
    pub(crate) fn answer(self, answer: Result<bool, String>) {
        let _ = self.reply.send(answer);
    }
}

/// What is wrong with an answer.
pub(crate) type Check = Box<dyn Fn(&RawValue) -> Result<(), String> + Send + Sync>;

/// A question that a method has put.
pub(crate) struct Posed {
    pub(crate) key: String,
    pub(crate) method: &'static str,
    pub(crate) params: serde_json::Value,
    pub(crate) needs: Capability,
    pub(crate) check: Check,
    reply: oneshot::Sender<Result<Box<RawValue>, String>>,
}

impl fmt::Debug for Posed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posed").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Posed {
    /// Whether the method still waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Answers it, or says why not.
    pub(crate) fn answer(self, answer: Result<Box<RawValue>, String>) {
        let answer = answer.and_then(|answer| {
            let checked = (self.check)(&answer);
            checked.map_err(|problem| format!("the client's answer is not usable: {problem}"))?;
            Ok(answer)
        });
        // A method that no longer waits does not mind.
        let _ = self.reply.send(answer);
    }
}

/// The line between one call and its client.
#[derive(Debug)]
pub(crate) struct Line {
    capabilities: Capabilities,
    wants_progress: bool,
    log_level: Option<LogLevel>,
    said: Queue<Said>,
    wished: Queue<Wish>,
    waiting: Mutex<Waiting>,
    /// Whether the client no longer waits, and comes back.
    is_task: AtomicBool,
    /// Whether nobody hears any more.
    is_down: AtomicBool,
    hung_up: Notify,
}

impl Line {
    pub(crate) fn new(
        capabilities: Capabilities,
        wants_progress: bool,
        log_level: Option<LogLevel>,
    ) -> Self {
        Self {
            capabilities,
            wants_progress,
            log_level,
            said: Queue::default(),
            wished: Queue::default(),
            waiting: Mutex::default(),
            is_task: AtomicBool::new(false),
            is_down: AtomicBool::new(false),
            hung_up: Notify::new(),
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// For how long the method has waited for answers, and whether it does now.
    pub(super) fn waited(&self) -> (Duration, bool) {
        let waiting = self.waiting();
        let now = waiting.since.map_or(Duration::ZERO, |since| since.elapsed());
        (waiting.before + now, waiting.since.is_some())
    }

    pub(super) fn is_task(&self) -> bool {
        self.is_task.load(Ordering::Relaxed)
    }

    pub(super) fn wants_log(&self, level: LogLevel) -> bool {
        self.log_level.is_some_and(|least| least <= level)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody hears any more.
    pub(crate) fn hang_up(&self) {
        self.is_down.store(true, Ordering::Release);
        self.hung_up.notify_one();
    }

    pub(crate) fn has_hung_up(&self) -> bool {
        self.is_down.load(Ordering::Acquire)
    }

    /// Waits until nobody hears any more.
    pub(crate) async fn hung_up(&self) {
        if !self.has_hung_up() {
            self.hung_up.notified().await;
        }
    }

    /// Of a task it is kept, for whoever looks.
    pub(super) fn wants_progress(&self) -> bool {
        self.wants_progress || self.is_task()
    }

    /// From now on the client comes back for the result.
    pub(crate) fn is_task_now(&self) {
        self.is_task.store(true, Ordering::Relaxed);
    }

    /// What was said, one after the other.
    pub(crate) async fn heard(&self) -> Said {
        self.said.next().await
    }

    /// What was said and not heard; a task's own is heard elsewhere.
    pub(crate) fn heard_already(&self) -> Option<Said> {
        if self.is_task() {
            return None;
        }
        self.said.pop()
    }

    /// What is wished, one after the other.
    pub(crate) async fn wished(&self) -> Wish {
        self.wished.next().await
    }

    pub(crate) fn wished_already(&self) -> Option<Wish> {
        self.wished.pop()
    }

    pub(crate) fn say(&self, said: Said) {
        let must_arrive = !matches!(said, Said::Progress { .. } | Said::Log { .. });
        let limit = if must_arrive { usize::MAX } else { MAX_SAID };
        self.said.push(said, limit);
    }

    pub(super) async fn ask<Q: Question>(
        &self,
        key: &str,
        question: Q,
    ) -> Result<Box<RawValue>, Error> {
        let _open = Open::one(self);
        let (reply, answered) = oneshot::channel();
        let (method, params, needs) = (question.method(), question.params(), question.needs());
        let check = Box::new(move |answer: &RawValue| question.check(answer));
        let posed = Posed { key: key.to_owned(), method, params, needs, check, reply };
        if !self.wished.push(Wish::Question(posed), MAX_WISHED) {
            return Err(Error::tool("too many questions are open"));
        }
        match answered.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(problem)) => Err(Error::tool(problem)),
            // The question was taken away: the method will run again, or is over.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Line {
    pub(super) async fn become_task(&self, is_required: bool) -> Result<bool, Error> {
        if self.is_task() {
            return Ok(true);
        }
        let (reply, answered) = oneshot::channel();
        let wish = Wish::Task(TaskWish { is_required, reply });
        if !self.wished.push(wish, MAX_WISHED) {
            return Err(Error::tool("too many questions are open"));
        }
        match answered.await {
            Ok(Ok(is_task)) => Ok(is_task),
            Ok(Err(problem)) => Err(Error::tool(problem)),
            Err(_) => std::future::pending().await,
        }
    }
}

/// How long a method has waited for its client.
#[derive(Debug, Default)]
struct Waiting {
    /// Questions that are not answered.
    open: usize,
    /// Since when there are some.
    since: Option<Instant>,
    /// All of it before.
    before: Duration,
}

/// Counts a question, and the time, while it waits.
struct Open<'a>(&'a Line);

impl<'a> Open<'a> {
    fn one(line: &'a Line) -> Self {
        let mut waiting = line.waiting();
        waiting.open += 1;
        waiting.since.get_or_insert_with(Instant::now);
        drop(waiting);
        Self(line)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.open = waiting.open.saturating_sub(1);
        if waiting.open == 0
            && let Some(since) = waiting.since.take()
        {
            waiting.before += since.elapsed();
        }
    }
}

/// A queue with one reader.
struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    added: Notify,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), added: Notify::new() }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("len", &self.lock().len()).finish()
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room.
    fn push(&self, item: T, limit: usize) -> bool {
        let mut items = self.lock();
        if items.len() >= limit {
            return false;
        }
        items.push_back(item);
        drop(items);
        self.added.notify_one();
        true
    }

    fn pop(&self) -> Option<T> {
        self.lock().pop_front()
    }

    async fn next(&self) -> T {
        loop {
            if let Some(item) = self.pop() {
                return item;
            }
            self.added.notified().await;
        }
    }
}
