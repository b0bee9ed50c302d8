//! `tasks/get`, `tasks/update` and `tasks/cancel`.

use std::sync::Arc;

use super::{RunningTask, Task, TaskStatus, Tasks};
use crate::mcp::calls::questions;
use crate::mcp::parse::method::McpMethod;
use crate::mcp::{CallTarget, Mcp, McpError, McpResponse, RequestContext};
use crate::upstream::Capability;
use crate::upstream::local::Error;
use crate::upstream::local::ask::Answers;

/// `tasks/get`, `tasks/update` and `tasks/cancel`
pub(crate) fn handle(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    if !context.negotiated.capabilities.has(Capability::Tasks) {
        return Err(McpError::missing_capability(Capability::Tasks));
    }
    let request = context.request;
    let id = request.params.required_text("taskId")?.into_owned();
    let (method, action) = match request.method {
        McpMethod::TasksUpdate => {
            let answers = questions::responses(request)?
                .ok_or_else(|| McpError::invalid_params("`inputResponses` is missing"))?;
            ("tasks/update", TaskAction::Update(answers))
        }
        McpMethod::TasksCancel => ("tasks/cancel", TaskAction::Cancel),
        _ => ("tasks/get", TaskAction::Get),
    };
    let (mcp, user) = (Arc::clone(context.mcp), context.inbound.caller.user_id());
    let run = move |_| async move { action.run(&mcp, &id, user).await };
    context.run(CallTarget::of(method), run, |task, call| {
        let mut result = call.result(300);
        if let Some(task) = task? {
            result.members(&task.detailed());
        }
        Ok(call.finish(result))
    })
}

enum TaskAction {
    Get,
    Update(Answers),
    Cancel,
}

impl TaskAction {
    /// Runs the action. `tasks/get` returns the task. The other actions return `None`.
    async fn run(
        self,
        mcp: &Arc<Mcp>,
        id: &str,
        user: Option<i64>,
    ) -> Result<Result<Option<Task>, McpError>, Error> {
        let not_found = || Ok(Err(McpError::invalid_params("there is no such task")));
        let Some(tasks) = &mcp.tasks else { return not_found() };
        let Some(task) = tasks.find(id, user).await? else { return not_found() };
        match (self, tasks.running(id)) {
            (Self::Get, Some(running)) => {
                let mut state = running.state.lock().await;
                // The method may no longer be waiting for some of its questions.
                if !state.task.status.is_finished() {
                    state.update_status();
                }
                Ok(Ok(Some(state.task.clone())))
            }
            (Self::Get, None) => Ok(Ok(Some(task))),
            (action, Some(running)) => {
                // Runs in a separate task, so that the change completes even if the client disconnects.
                let mcp = Arc::clone(mcp);
                tokio::spawn(async move { action.change(&mcp, &running).await }).await??;
                Ok(Ok(None))
            }
            (_, None) => {
                // The task may have ended since it was found.
                let task = tasks.find(id, user).await?;
                if task.is_none_or(|task| task.status.is_finished()) {
                    return Ok(Ok(None));
                }
                Err(Error::tool("the task runs on another server, or was interrupted"))
            }
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
                if state.task.status.is_finished() {
                    return Ok(());
                }
                state.open.clear();
                state.task.status = TaskStatus::Cancelled;
                tasks.save(&mut state).await
            }
        }
    }
}

/// Answers open questions. Ignores unknown keys and invalid answers.
async fn update(tasks: &Tasks, running: &RunningTask, answers: Answers) -> Result<(), Error> {
    let mut state = running.state.lock().await;
    let mut accepted = Vec::new();
    for (key, answer) in answers {
        let is_valid =
            state.open.get(&key).is_some_and(|question| (question.check)(&answer).is_ok());
        if is_valid && let Some(question) = state.open.remove(&key) {
            accepted.push((question, answer));
        }
    }
    if accepted.is_empty() {
        return Ok(());
    }
    state.update_status();
    let saved = tasks.save(&mut state).await;
    drop(state);
    // The method gets its answers even if saving the task failed.
    for (question, answer) in accepted {
        question.answer(Ok(answer));
    }
    saved
}
