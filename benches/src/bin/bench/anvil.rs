//! anvil, an Ethereum node with a local chain, from npm.

use std::net::SocketAddr;
use std::process::{Child, Stdio};

use anyhow::Context as _;
use callgate_bench::npm;

use crate::free_port::{free_address, wait_for};
use crate::machine::Machine;

/// Version of the published measurements.
const ANVIL: &str = "@foundry-rs/anvil@1.7.1";

/// Starts anvil on the servers' core, and waits until it listens.
pub(crate) fn start(machine: &Machine) -> anyhow::Result<(Child, SocketAddr)> {
    let packages = npm::install(&[ANVIL])?.join("node_modules/@foundry-rs");
    let mut all = std::fs::read_dir(&packages)?.filter_map(|entry| Some(entry.ok()?.path()));
    let program =
        all.find_map(|one| Some(one.join("bin/anvil")).filter(|program| program.exists()));
    let program = program.context("anvil has no binary for this system")?;
    let address = free_address()?;
    let mut child = machine
        .server_command(&program)
        .args(["--host", "127.0.0.1", "--silent", "--port", &address.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("failed to start anvil")?;
    wait_for(&mut child, address)?;
    Ok((child, address))
}
