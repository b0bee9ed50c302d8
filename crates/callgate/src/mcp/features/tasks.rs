//! Tasks: calls that run on while their client goes away and comes back (the extension
//! `io.modelcontextprotocol/tasks`).
//!
//! A method begins one with [`Client::become_task`](crate::upstream::Client::become_task). What a task is, is
//! kept in a [`TaskStore`] before anybody hears of it; what runs it, and the questions that it waits
//! for, are in this process.

mod request;
mod running;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::mcp::calls::elicitation::client_requests;
use crate::mcp::streams::event::EventBus;
use crate::upstream::BoxFuture;
use crate::upstream::client::{Capabilities, PendingQuestion};
use crate::upstream::local::Error;
use crate::wire::jsonrpc::RpcError;

pub(crate) use request::request;
pub(crate) use running::begin;

/// How often a client had better look.
const POLL_MS: u64 = 1000;
/// So many questions of one task are open.
const MAX_OPEN: usize = 32;

/// Where tasks are kept. What is past its time ([`Task::ttl`]) may be forgotten, and how many there are
/// is for the store to bound.
pub trait TaskStore: Send + Sync + fmt::Debug {
    /// Keeps a task, in place of what it was before. When this is done, it is not lost.
    fn put(&self, task: Task) -> BoxFuture<'_, Result<(), Error>>;

    /// The task, if it is there.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Task>, Error>>;
}

/// A task, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// What tells it from the others; it cannot be guessed.
    pub id: String,
    /// Whose it is; nobody else may see it.
    pub user: Option<i64>,
    /// When it began, in milliseconds since 1970.
    pub created_at: u64,
    /// When it last changed.
    pub updated_at: u64,
    /// How long it is there, in milliseconds.
    pub ttl: u64,
    /// What it says of itself.
    pub message: Option<String>,
    /// How it stands.
    pub status: TaskStatus,
}

/// How a task stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It runs.
    Working,
    /// It waits for answers to these requests, by key.
    InputRequired(BTreeMap<String, Value>),
    /// It has a result, which may tell of a failure.
    Completed(Value),
    /// The request failed.
    Failed(RpcError),
    /// The client took it back.
    Cancelled,
}

impl TaskStatus {
    fn word(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired(_) => "input_required",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled)
    }
}

impl Task {
    fn is_there(&self) -> bool {
        self.created_at.saturating_add(self.ttl) > now()
    }

    /// Its members, as clients see them; `whole` with what it came to.
    pub(crate) fn members(&self, whole: bool) -> Map<String, Value> {
        let mut members = Map::new();
        let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
        add("taskId", json!(self.id));
        add("status", json!(self.status.word()));
        if let Some(message) = &self.message {
            add("statusMessage", json!(message));
        }
        add("createdAt", json!(time(self.created_at)));
        add("lastUpdatedAt", json!(time(self.updated_at)));
        add("ttlMs", json!(self.ttl));
        add("pollIntervalMs", json!(POLL_MS));
        match &self.status {
            _ if !whole => {}
            TaskStatus::InputRequired(requests) => drop(add("inputRequests", json!(requests))),
            TaskStatus::Completed(result) => drop(add("result", result.clone())),
            TaskStatus::Failed(error) => drop(add("error", json!(error))),
            TaskStatus::Working | TaskStatus::Cancelled => {}
        }
        members
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn time(milliseconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(milliseconds);
    humantime::format_rfc3339_millis(time).to_string()
}

/// The tasks of this process.
#[derive(Debug)]
pub(crate) struct Tasks {
    store: Arc<dyn TaskStore>,
    events: EventBus,
    running: Mutex<HashMap<String, Arc<RunningTask>>>,
}

/// A task that runs in this process.
#[derive(Debug)]
struct RunningTask {
    user: Option<i64>,
    /// Changed and kept in one go.
    state: tokio::sync::Mutex<State>,
    cancelled: Notify,
}

#[derive(Debug)]
struct State {
    task: Task,
    open: BTreeMap<String, PendingQuestion>,
}

impl State {
    /// Takes a question. Answers it with the reason if it cannot be asked.
    fn add(&mut self, question: PendingQuestion, capabilities: Capabilities) {
        self.open.retain(|_, question| question.is_awaited());
        let problem = if !capabilities.has(question.needs) {
            format!("the client does not offer {}", question.needs)
        } else if self.open.contains_key(&question.key) {
            format!("the question `{}` is open already", question.key)
        } else if self.open.len() >= MAX_OPEN {
            "too many questions are open".to_owned()
        } else {
            self.open.insert(question.key.clone(), question);
            return;
        };
        question.answer(Err(problem));
    }

    /// Sets the status by the questions that are open.
    fn update_status(&mut self) {
        self.open.retain(|_, question| question.is_awaited());
        self.task.status = if self.open.is_empty() {
            TaskStatus::Working
        } else {
            TaskStatus::InputRequired(client_requests(self.open.iter()))
        };
    }
}

impl Tasks {
    pub(crate) fn new(store: Arc<dyn TaskStore>, events: EventBus) -> Self {
        Self { store, events, running: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<RunningTask>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task, if it is there and theirs.
    pub(crate) async fn find(&self, id: &str, user: Option<i64>) -> Result<Option<Task>, Error> {
        let task = self.store.get(id).await?;
        Ok(task.filter(|task| task.user == user && task.is_there()))
    }

    fn running(&self, id: &str) -> Option<Arc<RunningTask>> {
        self.lock().get(id).cloned()
    }

    /// Keeps what a task became, and tells who listens.
    async fn keep(&self, state: &mut State) -> Result<(), Error> {
        state.task.updated_at = now();
        self.store.put(state.task.clone()).await?;
        self.events.task_changed(&state.task);
        Ok(())
    }

    /// Changes a task, unless it is over.
    async fn change(&self, running: &RunningTask, change: impl FnOnce(&mut State)) {
        let mut state = running.state.lock().await;
        if state.task.status.is_over() {
            return;
        }
        change(&mut state);
        if let Err(error) = self.keep(&mut state).await {
            tracing::error!(task = state.task.id, ?error, "a task's state cannot be kept");
        }
    }
}
