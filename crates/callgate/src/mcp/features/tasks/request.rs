//! What clients do with tasks: look, answer, take back.

use std::sync::Arc;

use super::{RunningTask, Task, TaskStatus, Tasks};
use crate::mcp::calls::context::RequestContext;
use crate::mcp::calls::elicitation;
use crate::mcp::reply::error::Reject;
use crate::mcp::sessions::session::user_of;
use crate::mcp::{Mcp, Reply};
use crate::upstream::client::Capability;
use crate::upstream::local::Error;
use crate::upstream::local::ask::Answers;

/// `tasks/get`, `tasks/update`, `tasks/cancel`
pub(crate) fn request(context: &RequestContext<'_>) -> Result<Reply, Reject> {
    if !context.terms.capabilities.has(Capability::Tasks) {
        return Err(Reject::lacks(Capability::Tasks));
    }
    let request = context.request;
    let id = request.params.required_text("taskId")?.into_owned();
    let (method, step) = match request.method.as_ref() {
        "tasks/update" => {
            let answers = elicitation::responses(request)?
                .ok_or_else(|| Reject::invalid_params("`inputResponses` is missing"))?;
            ("tasks/update", Step::Update(answers))
        }
        "tasks/cancel" => ("tasks/cancel", Step::Cancel),
        _ => ("tasks/get", Step::Get),
    };
    let (mcp, user) = (Arc::clone(context.mcp), user_of(context.inbound.caller));
    let run = move |_| async move { step.take(&mcp, &id, user).await };
    context.run(method, run, |done, call| {
        let mut result = call.result(300);
        match done {
            Done::Unknown => return Err(Reject::invalid_params("there is no such task")),
            Done::Acknowledged => {}
            Done::Seen(task) => result.members(task.members(true)),
        }
        Ok(call.finish(result))
    })
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
                    state.update_status();
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
        let fits = state.open.get(&key).is_some_and(|question| (question.check)(&answer).is_ok());
        if fits && let Some(question) = state.open.remove(&key) {
            given.push((question, answer));
        }
    }
    if given.is_empty() {
        return Ok(());
    }
    state.update_status();
    let kept = tasks.keep(&mut state).await;
    drop(state);
    // Whatever came of keeping it, the method must not wait in vain.
    for (question, answer) in given {
        question.answer(Ok(answer));
    }
    kept
}
