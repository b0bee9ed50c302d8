//! Tools that run as tasks: the client gets a task immediately and polls for its result.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use callgate::ask::Elicit;
use callgate::jsonrpc::{INTERNAL_ERROR, RpcError};
use callgate::local::MethodFunction;
use callgate::mcp::{Task, TaskStore};
use callgate::upstream::BoxFuture;
use callgate::{Content, Context, Error, method, methods};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

pub(crate) fn methods() -> impl IntoIterator<Item = MethodFunction> {
    methods![slow, failing, broken, confirm, inputs, asks_before_task]
}

/// Runs for a number of seconds.
#[method(id = "tasks.slow", tool_name = "slow_compute", read_only)]
async fn slow(
    ctx: &Context,
    seconds: f64,
    // The argument may be absent, but must not be `null`.
    #[schemars(extend("type" = "string"))] label: Option<String>,
) -> Result<Content, Error> {
    // The call becomes a task if the client supports tasks. Other clients wait.
    ctx.become_task().await?;
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| Error::tool("invalid number of seconds"))?;
    sleep(time).await;
    Ok(format!("{} took {seconds} s.", label.unwrap_or_default()).into())
}

/// Fails after a while.
#[method(id = "tasks.failing", tool_name = "failing_job", read_only)]
async fn failing(ctx: &Context) -> Result<Content, Error> {
    ctx.require_task().await?;
    sleep(Duration::from_millis(500)).await;
    // If the tool fails, the task completes with an error result.
    Err(Error::tool("This job always fails."))
}

/// Fails with a JSON-RPC error instead of a result of the tool.
#[method(id = "tasks.broken", tool_name = "protocol_error_job", read_only)]
async fn broken(ctx: &Context) -> Result<Content, Error> {
    ctx.require_task().await?;
    Err(Error::protocol(RpcError::new(INTERNAL_ERROR, "This job breaks the request.")))
}

fn question(message: &str) -> Elicit {
    let properties = json!({"name": {"type": "string"}, "confirm": {"type": "boolean"}});
    Elicit::form(message, json!({"type": "object", "properties": properties}))
}

/// The content of a form that the user accepted.
#[derive(Deserialize)]
struct Confirmed {
    #[serde(default)]
    confirm: bool,
}

/// Asks for a confirmation before deleting a file.
#[method(id = "tasks.confirm", tool_name = "confirm_delete", destructive)]
async fn confirm(ctx: &Context, filename: String) -> Result<Content, Error> {
    ctx.require_task().await?;
    let elicited = ctx.ask("confirm", question(&format!("Delete {filename}?"))).await?;
    let confirmed = elicited.accepted::<Confirmed>().is_some_and(|elicited| elicited.confirm);
    Ok(if confirmed { "Deleted (not really).".into() } else { "Not deleted.".into() })
}

/// Asks two questions at once.
#[method(id = "tasks.inputs", tool_name = "multi_input", read_only)]
async fn inputs(ctx: &Context) -> Result<Content, Error> {
    ctx.require_task().await?;
    let (name, confirmed) = tokio::try_join!(
        ctx.ask("name", question("What is your name?")),
        ctx.ask("confirm", question("Is that so?")),
    )?;
    Ok(format!("{:?}, {:?}", name.action, confirmed.action).into())
}

/// Asks a question, and then becomes a task.
#[method(id = "tasks.late", tool_name = "test_tool_with_task", read_only)]
async fn asks_before_task(ctx: &Context) -> Result<Content, Error> {
    // A question before the task is created is part of the request.
    let elicited = ctx.ask("user_name", question("What is your name?")).await?;
    ctx.require_task().await?;
    let name = elicited.content.get("name").cloned().unwrap_or_default();
    Ok(format!("Hello, {name}!").into())
}

/// Stores tasks in memory, so they are lost when the process ends. A real server stores tasks in a database.
#[derive(Debug, Default)]
pub(crate) struct MemoryTasks(Mutex<HashMap<String, Task>>);

/// Maximum number of stored tasks.
const MAX_TASKS: usize = 10_000;

impl TaskStore for MemoryTasks {
    fn put(&self, task: Task) -> BoxFuture<'_, Result<(), Error>> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !tasks.contains_key(&task.id);
        if is_new && tasks.len() >= MAX_TASKS {
            tasks.retain(|_, other| task.created_at < other.created_at + other.ttl);
        }
        let has_capacity = !is_new || tasks.len() < MAX_TASKS;
        if has_capacity {
            tasks.insert(task.id.clone(), task);
        }
        Box::pin(async move {
            if has_capacity { Ok(()) } else { Err(Error::tool("there are too many tasks")) }
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Task>, Error>> {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        Box::pin(async { Ok(task) })
    }
}
