//! cargo build -p callgate-cli && cargo run -p replicas
//!
//! A throwaway PostgreSQL, three gateways on it, and nginx in front that asks them in turn. All of it is on
//! this machine, and ends with Ctrl-C. [`gateways`] starts the program three times, [`balancer`] has the
//! configuration of nginx to copy from.

mod balancer;
mod gateways;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use callgate_test_support::Engine;
use clap::Parser;

use balancer::Balancer;
use gateways::Gateways;

/// How many gateways there are.
const GATEWAYS: usize = 3;

/// Three gateways on one PostgreSQL, behind nginx.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where nginx listens, on this machine; port 0 is any.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The program `callgate`; by default the one that was built beside this one.
    #[arg(long)]
    callgate: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Arguments { listen, callgate } = Arguments::parse();
    // From now on, so that whatever was started ends with this.
    let stopping = callgate::http::shutdown_signal();
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let callgate = callgate.unwrap_or_else(|| program.with_file_name("callgate"));
    // Where cargo has the files of tests: what has to be unpacked is unpacked once.
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
