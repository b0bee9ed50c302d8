//! cargo run -p shop
//!
//! A small shop on SQLite. [`shop`] is a plugin, whose functions are methods and tools and share the database.
//! [`tokens`] authenticates the users of the shop. The tests at the end of [`shop`] call the methods without a server.

mod shop;
mod tokens;

use std::net::SocketAddr;

use anyhow::Context as _;
use callgate::Callgate;
use clap::Parser;
use tokio::net::TcpListener;

use shop::Shop;
use tokens::Tokens;

/// Run a shop whose functions are tools.
#[derive(Debug, Parser)]
struct Arguments {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// SQLite file of the shop; created if it does not exist.
    #[arg(long, default_value = "shop.db")]
    database: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Arguments { listen, database } = Arguments::parse();
    let shop = Shop::open(&database).await.with_context(|| format!("cannot open {database}"))?;
    let tokens = Tokens::new(shop.database());
    for (user, token) in tokens.create_initial().await? {
        eprintln!("shop: token of {user}, shown only once: {token}");
    }
    let server = Callgate::builder()
        .name("shop")
        .version(env!("CARGO_PKG_VERSION"))
        .plugin(shop)
        .authenticate(tokens)
        .build()?;
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    eprintln!("shop: http://{}/mcp", listener.local_addr()?);
    server.serve_on(listener, callgate::http::shutdown_signal()).await?;
    Ok(())
}
