//! The measured programs: the demo, its bridge, and packages of npm.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use callgate_bench::packages::{install_npm, program_path};
use serde::Deserialize;

use crate::peer::BridgeProcess;

/// Package of mcp-remote, with the version of the published measurements.
const MCP_REMOTE: &str = "mcp-remote@0.15.1";

/// The demo server in a temporary directory. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Demo {
    process: Child,
    directory: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

#[derive(Debug, Deserialize)]
struct StartupOutput {
    address: SocketAddr,
    tokens: Tokens,
}

#[derive(Debug, Deserialize)]
struct Tokens {
    admin: String,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Demo {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("callgate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let mut process = Command::new(program_path("callgate")?)
            .args(["serve", "--demo", "--json", "--listen", "127.0.0.1:0"])
            .env("CALLGATE_LIMITS_REQUESTS_PER_CALLER", "none")
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start `callgate`")?;
        let mut line = String::new();
        let output = process.stdout.take().context("stdout is not piped")?;
        BufReader::new(output).read_line(&mut line)?;
        let started: StartupOutput =
            serde_json::from_str(&line).context("the server did not start")?;
        Ok(Self { process, directory, address: started.address, token: started.tokens.admin })
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Starts `callgate bridge`.
    pub(crate) fn start_bridge(&self) -> anyhow::Result<BridgeProcess> {
        let mut command = Command::new(program_path("callgate")?);
        command.args(["bridge", "--url", &self.url()]).env("CALLGATE_TOKEN", &self.token);
        BridgeProcess::start(command)
    }
}

/// npm packages, installed below `target`.
#[derive(Debug)]
pub(crate) struct Npm(PathBuf);

impl Npm {
    pub(crate) fn install() -> anyhow::Result<Self> {
        Ok(Self(install_npm(&[MCP_REMOTE])?))
    }

    /// Starts `mcp-remote`.
    pub(crate) fn start_remote(&self, demo: &Demo) -> anyhow::Result<BridgeProcess> {
        let mut command = Command::new("node");
        command.arg(self.0.join("node_modules/mcp-remote/dist/proxy.js"));
        command.args([&demo.url(), "--allow-http", "--transport", "http-only"]);
        command.args(["--header", "Authorization:${AUTHORIZATION}"]);
        command.env("AUTHORIZATION", format!("Bearer {}", demo.token));
        command.env("MCP_REMOTE_CONFIG_DIR", self.0.join("config"));
        BridgeProcess::start(command)
    }
}
