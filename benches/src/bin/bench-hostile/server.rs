//! The packaged program with its demo, the methods of the service, and users.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use callgate_bench::packages::program_path;
use serde::Deserialize;
use tempfile::TempDir;

use crate::exchange::{self, Request};
use crate::service;

/// Number of honest users. Each stays within the default rate limit. One additional user is hostile.
pub(crate) const HONEST_USERS: usize = 90;

const DATABASE: &str = "sqlite:callgate-demo.db";

/// A running server. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    /// Tokens of the users. The last one belongs to the hostile user.
    pub(crate) tokens: Vec<String>,
    _directory: TempDir,
}

#[derive(Deserialize)]
struct StartupOutput {
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts the program with its default limits, in front of a service.
    pub(crate) async fn start(service: SocketAddr) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().to_owned();
        let config = format!("log = \"error\"\n[upstreams.service]\nurl = \"http://{service}/\"\n");
        std::fs::write(path.join("callgate.toml"), config)?;
        std::fs::write(path.join("openrpc.json"), service::description().to_string())?;
        let command = |arguments: &[&str]| -> anyhow::Result<Command> {
            let mut command = Command::new(program_path("callgate")?);
            command.args(arguments).current_dir(&path).stdin(Stdio::null());
            Ok(command)
        };
        let mut process = command(&["serve", "--demo", "--json", "--listen", "127.0.0.1:0"])?
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start `callgate`")?;
        let output = process.stdout.take().context("stdout is not piped")?;
        let placeholder = SocketAddr::from(([127, 0, 0, 1], 0));
        // From here on, a failure kills the process.
        let mut server =
            Self { process, address: placeholder, tokens: Vec::new(), _directory: directory };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let startup: StartupOutput =
            serde_json::from_str(&line).context("the server did not start")?;
        server.address = startup.address;
        let run = |arguments: &[&str]| -> anyhow::Result<String> {
            let output = command(arguments)?.args(["--database", DATABASE]).output()?;
            let stderr = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "`callgate {}`: {stderr}", arguments.join(" "));
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        run(&["import", "openrpc", "openrpc.json", "--upstream", "service"])?;
        for number in 0..=HONEST_USERS {
            let user = format!("user{number}");
            run(&["user", "add", &user])?;
            server.tokens.push(run(&["token", "add", &user])?);
        }
        server.wait_for_methods().await?;
        Ok(server)
    }

    async fn wait_for_methods(&self) -> anyhow::Result<()> {
        let token = self.tokens.last().context("no tokens")?;
        let request = Request::get("/mcp/tools/describe?name=echo", token);
        let started = Instant::now();
        loop {
            let mut stream = exchange::connect([127, 0, 0, 1], self.address).await?;
            let reply = exchange::send(&mut stream, &request, &mut Vec::new()).await?;
            if reply.status == 200 {
                return Ok(());
            }
            ensure!(
                started.elapsed() < Duration::from_secs(30),
                "the imported methods are not served"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the memory of the server.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kibibytes.context("no VmRSS in /proc")? * 1024)
    }
}
