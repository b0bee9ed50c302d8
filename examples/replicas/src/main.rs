//! cargo build -p callgate-cli && cargo run -p replicas
//!
//! Starts a temporary PostgreSQL, three servers on it, and nginx as a load balancer. Ctrl-C stops everything.
//! [`servers`] starts the program three times, [`balancer`] has the configuration of nginx.

mod balancer;
mod servers;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use callgate_test_support::Engine;
use clap::Parser;

use balancer::Balancer;
use servers::Servers;

/// Number of servers.
const SERVERS: usize = 3;

/// Run three servers on one PostgreSQL, behind nginx.
#[derive(Debug, Parser)]
struct Arguments {
    /// Port of nginx on loopback; 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Path of the program `callgate`; by default in the directory of this program.
    #[arg(long)]
    callgate: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Arguments { listen, callgate } = Arguments::parse();
    // Installed before anything starts, so that Ctrl-C stops everything.
    let stopping = callgate::http::shutdown_signal();
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let callgate = callgate.unwrap_or_else(|| program.with_file_name("callgate"));
    // The directory of the tests, so that packages are unpacked once.
    let tmp = program.ancestors().nth(2).context("this program is nowhere")?.join("tmp");
    eprintln!("replicas: starting PostgreSQL");
    let database = Engine::Postgres.start(&tmp);
    let registry = database.database();
    let servers = Servers::start(callgate, registry.url, SERVERS)?;
    let token = servers.token("admin")?;
    let balancer = Balancer::start(&tmp, listen, &servers.addresses())?;
    announce(&servers, &balancer, &token);
    stopping.await;
    eprintln!("replicas: ending all of it");
    Ok(())
}

fn announce(servers: &Servers, balancer: &Balancer, token: &str) {
    for address in servers.addresses() {
        eprintln!("replicas: a server at http://{address}/mcp");
    }
    let address = balancer.address;
    eprintln!("replicas: all of them at http://{address}/mcp");
    eprintln!("replicas: a token for admin: {token}");
    eprintln!("\nWho answers, in turn:");
    eprintln!("  TOKEN={token}");
    eprintln!(
        "  curl -si -H \"Authorization: Bearer $TOKEN\" http://{address}/mcp/tools/list | grep -i served"
    );
    eprintln!("\nOr with a session, which is good at each of them:");
    eprintln!(
        "  npx @modelcontextprotocol/inspector --cli http://{address}/mcp --transport http \\"
    );
    eprintln!("    --header \"Authorization: Bearer $TOKEN\" --method tools/list");
    eprintln!("\nThen kill -9 one of these, and ask again:");
    for id in servers.ids() {
        eprintln!("  {id}");
    }
}
