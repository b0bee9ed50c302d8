//! A server under measurement: prints its address when it is ready, and serves until it is killed.

mod bare;
mod proxy;
#[cfg(test)]
mod tests;
mod two_parts;
mod upstream;
mod with_callgate;
mod with_rmcp;

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use axum::serve::ListenerExt as _;
use callgate_bench::candidate::Candidate;
use callgate_bench::model;
use clap::Parser;
use tokio::net::TcpListener;
use tower::make::Shared;

/// The one that the program `callgate` has, for every candidate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves one candidate.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which server to be.
    candidate: Candidate,
    /// How many tools there are, `echo` among them.
    #[arg(long, default_value_t = 50)]
    tools: usize,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Where the service is, for those who ask one.
    #[arg(long)]
    upstream: Option<SocketAddr>,
}

/// One thread, since the server gets one core.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let tools = model::tools(arguments.tools);
    let listener = TcpListener::bind(&arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let upstream = || arguments.upstream.context("`--upstream` is needed");
    match arguments.candidate {
        Candidate::Proxy => return proxy::serve(listener, upstream()?).await,
        Candidate::Upstream => return upstream::serve(listener).await,
        _ => {}
    }
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    match arguments.candidate {
        Candidate::Bare => axum::serve(listener, bare::router(&tools)?).await?,
        Candidate::Callgate => {
            axum::serve(listener, Shared::new(with_callgate::service(&tools)?)).await?;
        }
        candidate @ (Candidate::Forward | Candidate::Batch) => {
            let batch = candidate == Candidate::Batch;
            let service = with_callgate::forwarding(&tools, upstream()?, batch)?;
            axum::serve(listener, Shared::new(service)).await?;
        }
        Candidate::Rmcp => axum::serve(listener, with_rmcp::router(&tools)).await?,
        other @ (Candidate::Nginx | Candidate::Proxy | Candidate::Upstream) => {
            bail!("`{other}` is another kind of server");
        }
    }
    Ok(())
}
