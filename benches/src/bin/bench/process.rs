//! A server as a child process, which ends with its owner.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use anyhow::Context as _;
use callgate_bench::candidate::Candidate;

use crate::machine::Machine;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts a candidate, and waits until it says where it listens.
    pub(crate) fn start(
        candidate: Candidate,
        tools: usize,
        machine: &Machine,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("bench-server");
        let mut child = machine
            .server_command(&program)
            .args([candidate.as_str(), "--tools", &tools.to_string(), "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let output = child.stdout.take();
        // From here on it is killed whatever happens.
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut line = String::new();
        BufReader::new(output.context("the server has no output")?).read_line(&mut line)?;
        server.address = line.trim().parse().with_context(|| {
            format!("{candidate}: expected an address, found `{}`", line.trim())
        })?;
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
