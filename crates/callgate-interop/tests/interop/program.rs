//! The program `callgate` with its demo, in a temporary directory.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use callgate_test_support::workspace_program;

const DATABASE: &str = "sqlite:callgate-demo.db";

/// Returns the program of `CALLGATE_BIN`, or the one of the workspace.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let build = || workspace_program("callgate");
    PROGRAM.get_or_init(|| std::env::var_os("CALLGATE_BIN").map_or_else(build, PathBuf::from))
}

/// A temporary directory with the registry of the demo.
pub(crate) struct TestDirectory {
    directory: TempDir,
}

impl TestDirectory {
    /// Creates the registry of the demo, with pages of two tools.
    pub(crate) fn with_demo() -> Self {
        let directory = Self { directory: tempfile::tempdir().unwrap() };
        drop(directory.serve());
        directory.run(&["setting", "set", "mcp_page_size", "2"]);
        directory
    }

    /// Returns a command of the program in this directory, without `CALLGATE_*` variables of the environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.directory.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CALLGATE_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs an administration command. Returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let all_arguments = [arguments, &["--database", DATABASE]].concat();
        let output = self.command(&all_arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Sets the grant of readers on users.
    pub(crate) fn grant_readers(&self, mask: &str) {
        self.run(&["grant", "set", "--role", "reader", "user_management", mask]);
    }

    /// Starts the demo over HTTP, and waits until it prints its address.
    pub(crate) fn serve(&self) -> Server {
        let mut command = self.command(&["serve", "--demo", "--json", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut server = Server { child, start: Value::Null };
        match serde_json::from_str(&line) {
            Ok(start) => server.start = start,
            Err(error) => panic!("did not start, {error}: {line}{}", server.log()),
        }
        server
    }
}

/// The running program. It stops when it is dropped.
pub(crate) struct Server {
    child: Child,
    start: Value,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.start["address"].as_str().unwrap())
    }

    pub(crate) fn token(&self, user: &str) -> &str {
        self.start["tokens"][user].as_str().unwrap()
    }

    /// Stops the program and waits until it exits. Returns its log.
    pub(crate) fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let log = self.log();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }

    fn log(&mut self) -> String {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }
}
