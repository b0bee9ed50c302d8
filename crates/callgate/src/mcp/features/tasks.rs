//! Tasks: calls that continue after the reply to their request (the extension `io.modelcontextprotocol/tasks`).
//!
//! A method starts a task with [`Client::become_task`](crate::upstream::Client::become_task). The task is saved in a
//! [`TaskStore`] before its id is sent to the client. The process that started the task runs it and keeps its open
//! questions in memory.

mod action;
mod running;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, broadcast};

use crate::access::{Share, Shares};
use crate::mcp::calls::questions::client_requests;
use crate::mcp::streams::event::MAX_WAITING;
use crate::upstream::BoxFuture;
use crate::upstream::client::{Capabilities, PendingQuestion};
use crate::upstream::local::Error;
use crate::wire::jsonrpc::RpcError;

pub(crate) use action::handle;
pub(crate) use running::{StartedTask, start};

/// Recommended interval at which clients poll a task, in milliseconds.
const POLL_MS: u64 = 1000;
/// Maximum number of open questions of a task.
const MAX_OPEN: usize = 32;

/// Stores tasks. The implementation limits the number of tasks, and may delete a task after its [`ttl`](Task::ttl).
///
/// Argument of [`Builder::tasks`](crate::Builder::tasks).
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use callgate::mcp::{Task, TaskStore};
/// use callgate::upstream::BoxFuture;
/// use callgate::{Callgate, Error};
///
/// /// Tasks by id. A real store keeps them in a database, and deletes them after their `ttl`.
/// #[derive(Debug, Default)]
/// struct Tasks(Mutex<HashMap<String, Task>>);
///
/// impl TaskStore for Tasks {
///     fn put(&self, task: Task) -> BoxFuture<'_, Result<(), Error>> {
///         self.0.lock().unwrap().insert(task.id.clone(), task);
///         Box::pin(async { Ok(()) })
///     }
///
///     fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Task>, Error>> {
///         let task = self.0.lock().unwrap().get(id).cloned();
///         Box::pin(async { Ok(task) })
///     }
/// }
///
/// let server = Callgate::builder().tasks(Tasks::default()).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait TaskStore: Send + Sync + fmt::Debug {
    /// Saves a task durably, replacing its previous version.
    fn put(&self, task: Task) -> BoxFuture<'_, Result<(), Error>>;

    /// Returns a task, if it exists.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Task>, Error>>;
}

/// A task.
///
/// Argument of [`TaskStore::put`]. [`TaskStore`] has an example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Unique and unguessable id.
    pub id: String,
    /// Id of the user who started the task. No other user may see the task.
    pub user: Option<i64>,
    /// Time at which the task started, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Time of the last change, in milliseconds since the Unix epoch.
    pub updated_at: u64,
    /// Time to live, in milliseconds.
    pub ttl: u64,
    /// Last progress message of the method.
    pub message: Option<String>,
    /// Current status.
    pub status: TaskStatus,
}

/// Status of a task.
///
/// Value of [`Task::status`]. Callgate sets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The method runs.
    Working,
    /// The method waits for answers to these requests, by key.
    InputRequired(BTreeMap<String, Value>),
    /// The method returned a result, possibly with `isError`.
    Completed(Value),
    /// The request failed with a JSON-RPC error.
    Failed(RpcError),
    /// The client cancelled the task.
    Cancelled,
}

impl TaskStatus {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired(_) => "input_required",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled)
    }
}

impl Task {
    fn is_expired(&self) -> bool {
        self.created_at.saturating_add(self.ttl) <= now()
    }

    /// Returns the task in the form of the result of `tasks/get`.
    pub(crate) fn detailed(&self) -> TaskView<'_> {
        let detail = match &self.status {
            TaskStatus::InputRequired(requests) => Some(TaskDetail::InputRequests(requests)),
            TaskStatus::Completed(result) => Some(TaskDetail::Result(result)),
            TaskStatus::Failed(error) => Some(TaskDetail::Error(error)),
            TaskStatus::Working | TaskStatus::Cancelled => None,
        };
        TaskView { detail, ..self.summary() }
    }

    fn summary(&self) -> TaskView<'_> {
        TaskView {
            task_id: &self.id,
            status: self.status.as_str(),
            status_message: self.message.as_deref(),
            created_at: format_time(self.created_at),
            last_updated_at: format_time(self.updated_at),
            ttl_ms: self.ttl,
            poll_interval_ms: POLL_MS,
            detail: None,
        }
    }
}

/// The part of a task that clients see.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskView<'a> {
    task_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    created_at: String,
    last_updated_at: String,
    ttl_ms: u64,
    poll_interval_ms: u64,
    #[serde(flatten)]
    detail: Option<TaskDetail<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum TaskDetail<'a> {
    InputRequests(&'a BTreeMap<String, Value>),
    Result(&'a Value),
    Error(&'a RpcError),
}

fn now() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

fn format_time(milliseconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(milliseconds);
    humantime::format_rfc3339_millis(time).to_string()
}

#[derive(Debug)]
pub(crate) struct Tasks {
    store: Arc<dyn TaskStore>,
    /// Notifies open streams of changed tasks. Other changes have a separate channel, because tasks change often
    /// and would displace the other changes from a shared queue.
    changes: broadcast::Sender<Arc<Task>>,
    running: Mutex<HashMap<String, Arc<RunningTask>>>,
    shares: Arc<Shares>,
}

#[derive(Debug)]
struct RunningTask {
    /// Counts the task against the limit on running tasks.
    share: Share,
    /// The state of the task. Locked while it is changed and saved.
    state: tokio::sync::Mutex<TaskState>,
    cancelled: Notify,
}

#[derive(Debug)]
struct TaskState {
    task: Task,
    open: BTreeMap<String, PendingQuestion>,
}

impl TaskState {
    /// Adds a question. If it cannot be asked, answers it with the reason.
    fn add(&mut self, question: PendingQuestion, capabilities: Capabilities) {
        self.open.retain(|_, question| question.is_awaited());
        let problem = if !capabilities.has(question.needs) {
            format!("the client does not offer {}", question.needs)
        } else if self.open.contains_key(&question.key) {
            format!("the question `{}` is already open", question.key)
        } else if self.open.len() >= MAX_OPEN {
            "too many questions are open".to_owned()
        } else {
            self.open.insert(question.key.clone(), question);
            return;
        };
        question.answer(Err(problem));
    }

    /// Sets the status, which depends on whether questions are open.
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
    pub(crate) fn new(store: Arc<dyn TaskStore>) -> Self {
        let changes = broadcast::Sender::new(MAX_WAITING);
        let shares = Shares::new(running::MAX_RUNNING);
        Self { store, changes, running: Mutex::default(), shares }
    }

    /// Returns a receiver of changed tasks.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Arc<Task>> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<RunningTask>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the task if it belongs to the user and has not expired.
    pub(crate) async fn find(&self, id: &str, user: Option<i64>) -> Result<Option<Task>, Error> {
        let task = self.store.get(id).await?;
        Ok(task.filter(|task| task.user == user && !task.is_expired()))
    }

    fn running(&self, id: &str) -> Option<Arc<RunningTask>> {
        self.lock().get(id).cloned()
    }

    /// Saves a task and notifies open streams.
    async fn save(&self, state: &mut TaskState) -> Result<(), Error> {
        state.task.updated_at = now();
        self.store.put(state.task.clone()).await?;
        if self.changes.receiver_count() > 0 {
            let _ = self.changes.send(Arc::new(state.task.clone()));
        }
        Ok(())
    }

    /// Changes and saves a task, unless it has finished.
    async fn change(&self, running: &RunningTask, change: impl FnOnce(&mut TaskState)) {
        let mut state = running.state.lock().await;
        if state.task.status.is_finished() {
            return;
        }
        change(&mut state);
        if let Err(error) = self.save(&mut state).await {
            tracing::error!(task = state.task.id, ?error, "failed to save a task");
        }
    }
}
