//! A measured server. Prints its address when it is ready, and serves until it is killed.

mod bare;
mod proxy;
#[cfg(test)]
mod tests;
mod two_parts;
mod upstream;
mod with_rmcp;

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use axum::serve::ListenerExt as _;
use callgate_bench::candidate::Candidate;
use callgate_bench::model;
use clap::Parser;
use tokio::net::TcpListener;

/// The allocator that the program `callgate` uses, for all servers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run one of the servers.
#[derive(Debug, Parser)]
struct Arguments {
    /// Server to run.
    candidate: Candidate,
    /// Number of tools.
    #[arg(long, default_value_t = model::TOOLS)]
    tools: usize,
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Address of the service behind the server.
    #[arg(long)]
    upstream: Option<SocketAddr>,
}

/// Uses one thread for each core that the process may use, as Callgate does.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let tools = model::tools(arguments.tools);
    let listener = TcpListener::bind(&arguments.listen)
        .await
        .with_context(|| format!("failed to listen on {}", arguments.listen))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let upstream = || arguments.upstream.context("`--upstream` is needed");
    match arguments.candidate {
        Candidate::Hyper => return proxy::serve(listener, upstream()?).await,
        Candidate::Upstream => return upstream::serve(listener).await,
        _ => {}
    }
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    match arguments.candidate {
        Candidate::Bare => axum::serve(listener, bare::router(&tools)?).await?,
        Candidate::Rmcp => axum::serve(listener, with_rmcp::router(&tools)?).await?,
        other => bail!("`{other}` does not run in this program"),
    }
    Ok(())
}
