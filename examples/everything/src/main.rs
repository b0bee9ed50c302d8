//! `cargo run -p everything -- --listen 127.0.0.1:3000`
//!
//! A server with everything that MCP has, each thing as small as it can be: tools that give text,
//! pictures and sounds, report progress, log, ask the client and run as tasks; prompts, resources and
//! completion. The names and texts are those that the protocol's conformance suite looks for.
//!
//! Read [`answers`] first, then [`asking`], [`forms`] and [`tasks`]; [`prompts`] and [`resources`] are
//! the traits for the rest of the protocol, [`replay`] is for clients that lose their stream.

mod answers;
mod asking;
mod changes;
mod forms;
mod prompts;
mod replay;
mod resources;
mod tasks;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use callgate::http::{self, Anonymous, HttpOptions, Readiness};
use callgate::local::Error;
use callgate::mcp::{Mcp, SessionKey, Sessions};
use callgate::{Context, Gateway, LOCAL, Local, Method, Safety, ToolContent, Upstream};
use clap::Parser;
use serde::Deserialize;
use tokio::net::TcpListener;

use changes::Changes;

/// A server with everything that MCP has.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen; port 0 is any.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Arguments { listen } = Arguments::parse();

    let changes = Arc::new(Changes::default());
    let mut local = Local::default();
    answers::add(&mut local)?;
    asking::add(&mut local)?;
    forms::add(&mut local)?;
    tasks::add(&mut local)?;
    changes::add(&mut local, &changes)?;

    let methods = local.methods().to_vec();
    let gateway =
        Arc::new(Gateway::new([(Arc::from(LOCAL), Arc::new(local) as Arc<dyn Upstream>)]));
    let sessions = Sessions::new([SessionKey::generate()?]);
    let mcp = Mcp::new(gateway, sessions)
        .prompts(Arc::new(prompts::AllPrompts))
        .completion(Arc::new(prompts::Cities))
        .resources(Arc::new(resources::AllResources))
        .tasks(Arc::new(tasks::MemoryTasks::default()))
        .replay(Arc::new(replay::MemoryReplay::default()));
    let mcp = Arc::new(mcp);
    changes.begin(methods, &mcp);

    let router =
        http::router(mcp, Arc::new(Anonymous), Readiness::default(), HttpOptions::default());
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    eprintln!("everything: http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

/// A method and the name of its tool. The list of tools is in the order of the methods' ids.
fn method(id: &str, tool: &str, description: &str) -> anyhow::Result<Method> {
    let method = Method::new(id.parse()?).tool_name(tool).description(description);
    Ok(method.safety(Safety::ReadOnly))
}

/// Adds a tool that takes no arguments: the method's id, the tool's name, what it is for.
fn tool<R, Ran>(
    local: &mut Local,
    [id, tool, description]: [&str; 3],
    function: impl Fn(Context, Nothing) -> Ran + Send + Sync + 'static,
) -> anyhow::Result<()>
where
    R: Into<ToolContent>,
    Ran: Future<Output = Result<R, Error>> + Send + 'static,
{
    local.content_method(method(id, tool, description)?, function);
    Ok(())
}

/// What a tool without arguments takes.
#[derive(Debug, Deserialize)]
struct Nothing {}
