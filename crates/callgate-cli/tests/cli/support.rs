//! Runs the program in a temporary directory, and sends requests to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::http_client::HttpResponse;

/// Maximum time to wait, with a large margin for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A temporary directory.
pub(crate) struct TestDirectory {
    directory: TempDir,
}

impl TestDirectory {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// Creates a directory with a registry.
    pub(crate) fn migrated() -> Self {
        let directory = Self::new();
        directory.ok(&["migrate"]);
        directory
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Allows upstreams in the registry to connect to these targets, in a new `callgate.toml`.
    pub(crate) fn allow_targets(&self, targets: &str) {
        self.write("callgate.toml", &format!("[registry_upstreams]\ntargets = \"{targets}\"\n"));
    }

    /// Returns a command of the program in this directory, without `CALLGATE_*` variables of the environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callgate"));
        command.args(arguments).current_dir(self.directory.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CALLGATE_") {
                command.env_remove(name);
            }
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput(self.command(arguments).output().unwrap())
    }

    /// Runs the program with this standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that fails early does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        CommandOutput(child.wait_with_output().unwrap())
    }

    /// Runs a command that must succeed. Returns its standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.0.status.success(), "{arguments:?}: {}", output.stderr());
        output.stdout()
    }

    /// Runs SQL on a SQLite file of this directory, as another program does.
    pub(crate) fn sql(&self, file: &str, sql: &str) {
        use sqlx::{Connection as _, Executor as _};
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(self.path(file))
            .create_if_missing(true)
            .busy_timeout(TIMEOUT);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
            connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))).await.unwrap();
            connection.close().await.unwrap();
        });
    }

    /// Starts `serve` on a free port, and waits until it prints its address.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        self.serve_with(&[], arguments)
    }

    /// Starts `serve` with these variables of the environment.
    pub(crate) fn serve_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Server {
        let all_arguments = [&["serve", "--json", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = self.command(&all_arguments);
        command.envs(variables.iter().copied());
        Server::start(command)
    }
}

/// Output of a command.
pub(crate) struct CommandOutput(pub(crate) Output);

impl CommandOutput {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Checks that the command succeeded.
    #[track_caller]
    pub(crate) fn expect_success(self) -> Self {
        assert!(self.0.status.success(), "{}", self.stderr());
        self
    }

    /// Returns the exit code and stderr of a command that failed with nothing on stdout.
    pub(crate) fn failure(&self) -> (i32, String) {
        assert_eq!(self.stdout(), "");
        (self.0.status.code().unwrap(), self.stderr())
    }
}

/// A running server. It stops when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) start: Value,
    pub(crate) address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(start) = serde_json::from_str::<Value>(&line) else {
            let mut log = String::new();
            child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
            panic!("did not start: {line}{log}");
        };
        let address = start["address"].as_str().unwrap().parse().unwrap();
        Self { child, start, address }
    }

    pub(crate) fn token(&self, user: &str) -> String {
        self.start["tokens"][user].as_str().unwrap().to_owned()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends bytes and reads to the end of the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read_all(&mut stream)
    }

    pub(crate) fn request(&self, head: &str, token: &str, body: &str) -> HttpResponse {
        self.request_with(head, "", token, body)
    }

    /// Sends a request with further headers, each with a line break.
    pub(crate) fn request_with(
        &self,
        head: &str,
        headers: &str,
        token: &str,
        body: &str,
    ) -> HttpResponse {
        let authorization = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let text = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        HttpResponse::parse(&self.raw(text.as_bytes()))
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> HttpResponse {
        self.request(&format!("GET {path}"), token, "")
    }

    /// Requests a path of `--operations-listen`.
    pub(crate) fn operations(&self, path: &str) -> HttpResponse {
        let address = self.start["operations"].as_str().unwrap().parse().unwrap();
        crate::http_client::get(address, path).unwrap()
    }

    pub(crate) fn invoke(&self, token: &str, name: &str, arguments: &Value) -> HttpResponse {
        let body = serde_json::json!({"name": name, "arguments": arguments}).to_string();
        self.request("POST /mcp/tools/invoke", token, &body)
    }

    pub(crate) fn tools(&self, token: &str) -> Vec<String> {
        let reply = self.get(token, "/mcp/tools/list");
        let body = reply.json();
        let tools = body["tools"].as_array().unwrap_or_else(|| panic!("{}", reply.body));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until a condition is met.
    pub(crate) fn wait_until(&self, condition: &str, mut is_met: impl FnMut(&Self) -> bool) {
        let started = Instant::now();
        while !is_met(self) {
            assert!(started.elapsed() < TIMEOUT, "timed out waiting until {condition}");
            // With this pause, the requests stay within the rate limit.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads the log up to the first line that contains a text, and returns that line.
    pub(crate) fn wait_for_log(&mut self, expected: &str) -> String {
        let log = self.child.stderr.as_mut().unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        // Reads without a buffer, so that the rest remains for other readers.
        while log.read(&mut byte).unwrap() > 0 {
            if byte != *b"\n" {
                line.extend(byte);
                continue;
            }
            let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
            if text.contains(expected) {
                return text;
            }
        }
        panic!("the log ended before `{expected}`");
    }

    /// Stops the server with SIGTERM. Returns the exit code and stderr.
    pub(crate) fn stop(self) -> (Option<i32>, String) {
        self.signal("-TERM");
        self.wait_for_exit()
    }

    /// Waits until the server exits. Returns the exit code and stderr.
    pub(crate) fn wait_for_exit(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}
