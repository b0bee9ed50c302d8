//! `cargo run -p everything -- --listen 127.0.0.1:3000`
//!
//! A server with all features of MCP in their smallest form: tools that return text, images and audio, report progress,
//! log, ask the client and run as tasks; prompts, resources and completion. The protocol's conformance suite expects
//! the names and texts. The list of tools is sorted by the ids of the methods.
//!
//! Read [`answers`] first, then [`asking`], [`forms`] and [`tasks`], which contain methods. [`prompts`] and
//! [`resources`] also consist of functions. [`changes`] is a plugin. [`event_store`] stores events for clients that
//! lose their stream.

mod answers;
mod asking;
mod changes;
mod forms;
mod prompts;
mod event_store;
mod resources;
mod tasks;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use callgate::http::shutdown_signal;
use callgate::{Builder, Caller, Callgate, methods};
use clap::Parser;
use tokio::net::TcpListener;

use changes::Changes;

/// Run a server with all features of MCP.
#[derive(Debug, Parser)]
struct Arguments {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Serve on standard input and output instead of HTTP.
    #[arg(long)]
    stdio: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Arguments { listen, stdio } = Arguments::parse();

    let changes = Arc::new(Changes::default());
    let server = tools(&changes)?
        .methods(methods![changes::more])
        .prompts(prompts::prompts())
        .completion(prompts::Cities)
        .resources(resources::resources())
        .resource_subscriptions()
        .tasks(tasks::MemoryTasks::default())
        .event_store(event_store::MemoryEventStore::default())
        .build()?;
    changes.start(&server, &tools(&changes)?.build()?);

    if stdio {
        return Ok(server.serve_stdio(Caller::anonymous()).await?);
    }
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    eprintln!("everything: http://{}/mcp", listener.local_addr()?);
    server.serve_on(listener, shutdown_signal()).await?;
    Ok(())
}

/// Returns a builder with all tools except the one that is added and removed.
fn tools(changes: &Arc<Changes>) -> anyhow::Result<Builder> {
    Ok(Callgate::builder()
        .methods(answers::methods())
        .local(answers::with_explicit_schema()?)
        .methods(asking::methods())
        .methods(forms::methods())
        .methods(tasks::methods())
        .shared_plugin(Arc::clone(changes)))
}
