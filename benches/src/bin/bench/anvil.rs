//! anvil, an Ethereum node with a local chain, from npm.

use std::net::SocketAddr;
use std::process::Command;

use callgate_bench::packages::npm_binary;

use crate::machine::Placement;

/// Package of anvil, with the version of the published measurements.
const ANVIL: &str = "@foundry-rs/anvil@1.7.1";

/// Returns a command that runs anvil on the cores of the servers.
pub(crate) fn command(address: SocketAddr, placement: &Placement) -> anyhow::Result<Command> {
    let mut command = placement.command(&npm_binary(ANVIL, "@foundry-rs", "anvil")?);
    command.args(["--host", "127.0.0.1", "--silent", "--port", &address.port().to_string()]);
    Ok(command)
}
