//! The programs that are measured: the demo and its bridge, and what comes from npm.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use callgate_bench::npm;
use serde::Deserialize;

use crate::peer::Lines;

/// The exact version that figures are published for.
const REMOTE: &str = "mcp-remote@0.15.1";

/// The demo's server, in a directory of its own; gone at the end.
#[derive(Debug)]
pub(crate) struct Demo {
    process: Child,
    directory: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

#[derive(Debug, Deserialize)]
struct Started {
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
        let mut process = Command::new(program()?)
            .args(["serve", "--demo", "--json", "--listen", "127.0.0.1:0"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start `callgate`; build it with `cargo xtask dist` first")?;
        let mut line = String::new();
        let output = process.stdout.take().context("the server has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let started: Started = serde_json::from_str(&line).context("the server did not start")?;
        Ok(Self { process, directory, address: started.address, token: started.tokens.admin })
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// `callgate bridge` in front of it.
    pub(crate) fn bridge(&self) -> anyhow::Result<Lines> {
        let mut command = Command::new(program()?);
        command.args(["bridge", "--url", &self.url()]).env("CALLGATE_TOKEN", &self.token);
        Lines::start(command)
    }
}

/// The program, beside this one.
fn program() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("callgate"))
}

/// What npm brings, installed where the build's files are.
#[derive(Debug)]
pub(crate) struct Npm(PathBuf);

impl Npm {
    pub(crate) fn install() -> anyhow::Result<Self> {
        Ok(Self(npm::install(&[REMOTE])?))
    }

    /// `mcp-remote` in front of the demo.
    pub(crate) fn remote(&self, demo: &Demo) -> anyhow::Result<Lines> {
        let mut command = Command::new("node");
        command.arg(self.0.join("node_modules/mcp-remote/dist/proxy.js"));
        command.args([&demo.url(), "--allow-http", "--transport", "http-only"]);
        command.args(["--header", "Authorization:${AUTHORIZATION}"]);
        command.env("AUTHORIZATION", format!("Bearer {}", demo.token));
        command.env("MCP_REMOTE_CONFIG_DIR", self.0.join("config"));
        Lines::start(command)
    }
}
