//! A call that has become a task: kept, told of, and run on to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{RunningTask, State, Task, TaskStatus, Tasks, now};
use crate::mcp::Mcp;
use crate::mcp::calls::context::CallContext;
use crate::mcp::calls::running_call::Answer;
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::ResultWriter;
use crate::mcp::sessions::session::{random_id, user_of};
use crate::upstream::BoxFuture;
use crate::upstream::client::{CallChannel, ClientRequest, Outgoing, TaskRequest};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};
use crate::wire::revision::Revision;

/// How long a task may run.
const RUN: Duration = Duration::from_hours(1);
/// How long a task and its result are there.
const TTL: Duration = Duration::from_hours(2);
/// So many run at once.
const MAX_RUNNING: usize = 1024;
/// So many of one user; all that nobody signed in for count as one user's.
const MAX_OF_USER: usize = 64;

/// A task that was stored, and can be reported.
pub(crate) struct Begun {
    running: Arc<RunningTask>,
    place: Place,
    answer: Answer,
}

impl Begun {
    /// Runs the call on in a task of its own. Returns the answer to the request.
    pub(crate) fn run(
        self,
        channel: Arc<CallChannel>,
        work: BoxFuture<'static, Answer>,
        request: TaskRequest,
    ) -> Answer {
        channel.set_task();
        request.answer(Ok(true));
        tokio::spawn(drive(channel, work, self.running, self.place));
        self.answer
    }
}

/// Makes a task of a call: it has its place first, then it is stored.
pub(crate) async fn begin(call: &CallContext) -> Result<Begun, Reject> {
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
    let mut result = ResultWriter::of_type(&call.id, Revision::NEWEST, "task");
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
async fn drive(
    channel: Arc<CallChannel>,
    work: BoxFuture<'static, Answer>,
    running: Arc<RunningTask>,
    place: Place,
) {
    let Some(tasks) = &place.mcp.tasks else { return };
    let status = tokio::select! {
        biased;
        () = running.cancelled.notified() => TaskStatus::Cancelled,
        answer = run(&channel, work, &running, tasks) => match answer.reply.outcome() {
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

/// Runs the method, and stores its questions and its progress.
async fn run(
    channel: &CallChannel,
    mut work: BoxFuture<'static, Answer>,
    running: &RunningTask,
    tasks: &Tasks,
) -> Answer {
    loop {
        tokio::select! {
            biased;
            answer = &mut work => return answer,
            request = channel.next_request() => {
                // What is asked together becomes one change.
                let mut requests = vec![request];
                requests.extend(std::iter::from_fn(|| channel.try_next_request()));
                tasks.change(running, |state| {
                    for request in requests {
                        match request {
                            ClientRequest::Task(request) => request.answer(Ok(true)),
                            ClientRequest::Question(question) => {
                                state.add(question, channel.capabilities());
                            }
                            ClientRequest::Disconnected => {}
                        }
                    }
                    state.update_status();
                }).await;
            }
            outgoing = channel.next_outgoing() => {
                if let Outgoing::Progress { message: Some(message), .. } = outgoing {
                    tasks.change(running, |state| state.task.message = Some(message)).await;
                }
            }
        }
    }
}
