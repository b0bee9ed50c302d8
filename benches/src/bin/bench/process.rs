//! A server as a child process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use anyhow::Context as _;
use callgate_bench::candidate::Candidate;
use callgate_bench::suite::Service;
use tempfile::TempDir;

use crate::machine::Machine;
use crate::{anvil, nginx};

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// Directory of nginx, removed with the server.
    _directory: Option<TempDir>,
}

impl Server {
    /// Starts the service.
    pub(crate) fn of_service(service: Service, machine: &Machine) -> anyhow::Result<Self> {
        match service {
            // The reply does not depend on the tools.
            Service::Static => Self::start(Candidate::Upstream, 1, None, machine),
            Service::Anvil => {
                let (child, address) = anvil::start(machine)?;
                Ok(Self { child, address, _directory: None })
            }
        }
    }

    /// Starts a server, in front of an upstream if it has one, and waits until it listens.
    pub(crate) fn start(
        candidate: Candidate,
        tools: usize,
        upstream: Option<SocketAddr>,
        machine: &Machine,
    ) -> anyhow::Result<Self> {
        if candidate == Candidate::Nginx {
            let upstream = upstream.context("nginx needs an upstream")?;
            let nginx::Started { child, address, directory } = nginx::start(upstream, machine)?;
            return Ok(Self { child, address, _directory: Some(directory) });
        }
        let program = std::env::current_exe()?.with_file_name("bench-server");
        let upstream = upstream.map(|upstream| format!("--upstream={upstream}"));
        let mut child = machine
            .server_command(&program)
            .args([candidate.argument(), "--tools", &tools.to_string(), "--listen", "127.0.0.1:0"])
            .args(upstream)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        let output = child.stdout.take();
        // From here on, a failure kills the process.
        let mut server =
            Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), _directory: None };
        let mut line = String::new();
        BufReader::new(output.context("stdout is not piped")?).read_line(&mut line)?;
        server.address = line.trim().parse().with_context(|| {
            format!("{candidate}: expected an address, found `{}`", line.trim())
        })?;
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
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
