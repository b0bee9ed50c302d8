//! Servers with all features, each in a separate process: `server-everything`, the protocol's reference server, and
//! `examples/everything`.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use callgate_test_support::workspace_program;

use super::{ChildGuard, node};

/// A running server.
pub(crate) struct Everything {
    _process: ChildGuard,
    pub(crate) url: String,
}

impl Everything {
    /// Starts the reference server.
    pub(crate) fn reference(port: u16) -> Self {
        let mut command = node::everything_server();
        command.env("PORT", port.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
        let (process, _) = spawn_until(command, |line| line.contains("listening on port"));
        Self { _process: process, url: format!("http://127.0.0.1:{port}/mcp") }
    }

    /// Starts `examples/everything`. Port 0 selects a free port.
    pub(crate) fn example(port: u16) -> Self {
        let mut command = Command::new(workspace_program("everything"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        let (process, line) = spawn_until(command, |line| line.starts_with("everything: "));
        let url = line.trim_start_matches("everything: ").to_owned();
        Self { _process: process, url }
    }
}

impl Everything {
    /// Builds `examples/everything`, which takes longer than a bridge waits.
    pub(crate) fn build_example() {
        workspace_program("everything");
    }
}

/// Returns the process, and the line which shows that it has started.
fn spawn_until(mut command: Command, is_start_line: impl Fn(&str) -> bool) -> (ChildGuard, String) {
    let mut process = ChildGuard(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
    let line = lines.find_map(|line| line.ok().filter(|line| is_start_line(line)));
    let line = line.unwrap_or_else(|| panic!("{command:?} did not start"));
    // Reads all output, so that a full pipe does not block the server.
    std::thread::spawn(move || lines.for_each(drop));
    (process, line)
}

/// Returns a port below the range that the system assigns, so that no other process takes it between two starts.
pub(crate) fn fixed_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests that nextest runs at the same time have different slots.
    let slot = std::env::var_os("NEXTEST_TEST_GLOBAL_SLOT");
    let slot = slot.and_then(|slot| slot.to_str()?.parse().ok());
    let slot: u16 = slot.unwrap_or_else(|| u16::try_from(std::process::id() % 100).unwrap());
    let start = 20_000 + slot % 100 * 100;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::SeqCst) % 100;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
