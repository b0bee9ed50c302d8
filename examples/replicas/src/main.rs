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
    /// Address that nginx listens on; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Path of the program `callgate`; by default, it is in the directory of this program.
    #[arg(long)]
    callgate: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Arguments { listen, callgate } = Arguments::parse();
    // Installed before anything starts, so that Ctrl-C stops everything.
    let stopping = callgate::http::shutdown_signal();
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let callgate = callgate.unwrap_or_else(|| program.with_file_name("callgate"));
    // The temporary directory of the tests, so that tests and this program unpack each package only once.
    let tmp = program.ancestors().nth(2).context("this program is not below `target`")?.join("tmp");
    eprintln!("replicas: starting PostgreSQL");
    let database = Engine::Postgres.start(&tmp);
    let registry = database.database();
    let servers = Servers::start(callgate, registry.url, SERVERS)?;
    let token = servers.token("admin")?;
    let balancer = Balancer::start(&tmp, listen, &servers.addresses())?;
    announce(&servers, &balancer, &token);
    stopping.await;
    eprintln!("replicas: stopping all processes");
    Ok(())
}

fn announce(servers: &Servers, balancer: &Balancer, token: &str) {
    for address in servers.addresses() {
        eprintln!("replicas: a server at http://{address}/mcp");
    }
    let address = balancer.address;
    eprintln!("replicas: nginx at http://{address}/mcp");
    eprintln!("replicas: a token for admin: {token}");
    eprintln!("\nShow which server answers:");
    eprintln!("  TOKEN={token}");
    eprintln!(
        "  curl -si -H \"Authorization: Bearer $TOKEN\" http://{address}/mcp/tools/list | grep -i served"
    );
    eprintln!("\nOpen a session, which is valid at each server:");
    eprintln!(
        "  npx @modelcontextprotocol/inspector --cli http://{address}/mcp --transport http \\"
    );
    eprintln!("    --header \"Authorization: Bearer $TOKEN\" --method tools/list");
    eprintln!("\nStop one of these processes with kill -9, and repeat the commands:");
    for id in servers.ids() {
        eprintln!("  {id}");
    }
}
