//! anvil, an Ethereum node with a local chain, from npm.

use std::net::SocketAddr;
use std::process::Command;

use callgate_bench::packages::npm_binary;

use crate::machine::Placement;

/// Version of the published measurements.
const ANVIL: &str = "@foundry-rs/anvil@1.7.1";

/// Returns the command of anvil on the servers' cores.
pub(crate) fn command(address: SocketAddr, placement: &Placement) -> anyhow::Result<Command> {
    let mut command = placement.command(&npm_binary(ANVIL, "@foundry-rs", "anvil")?);
    command.args(["--host", "127.0.0.1", "--silent", "--port", &address.port().to_string()]);
    Ok(command)
}
