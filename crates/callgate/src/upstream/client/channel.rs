//! Channel between a running method and the MCP layer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::capability::{Capabilities, Capability};
use crate::upstream::local::Error;
use crate::upstream::local::ask::Question;
use crate::wire::log_level::LogLevel;

/// Maximum number of queued notifications. Further notifications are dropped.
const MAX_OUTGOING: usize = 256;
/// Maximum number of queued questions of one call.
const MAX_REQUESTS: usize = 32;

/// A message that is sent to the client before the reply.
#[derive(Debug)]
pub(crate) enum Outgoing {
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
    /// A question to a client that answers while the method waits.
    Request {
        id: String,
        method: &'static str,
        params: serde_json::Value,
    },
    /// Tells the client to reconnect after this time.
    Retry(Duration),
}

/// A request of a method to its client.
#[derive(Debug)]
pub(crate) enum ClientRequest {
    Question(PendingQuestion),
    Task(TaskRequest),
    /// The client disconnected.
    Disconnected,
}

/// A request to continue the call as a task.
#[derive(Debug)]
pub(crate) struct TaskRequest {
    /// Whether the method requires a task.
    pub(crate) is_required: bool,
    reply: Responder<bool>,
}

impl TaskRequest {
    /// Tells the method whether the call is now a task.
    pub(crate) fn answer(self, is_task: Result<bool, String>) {
        let _ = self.reply.send(is_task);
    }
}

type Responder<T> = oneshot::Sender<Result<T, String>>;

/// Checks an answer. The error describes the problem with the answer.
type AnswerCheck = Box<dyn Fn(&RawValue) -> Result<(), String> + Send + Sync>;

/// A question that waits for an answer.
pub(crate) struct PendingQuestion {
    pub(crate) key: String,
    pub(crate) method: &'static str,
    pub(crate) params: serde_json::Value,
    pub(crate) needs: Capability,
    pub(crate) check: AnswerCheck,
    reply: Responder<Box<RawValue>>,
}

impl fmt::Debug for PendingQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingQuestion").field("key", &self.key).finish_non_exhaustive()
    }
}

impl PendingQuestion {
    pub(crate) fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Passes the answer, or an error, to the method.
    pub(crate) fn answer(self, answer: Result<Box<RawValue>, String>) {
        let answer = answer.and_then(|answer| {
            let checked = (self.check)(&answer);
            checked.map_err(|problem| format!("the client's answer is not usable: {problem}"))?;
            Ok(answer)
        });
        let _ = self.reply.send(answer);
    }
}

/// The channel of one call.
#[derive(Debug, Default)]
pub(crate) struct CallChannel {
    capabilities: Capabilities,
    wants_progress: bool,
    log_level: Option<LogLevel>,
    state: Mutex<ChannelState>,
    outgoing_added: Notify,
    request_added: Notify,
}

#[derive(Debug, Default)]
struct ChannelState {
    outgoing: VecDeque<Outgoing>,
    requests: VecDeque<ClientRequest>,
    /// Whether the call runs as a task.
    is_task: bool,
    /// Number of unanswered questions.
    open_questions: usize,
    /// Start of the current wait for answers.
    waiting_since: Option<Instant>,
    /// Total duration of earlier waits.
    waited: Duration,
}

impl CallChannel {
    pub(crate) fn new(
        capabilities: Capabilities,
        wants_progress: bool,
        log_level: Option<LogLevel>,
    ) -> Self {
        Self { capabilities, wants_progress, log_level, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns how long the method has waited for answers, and whether it waits now.
    pub(super) fn waited(&self) -> (Duration, bool) {
        let state = self.state();
        let current_wait = state.waiting_since.map_or(Duration::ZERO, |since| since.elapsed());
        (state.waited + current_wait, state.waiting_since.is_some())
    }

    pub(super) fn is_task(&self) -> bool {
        self.state().is_task
    }

    pub(crate) fn set_task(&self) {
        self.state().is_task = true;
    }

    pub(super) fn wants_log(&self, level: LogLevel) -> bool {
        self.log_level.is_some_and(|min_level| min_level <= level)
    }

    /// Returns `true` if progress is reported. A task always reports progress, because its progress is stored.
    pub(super) fn wants_progress(&self) -> bool {
        self.wants_progress || self.is_task()
    }

    pub(crate) fn send(&self, outgoing: Outgoing) {
        let can_be_dropped = matches!(outgoing, Outgoing::Progress { .. } | Outgoing::Log { .. });
        let mut state = self.state();
        if can_be_dropped && state.outgoing.len() >= MAX_OUTGOING {
            return;
        }
        state.outgoing.push_back(outgoing);
        drop(state);
        self.outgoing_added.notify_one();
    }

    pub(crate) async fn next_outgoing(&self) -> Outgoing {
        loop {
            let next = self.state().outgoing.pop_front();
            match next {
                Some(outgoing) => return outgoing,
                None => self.outgoing_added.notified().await,
            }
        }
    }

    /// Takes all queued messages. Takes none if the call is a task.
    pub(crate) fn take_outgoing(&self) -> VecDeque<Outgoing> {
        let mut state = self.state();
        if state.is_task { VecDeque::new() } else { std::mem::take(&mut state.outgoing) }
    }

    /// Reports that the client disconnected.
    pub(crate) fn disconnect(&self) {
        self.push_request(ClientRequest::Disconnected);
    }

    fn push_request(&self, request: ClientRequest) {
        self.state().requests.push_back(request);
        self.request_added.notify_one();
    }

    pub(crate) fn try_next_request(&self) -> Option<ClientRequest> {
        self.state().requests.pop_front()
    }

    pub(crate) async fn next_request(&self) -> ClientRequest {
        loop {
            match self.try_next_request() {
                Some(request) => return request,
                None => self.request_added.notified().await,
            }
        }
    }

    /// Queues a request and waits for the answer.
    async fn request<T>(
        &self,
        request: impl FnOnce(Responder<T>) -> ClientRequest,
    ) -> Result<T, Error> {
        let (reply, receiver) = oneshot::channel();
        if self.state().requests.len() >= MAX_REQUESTS {
            return Err(Error::tool("too many questions are open"));
        }
        self.push_request(request(reply));
        match receiver.await {
            Ok(answer) => answer.map_err(Error::tool),
            // The request was dropped, because the method runs again or the call has ended.
            Err(_) => std::future::pending().await,
        }
    }

    pub(super) async fn ask<Q: Question>(
        &self,
        key: &str,
        question: Q,
    ) -> Result<Box<RawValue>, Error> {
        let _open = OpenQuestion::count(self);
        let (method, params, needs) = (Q::METHOD, question.params(), question.needs());
        let check = Box::new(move |answer: &RawValue| question.check(answer));
        let key = key.to_owned();
        self.request(|reply| {
            ClientRequest::Question(PendingQuestion { key, method, params, needs, check, reply })
        })
        .await
    }

    pub(super) async fn become_task(&self, is_required: bool) -> Result<bool, Error> {
        if self.is_task() {
            return Ok(true);
        }
        self.request(|reply| ClientRequest::Task(TaskRequest { is_required, reply })).await
    }
}

/// Counts an unanswered question and measures the waiting time.
struct OpenQuestion<'a>(&'a CallChannel);

impl<'a> OpenQuestion<'a> {
    fn count(channel: &'a CallChannel) -> Self {
        let mut state = channel.state();
        state.open_questions += 1;
        state.waiting_since.get_or_insert_with(Instant::now);
        drop(state);
        Self(channel)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open_questions = state.open_questions.saturating_sub(1);
        if state.open_questions == 0
            && let Some(since) = state.waiting_since.take()
        {
            state.waited += since.elapsed();
        }
    }
}
