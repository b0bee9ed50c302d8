//! cargo build -p callgate-cli && cargo run -p replicas
//!
//! Starts a temporary PostgreSQL, three gateways on it, and nginx as a load balancer. Ctrl-C stops everything.
//! [`gateways`] starts the program three times, [`balancer`] has the configuration of nginx.

mod balancer;
mod gateways;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use callgate_test_support::Engine;
use clap::Parser;

use balancer::Balancer;
use gateways::Gateways;

/// Number of gateways.
const GATEWAYS: usize = 3;

/// Run three gateways on one PostgreSQL, behind nginx.
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
    let gateways = Gateways::start(callgate, registry.url, GATEWAYS)?;
    let token = gateways.token("admin")?;
    let balancer = Balancer::start(&tmp, listen, &gateways.addresses())?;
    announce(&gateways, &balancer, &token);
    stopping.await;
    eprintln!("replicas: ending all of it");
    Ok(())
}

fn announce(gateways: &Gateways, balancer: &Balancer, token: &str) {
    for address in gateways.addresses() {
        eprintln!("replicas: a gateway at http://{address}/mcp");
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
    for id in gateways.ids() {
        eprintln!("  {id}");
    }
}
