//! Tasks: calls that run on while their client goes away and comes back (the extension
//! `io.modelcontextprotocol/tasks`).
//!
//! A method begins one with [`Client::become_task`](crate::Client::become_task). What a task is, is
//! kept in a [`TaskStore`] before anybody hears of it; what runs it, and the questions that it waits
//! for, are in this process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::message::{OutMessage, ResultWriter};
use super::news::Newsroom;
use super::reject::Reject;
use super::requested::Requested;
use super::running::Answer;
use super::session::{random_id, user_of};
use super::tools::{Running, ToolCall};
use super::{Mcp, Reply, Terms, input_required};
use crate::ask::Answers;
use crate::client::{Capabilities, Capability, Posed, Said, TaskWish, Wish};
use crate::jsonrpc::{INTERNAL_ERROR, RpcError};
use crate::local::Error;
use crate::upstream::BoxFuture;

/// How long a task may run.
const RUN: Duration = Duration::from_hours(1);
/// How long a task and its result are there.
const TTL: Duration = Duration::from_hours(2);
/// How often a client had better look.
const POLL_MS: u64 = 1000;
/// So many run at once.
const MAX_RUNNING: usize = 1024;
/// So many of one user; all that nobody signed in for count as one user's.
const MAX_OF_USER: usize = 64;
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
    pub(super) fn members(&self, whole: bool) -> Map<String, Value> {
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
    news: Newsroom,
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
    open: BTreeMap<String, Posed>,
}

impl State {
    /// Takes a question, or says why not.
    fn pose(&mut self, posed: Posed, capabilities: Capabilities) {
        self.open.retain(|_, posed| posed.is_awaited());
        let problem = if !capabilities.has(posed.needs) {
            format!("the client does not offer {}", posed.needs)
        } else if self.open.contains_key(&posed.key) {
            format!("the question `{}` is open already", posed.key)
        } else if self.open.len() >= MAX_OPEN {
            "too many questions are open".to_owned()
        } else {
            self.open.insert(posed.key.clone(), posed);
            return;
        };
        posed.answer(Err(problem));
    }

    /// What it waits for, if anything.
    fn look(&mut self) {
        self.open.retain(|_, posed| posed.is_awaited());
        let request = |posed: &Posed| json!({"method": posed.method, "params": posed.params});
        let requests: BTreeMap<String, Value> =
            self.open.iter().map(|(key, posed)| (key.clone(), request(posed))).collect();
        self.task.status = if requests.is_empty() {
            TaskStatus::Working
        } else {
            TaskStatus::InputRequired(requests)
        };
    }
}

impl Tasks {
    pub(super) fn new(store: Arc<dyn TaskStore>, news: Newsroom) -> Self {
        Self { store, news, running: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<RunningTask>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task, if it is there and theirs.
    pub(super) async fn find(&self, id: &str, user: Option<i64>) -> Result<Option<Task>, Error> {
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
        self.news.tell_of(&state.task);
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

/// A task that was kept, and can be told of.
pub(super) struct Begun {
    running: Arc<RunningTask>,
    place: Place,
    answer: Answer,
}

impl Begun {
    /// Runs the call on.
    pub(super) fn run_on(self, call: Arc<ToolCall>, run: Running, wish: TaskWish) -> Answer {
        call.line.is_task_now();
        wish.answer(Ok(true));
        tokio::spawn(drive(call, run, self.running, self.place));
        self.answer
    }
}

/// Makes a task of a call: it has its place first, then it is kept.
pub(super) async fn begin(call: &ToolCall) -> Result<Begun, Reject> {
    let failed = |why: &str| Reject::with_status(200, INTERNAL_ERROR, why);
    let tasks = call.mcp.tasks.as_ref().ok_or_else(|| failed("there are no tasks"))?;
    let id = random_id().ok_or_else(|| failed("there is no randomness for the task's id"))?;
    let task = Task {
        id: id.clone(),
        user: user_of(&call.caller),
        created_at: now(),
        updated_at: now(),
        ttl: u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX),
        message: None,
        status: TaskStatus::Working,
    };
    let mut result = ResultWriter::of_type(&call.id, Terms::MODERN.revision, "task");
    result.members(task.members(false));
    let answer = result.finish(&call.mcp.gateway.settings()).into();
    let state = tokio::sync::Mutex::new(State { task: task.clone(), open: BTreeMap::new() });
    let running = Arc::new(RunningTask { user: task.user, state, cancelled: Notify::new() });
    let place = Place::take(&call.mcp, id, &running)
        .ok_or_else(|| failed("too many tasks run already; try again later"))?;
    tasks.store.put(task).await.map_err(|error| {
        tracing::error!(?error, "a task cannot be kept");
        failed("the task cannot be kept")
    })?;
    Ok(Begun { running, place, answer })
}

/// Runs a task to its end.
async fn drive(call: Arc<ToolCall>, run: Running, running: Arc<RunningTask>, place: Place) {
    let Some(tasks) = &call.mcp.tasks else { return };
    let status = tokio::select! {
        biased;
        () = running.cancelled.notified() => TaskStatus::Cancelled,
        answer = heed(&call, run, &running, tasks) => match answer.reply.outcome() {
            Ok(result) => TaskStatus::Completed(result),
            Err(error) => TaskStatus::Failed(error),
        },
        () = tokio::time::sleep(RUN) => {
            TaskStatus::Failed(RpcError::new(INTERNAL_ERROR, "the task took too long"))
        }
    };
    let mut state = running.state.lock().await;
    state.open.clear();
    // Who took it back has said so already; it is kept once more, since that may have failed.
    if !state.task.status.is_over() {
        state.task.status = status;
    }
    if let Err(error) = tasks.keep(&mut state).await {
        tracing::error!(task = state.task.id, ?error, "the end of a task cannot be kept");
    }
    drop(place);
}

/// A task's place among those that run.
struct Place {
    mcp: Arc<Mcp>,
    id: String,
}

impl Place {
    /// None where too many run.
    fn take(mcp: &Arc<Mcp>, id: String, running: &Arc<RunningTask>) -> Option<Self> {
        let mut all = mcp.tasks.as_ref()?.lock();
        let theirs = all.values().filter(|other| other.user == running.user).count();
        if all.len() >= MAX_RUNNING || theirs >= MAX_OF_USER {
            return None;
        }
        all.insert(id.clone(), Arc::clone(running));
        drop(all);
        Some(Self { mcp: Arc::clone(mcp), id })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(tasks) = &self.mcp.tasks {
            tasks.lock().remove(&self.id);
        }
    }
}

/// Runs the method, keeps its questions, and notes what it says of itself.
async fn heed(call: &ToolCall, mut run: Running, running: &RunningTask, tasks: &Tasks) -> Answer {
    loop {
        tokio::select! {
            biased;
            result = &mut run => return call.over(result),
            wish = call.line.wished() => {
                // What is asked together becomes one change.
                let mut wishes = vec![wish];
                wishes.extend(std::iter::from_fn(|| call.line.wished_already()));
                let capabilities = call.line.capabilities();
                tasks.change(running, |state| {
                    for wish in wishes {
                        match wish {
                            Wish::Task(wish) => wish.answer(Ok(true)),
                            Wish::Question(posed) => state.pose(posed, capabilities),
                        }
                    }
                    state.look();
                }).await;
            }
            said = call.line.heard() => {
                if let Said::Progress { message: Some(message), .. } = said {
                    tasks.change(running, |state| state.task.message = Some(message)).await;
                }
            }
        }
    }
}

/// `tasks/get`, `tasks/update`, `tasks/cancel`
pub(super) fn request(request: &Requested<'_>) -> Result<Reply, Reject> {
    if !request.capabilities.has(Capability::Tasks) {
        return Err(Reject::lacks(Capability::Tasks));
    }
    let asked = request.asked;
    let id = asked.params.required_text("taskId").map_err(Reject::invalid_params)?.into_owned();
    let step = match asked.method.as_ref() {
        "tasks/update" => Step::Update(answers(request)?),
        "tasks/cancel" => Step::Cancel,
        _ => Step::Get,
    };
    let (mcp, user) = (Arc::clone(request.mcp), user_of(request.caller));
    let message_id = asked.id.to_owned();
    let run = {
        let (mcp, id) = (Arc::clone(&mcp), id.clone());
        move |_| -> BoxFuture<'static, _> {
            Box::pin(async move { step.take(&mcp, &id, user).await })
        }
    };
    request.run(None, run, move |done| done.write(&mcp, &message_id))
}

fn answers(request: &Requested<'_>) -> Result<Answers, Reject> {
    input_required::responses(request.asked)?
        .ok_or_else(|| Reject::invalid_params("`inputResponses` is missing"))
}

/// What a client does with a task.
enum Step {
    Get,
    Update(Answers),
    Cancel,
}

/// What came of it.
enum Done {
    Unknown,
    Acknowledged,
    Seen(Box<Task>),
}

impl Step {
    async fn take(self, mcp: &Arc<Mcp>, id: &str, user: Option<i64>) -> Result<Done, Error> {
        let Some(tasks) = &mcp.tasks else { return Ok(Done::Unknown) };
        let Some(task) = tasks.find(id, user).await? else { return Ok(Done::Unknown) };
        let is_over = task.status.is_over();
        match (self, tasks.running(id)) {
            (Self::Get, Some(running)) => {
                let mut state = running.state.lock().await;
                // A method may have given up waiting.
                if !state.task.status.is_over() {
                    state.look();
                }
                Ok(Done::Seen(Box::new(state.task.clone())))
            }
            (Self::Get, None) => Ok(Done::Seen(Box::new(task))),
            (step, Some(running)) => {
                // A client that goes away halfway takes nothing back.
                let mcp = Arc::clone(mcp);
                tokio::spawn(async move { step.change(&mcp, &running).await }).await??;
                Ok(Done::Acknowledged)
            }
            (_, None) if is_over => Ok(Done::Acknowledged),
            (_, None) => Err(Error::tool("the task runs on another server, or was cut off")),
        }
    }

    async fn change(self, mcp: &Mcp, running: &RunningTask) -> Result<(), Error> {
        let Some(tasks) = &mcp.tasks else { return Ok(()) };
        match self {
            Self::Get => Ok(()),
            Self::Update(answers) => update(tasks, running, answers).await,
            Self::Cancel => {
                let mut state = running.state.lock().await;
                running.cancelled.notify_one();
                if state.task.status.is_over() {
                    return Ok(());
                }
                state.open.clear();
                state.task.status = TaskStatus::Cancelled;
                tasks.keep(&mut state).await
            }
        }
    }
}

/// Gives answers to their questions. What answers nothing, or does not fit, is let go: the question
/// stays open.
async fn update(tasks: &Tasks, running: &RunningTask, answers: Answers) -> Result<(), Error> {
    let mut state = running.state.lock().await;
    let mut given = Vec::new();
    for (key, answer) in answers {
        let fits = state.open.get(&key).is_some_and(|posed| (posed.check)(&answer).is_ok());
        if fits && let Some(posed) = state.open.remove(&key) {
            given.push((posed, answer));
        }
    }
    if given.is_empty() {
        return Ok(());
    }
    state.look();
    let kept = tasks.keep(&mut state).await;
    drop(state);
    // Whatever came of keeping it, the method must not wait in vain.
    for (posed, answer) in given {
        posed.answer(Ok(answer));
    }
    kept
}

impl Done {
    fn write(self, mcp: &Mcp, id: &RawValue) -> Result<OutMessage, Reject> {
        let mut result = ResultWriter::new(id, Terms::MODERN.revision, 300);
        match self {
            Self::Unknown => return Err(Reject::invalid_params("there is no such task")),
            Self::Acknowledged => {}
            Self::Seen(task) => result.members(task.members(true)),
        }
        Ok(result.finish(&mcp.gateway.settings()))
    }
}
