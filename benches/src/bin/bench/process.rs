//! A server as a child process.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use callgate_bench::candidate::Candidate;
use callgate_bench::packages::program_path;
use clap::ValueEnum as _;
use serde_json::Value;
use tempfile::TempDir;

use crate::free_port::{free_address, wait_until_listening};
use crate::machine::Placement;
use crate::registry::Registry;
use crate::{anvil, nginx, peers, usage};

/// Maximum time until a server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// Directory with the configuration of the server. It is removed when the server is dropped.
    _directory: Option<TempDir>,
}

impl Server {
    /// Starts anvil.
    pub(crate) fn start_anvil(placement: &Placement) -> anyhow::Result<Self> {
        let (directory, address) = (tempfile::tempdir()?, free_address()?);
        Self::start_with_address(address, directory, anvil::command(address, placement)?)
    }

    /// Starts the packaged program in the directory of its registry, and waits until it listens.
    pub(crate) fn start_callgate(
        registry: &Registry,
        placement: Option<&Placement>,
    ) -> anyhow::Result<Self> {
        let program = program_path("callgate")?;
        let mut command = placement
            .map_or_else(|| Command::new(&program), |placement| placement.command(&program));
        command.args(["serve", "--demo", "--json", "--listen", "127.0.0.1:0"]);
        let log = File::create(registry.path().join("log"))?;
        command.current_dir(registry.path()).stderr(log);
        let parse_address = |line: &str| {
            let startup: Value = serde_json::from_str(line).ok()?;
            startup.get("address")?.as_str()?.parse().ok()
        };
        Self::start_with_printed_address(command, parse_address).with_context(|| {
            let log = std::fs::read_to_string(registry.path().join("log"));
            format!("callgate: {}", log.unwrap_or_default())
        })
    }

    /// Starts a server other than Callgate, in front of a service if it needs one, and waits until it listens.
    pub(crate) fn start(
        candidate: Candidate,
        service: Option<SocketAddr>,
        placement: &Placement,
    ) -> anyhow::Result<Self> {
        let command_of = match candidate {
            Candidate::Nginx => nginx::command,
            Candidate::Toolbox => peers::toolbox,
            Candidate::Fastmcp => peers::fastmcp,
            _ => return Self::start_bench_server(candidate, service, placement),
        };
        let (directory, address) = (tempfile::tempdir()?, free_address()?);
        let service = service.with_context(|| format!("{candidate} needs a service"))?;
        let command = command_of(directory.path(), address, service, placement)?;
        Self::start_with_address(address, directory, command).with_context(|| candidate.to_string())
    }

    fn start_bench_server(
        candidate: Candidate,
        service: Option<SocketAddr>,
        placement: &Placement,
    ) -> anyhow::Result<Self> {
        let name = candidate.to_possible_value().context("no name")?;
        let mut command = placement.command(&program_path("bench-server")?);
        command.arg(name.get_name());
        command.args(service.map(|service| format!("--upstream={service}")));
        Self::start_with_printed_address(command, |line| line.trim().parse().ok())
            .with_context(|| candidate.to_string())
    }

    /// Starts a server that prints its address.
    fn start_with_printed_address(
        mut command: Command,
        parse_address: impl FnOnce(&str) -> Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take();
        // From here on, a failure kills the process.
        let placeholder = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, address: placeholder, _directory: None };
        let mut line = String::new();
        BufReader::new(output.context("stdout is not piped")?).read_line(&mut line)?;
        let address = parse_address(&line);
        server.address =
            address.with_context(|| format!("expected an address, found `{}`", line.trim()))?;
        Ok(server)
    }

    /// Starts a server that listens on a given address.
    fn start_with_address(
        address: SocketAddr,
        directory: TempDir,
        mut command: Command,
    ) -> anyhow::Result<Self> {
        let log = directory.path().join("log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut server = Self { child: command.spawn()?, address, _directory: Some(directory) };
        let listens = wait_until_listening(&mut server.child, address);
        listens.with_context(|| std::fs::read_to_string(log).unwrap_or_default())?;
        Ok(server)
    }

    /// Returns the address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    /// Asks the server to stop, so that it stops its worker processes. Callgate also ends its lease, so that its next
    /// start does not share the rate limits with the stopped server.
    fn drop(&mut self) {
        let signal = |name: &str, processes: &[u32]| {
            let processes = processes.iter().map(u32::to_string);
            let _ = Command::new("kill").args(["-s", name]).args(processes).output();
        };
        let all = usage::process_tree(self.child.id());
        signal("TERM", &[self.child.id()]);
        let signalled = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if signalled.elapsed() > STOP_TIMEOUT {
                signal("KILL", &all);
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
