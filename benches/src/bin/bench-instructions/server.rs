//! A server under callgrind, and the service behind it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use callgate_bench::model;
use callgate_bench::packages::program_path;
use serde_json::Value;
use tempfile::TempDir;

use crate::callgrind::{self, Counts};
use crate::{Kind, Program};

/// Number of tools of the demo.
const TOOLS: &str = "9";

/// A running server. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    directory: TempDir,
}

/// The service that forwarded calls reach. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(program_path("bench-server")?);
        command.args(["upstream", "--listen", "127.0.0.1:0"]);
        let (child, line) = start_process(command)?;
        Ok(Self { child, address: line.trim().parse()? })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server under callgrind and waits until it listens.
    pub(crate) fn start(program: Program, kind: Kind, service: &Service) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        let name = match program {
            Program::Callgate => "callgate",
            Program::Other(_) => "bench-server",
        };
        let mut command = callgrind::command(&program_path(name)?, &counts_file(path))?;
        command.current_dir(path);
        let mut token = model::token(0);
        match program {
            Program::Callgate if kind == Kind::Forward => {
                token = forwarding_registry(path, service.address)?;
                command.args(["serve", "--json", "--listen", "127.0.0.1:0"]);
            }
            Program::Callgate => {
                command.args(["serve", "--demo", "--json", "--listen", "127.0.0.1:0"]);
            }
            Program::Other(server) => {
                command.args([server, "--tools", TOOLS, "--listen", "127.0.0.1:0"]);
                command.arg(format!("--upstream={}", service.address));
            }
        }
        command.env("CALLGATE_LOG", "error");
        // Several threads would wake each other, in some runs more often than in others.
        command.env("TOKIO_WORKER_THREADS", "1");
        let (child, line) = start_process(command)?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        // From here on, a failure kills the process.
        let mut server = Self { child, address, token, directory };
        if program == Program::Callgate {
            let startup: Value = serde_json::from_str(&line).context("the server did not start")?;
            let text = |path: &str| startup.pointer(path).and_then(Value::as_str);
            server.address = text("/address").context("no address")?.parse()?;
            if let Some(token) = text("/tokens/admin") {
                token.clone_into(&mut server.token);
            }
        } else {
            server.address = line.trim().parse().context("the server did not start")?;
        }
        Ok(server)
    }

    /// Stops the server and returns its counts.
    pub(crate) fn stop(mut self) -> anyhow::Result<Counts<u64>> {
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &id]).status();
        self.child.wait()?;
        callgrind::read(&counts_file(self.directory.path()))
    }
}

fn counts_file(directory: &Path) -> PathBuf {
    directory.join("counts")
}

/// Starts a command and returns its first line of output.
fn start_process(mut command: Command) -> anyhow::Result<(Child, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("stdout is not piped")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok((child, line))
}

/// Creates a registry with a forwarded method. Returns the token of a user who may call it.
fn forwarding_registry(directory: &Path, service: SocketAddr) -> anyhow::Result<String> {
    let program = program_path("callgate")?;
    let run = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new(&program).args(arguments).current_dir(directory).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`callgate {}`: {stderr}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let config = format!("[upstreams.service]\nurl = \"http://{service}/\"\n");
    std::fs::write(directory.join("callgate.toml"), config)?;
    run(&["migrate"])?;
    run(&["section", "add", "users"])?;
    run(&["user", "add", "admin"])?;
    run(&["grant", "set", "--user", "admin", "users", "read"])?;
    let method = ["method", "add", "user.get", "--upstream", "service", "--param", "int $id_user"];
    run(&[&method[..], &["--section", "users:read", "--read-only"]].concat())?;
    run(&["token", "add", "admin"])
}
