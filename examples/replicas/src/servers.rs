//! Several processes of `callgate` on one registry.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Running servers. They stop when this value is dropped.
#[derive(Debug)]
pub(crate) struct Servers {
    program: PathBuf,
    database: String,
    running: Vec<(Child, SocketAddr)>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for (child, _) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Servers {
    /// Starts servers with the tools of the demo, each on a free port.
    pub(crate) fn start(program: PathBuf, database: String, count: usize) -> anyhow::Result<Self> {
        let mut servers = Self { program, database, running: Vec::new() };
        for number in 1..=count {
            eprintln!("replicas: starting server {number}");
            servers.start_one()?;
        }
        Ok(servers)
    }

    fn start_one(&mut self) -> anyhow::Result<()> {
        let mut command = self.command(&["serve", "--demo", "--json", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| {
            let program = self.program.display();
            format!("cannot start `{program}`; build it with `cargo build -p callgate-cli`")
        })?;
        let output = child.stdout.take().context("the server has no standard output")?;
        // From here on, a failure stops this server together with the others.
        self.running.push((child, SocketAddr::from(([127, 0, 0, 1], 0))));
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let start: Value = serde_json::from_str(&line).context("the server did not start")?;
        let address = start
            .get("address")
            .and_then(Value::as_str)
            .context("the server printed no address")?;
        if let Some((_, stored)) = self.running.last_mut() {
            *stored = address.parse()?;
        }
        Ok(())
    }

    /// Returns a command of the program. The URL of the database is passed in the environment, because a list of
    /// processes shows the arguments.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("CALLGATE_DATABASE", &self.database);
        command.env("CALLGATE_LOG", "warn").stdin(Stdio::null());
        // Ignores the user's own configuration.
        command.current_dir(Path::new("/"));
        command
    }

    /// Creates a permanent token. Tokens of the demo expire when the next server starts.
    pub(crate) fn token(&self, user: &str) -> anyhow::Result<String> {
        let output = self.command(&["token", "add", user, "--name", "replicas"]).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "failed to create a token: {stderr}");
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.running.iter().map(|(_, address)| *address).collect()
    }

    /// Returns the process ids.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.running.iter().map(|(child, _)| child.id()).collect()
    }
}
