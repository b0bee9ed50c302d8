//! Tools that run as tasks: the client gets a task at once, and comes back for its result.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use callgate::ask::Elicit;
use callgate::jsonrpc::{INTERNAL_ERROR, RpcError};
use callgate::local::Error;
use callgate::mcp::{Task, TaskStore};
use callgate::{BoxFuture, Content, Context, Local, Param, Safety};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use crate::{Nothing, method, tool};

pub(crate) fn add(local: &mut Local) -> anyhow::Result<()> {
    let parameter = |name, ty: &str| anyhow::Ok(Param::new(name, ty.parse()?));
    tool(
        local,
        ["tasks.broken", "protocol_error_job", "Fails as a request, not as a tool."],
        broken,
    )?;
    let with = method("tasks.confirm", "confirm_delete", "Asks before it deletes.")?
        .param(parameter("filename", "string")?)
        .safety(Safety::Destructive);
    local.content_method(with, confirm);
    tool(local, ["tasks.failing", "failing_job", "Fails after a while."], failing)?;
    tool(local, ["tasks.inputs", "multi_input", "Asks two things at once."], inputs)?;
    tool(
        local,
        ["tasks.late", "test_tool_with_task", "Asks first, and becomes a task then."],
        late,
    )?;
    let with = method("tasks.slow", "slow_compute", "Takes as long as it is told to.")?
        .param(parameter("seconds", "float")?)
        .param(parameter("label", "string")?.optional());
    local.content_method(with, slow);
    Ok(())
}

#[derive(Deserialize)]
struct Slow {
    seconds: f64,
    #[serde(default)]
    label: String,
}

/// Runs as a task for clients that can come back, and for others while they wait.
async fn slow(context: Context, arguments: Slow) -> Result<Content, Error> {
    context.client.become_task().await?;
    let Slow { seconds, label } = arguments;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| Error::tool("no such time"))?;
    sleep(time).await;
    Ok(format!("{label} took {seconds} s.").into())
}

/// A tool that fails is a task that completes, with a result that says so.
async fn failing(context: Context, _: Nothing) -> Result<Content, Error> {
    context.client.require_task().await?;
    sleep(Duration::from_millis(500)).await;
    Err(Error::tool("This job always fails."))
}

async fn broken(context: Context, _: Nothing) -> Result<Content, Error> {
    context.client.require_task().await?;
    Err(Error::protocol(RpcError::new(INTERNAL_ERROR, "This job breaks the request.")))
}

fn question(message: &str) -> Elicit {
    let properties = json!({"name": {"type": "string"}, "confirm": {"type": "boolean"}});
    Elicit::form(message, json!({"type": "object", "properties": properties}))
}

/// What the form has, where the person filled it in.
#[derive(Deserialize)]
struct Confirmed {
    #[serde(default)]
    confirm: bool,
}

#[derive(Deserialize)]
struct Confirm {
    filename: String,
}

async fn confirm(context: Context, arguments: Confirm) -> Result<Content, Error> {
    context.client.require_task().await?;
    let message = format!("Delete {}?", arguments.filename);
    let said = context.client.ask("confirm", question(&message)).await?;
    let confirmed = said.accepted::<Confirmed>().is_some_and(|said| said.confirm);
    Ok(if confirmed { "Deleted (not really).".into() } else { "Kept.".into() })
}

async fn inputs(context: Context, _: Nothing) -> Result<Content, Error> {
    context.client.require_task().await?;
    let client = &context.client;
    let (name, confirmed) = tokio::try_join!(
        client.ask("name", question("What is your name?")),
        client.ask("confirm", question("Is that so?")),
    )?;
    Ok(format!("{:?}, {:?}", name.action, confirmed.action).into())
}

/// What is asked before it becomes a task is asked in the request itself.
async fn late(context: Context, _: Nothing) -> Result<Content, Error> {
    let said = context.client.ask("user_name", question("What is your name?")).await?;
    context.client.require_task().await?;
    let name = said.content.get("name").cloned().unwrap_or_default();
    Ok(format!("Hello, {name}!").into())
}

/// Tasks in memory: gone with the process. A server that keeps its promises keeps them elsewhere.
#[derive(Debug, Default)]
pub(crate) struct MemoryTasks(Mutex<HashMap<String, Task>>);

/// There is no room for more.
const MAX_TASKS: usize = 10_000;

impl TaskStore for MemoryTasks {
    fn put(&self, task: Task) -> BoxFuture<'_, Result<(), Error>> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !tasks.contains_key(&task.id);
        if is_new && tasks.len() >= MAX_TASKS {
            tasks.retain(|_, other| task.created_at < other.created_at + other.ttl);
        }
        let has_room = !is_new || tasks.len() < MAX_TASKS;
        if has_room {
            tasks.insert(task.id.clone(), task);
        }
        Box::pin(async move {
            if has_room { Ok(()) } else { Err(Error::tool("there are too many tasks")) }
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Task>, Error>> {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        Box::pin(async { Ok(task) })
    }
}
