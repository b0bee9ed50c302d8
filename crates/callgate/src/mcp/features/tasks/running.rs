//! Runs a call as a task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{RunningTask, Task, TaskState, TaskStatus, Tasks, now};
use crate::mcp::random_id::random_id;
use crate::mcp::{CallContext, CallReply, Mcp, McpError, ResultWriter};
use crate::upstream::BoxFuture;
use crate::upstream::client::{CallChannel, ClientRequest, Outgoing, TaskRequest};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};

/// Maximum run time of a task.
const MAX_RUN_TIME: Duration = Duration::from_hours(1);
/// Time to live of a task, including its result.
const TTL: Duration = Duration::from_hours(2);
/// Maximum number of running tasks.
pub(super) const MAX_RUNNING: usize = 1024;
/// Maximum number of running tasks per user, or per address for anonymous callers.
const MAX_PER_CALLER: usize = 64;

/// The future of a call.
type Work = BoxFuture<'static, Result<CallReply, McpError>>;

/// A task that is saved but does not run yet.
pub(crate) struct StartedTask {
    running: Arc<RunningTask>,
    slot: TaskSlot,
    reply: CallReply,
}

impl StartedTask {
    /// Runs the call in the background. Returns the reply to the request.
    pub(crate) fn run(
        self,
        channel: Arc<CallChannel>,
        work: Work,
        request: TaskRequest,
    ) -> CallReply {
        channel.set_task();
        request.answer(Ok(true));
        tokio::spawn(run_to_completion(channel, work, self.running, self.slot));
        self.reply
    }
}

/// Reserves a slot for a task and saves the task.
pub(crate) async fn start(call: &CallContext) -> Result<StartedTask, McpError> {
    let failed = |reason: &str| McpError::new(200, INTERNAL_ERROR, reason);
    let tasks = call.mcp.tasks.as_ref().ok_or_else(|| failed("tasks are not available"))?;
    let id = random_id()
        .ok_or_else(|| failed("no random number is available for the id of the task"))?;
    let task = Task {
        id: id.clone(),
        user: call.caller.user_id(),
        created_at: now(),
        updated_at: now(),
        ttl: u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX),
        message: None,
        status: TaskStatus::Working,
    };
    let mut result = ResultWriter::of_type(&call.id, "task");
    result.members(&task.summary());
    let reply = result.finish(&call.mcp.gateway.settings()).into();
    let state = tokio::sync::Mutex::new(TaskState { task: task.clone(), open: BTreeMap::new() });
    let too_many = || failed("too many tasks are running; try again later");
    let share = tasks.shares.try_acquire(call.caller.principal(), 1).map_err(|_| too_many())?;
    let running = Arc::new(RunningTask { share, state, cancelled: Notify::new() });
    let slot = TaskSlot::reserve(&call.mcp, id, &running).ok_or_else(too_many)?;
    tasks.store.put(task).await.map_err(|error| {
        tracing::error!(?error, "failed to save a task");
        failed("failed to save the task")
    })?;
    Ok(StartedTask { running, slot, reply })
}

async fn run_to_completion(
    channel: Arc<CallChannel>,
    work: Work,
    running: Arc<RunningTask>,
    slot: TaskSlot,
) {
    let Some(tasks) = &slot.mcp.tasks else { return };
    let status = tokio::select! {
        biased;
        () = running.cancelled.notified() => TaskStatus::Cancelled,
        reply = run(&channel, work, &running, tasks) => {
            let outcome = reply.map_err(|error| *error.error);
            match outcome.and_then(|reply| reply.message.outcome()) {
                Ok(result) => TaskStatus::Completed(result),
                Err(error) => TaskStatus::Failed(error),
            }
        }
        () = tokio::time::sleep(MAX_RUN_TIME) => {
            TaskStatus::Failed(RpcError::new(INTERNAL_ERROR, "the task exceeded its time limit"))
        }
    };
    let mut state = running.state.lock().await;
    state.open.clear();
    // A cancelled task already has its final status. It is saved again, because saving may have failed before.
    if !state.task.status.is_finished() {
        state.task.status = status;
    }
    if let Err(error) = tasks.save(&mut state).await {
        tracing::error!(task = state.task.id, ?error, "failed to save a finished task");
    }
    drop(slot);
}

/// Reservation for one running task.
struct TaskSlot {
    mcp: Arc<Mcp>,
    id: String,
}

impl TaskSlot {
    /// Reserves a slot. Returns `None` if too many tasks of the caller are running.
    fn reserve(mcp: &Arc<Mcp>, id: String, running: &Arc<RunningTask>) -> Option<Self> {
        let mut running_tasks = mcp.tasks.as_ref()?.lock();
        let is_of_same_caller =
            |other: &&Arc<RunningTask>| other.share.is_of_same_principal(&running.share);
        if running_tasks.values().filter(is_of_same_caller).count() >= MAX_PER_CALLER {
            return None;
        }
        running_tasks.insert(id.clone(), Arc::clone(running));
        drop(running_tasks);
        Some(Self { mcp: Arc::clone(mcp), id })
    }
}

impl Drop for TaskSlot {
    fn drop(&mut self) {
        if let Some(tasks) = &self.mcp.tasks {
            tasks.lock().remove(&self.id);
        }
    }
}

/// Runs the method and saves its questions and progress.
async fn run(
    channel: &CallChannel,
    mut work: Work,
    running: &RunningTask,
    tasks: &Tasks,
) -> Result<CallReply, McpError> {
    loop {
        tokio::select! {
            biased;
            reply = &mut work => return reply,
            request = channel.next_request() => {
                // Questions that are asked together are saved together.
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
