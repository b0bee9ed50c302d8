//! A directory, the program in it, and a small HTTP client.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A directory of its own, gone at the end.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The program, in this directory and without the environment's own settings.
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

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran(self.command(arguments).output().unwrap())
    }

    /// Runs it with this on standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Who fails early does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran(child.wait_with_output().unwrap())
    }

    /// Runs what must succeed; what it prints as data comes back.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(ran.0.status.success(), "{arguments:?}: {}", ran.talk());
        ran.data()
    }

    /// Plain SQL on a file here, as another program would run it.
    pub(crate) fn sql(&self, file: &str, sql: &str) {
        use sqlx::{Connection as _, Executor as _};
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(self.path(file))
            .create_if_missing(true)
            .busy_timeout(PATIENCE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
            connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))).await.unwrap();
            connection.close().await.unwrap();
        });
    }

    /// Starts `serve` on a free port, and waits until it says where.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        let all = [&["serve", "--json", "--listen", "127.0.0.1:0"], arguments].concat();
        Server::start(self.command(&all))
    }
}

/// How a command went.
pub(crate) struct Ran(pub(crate) Output);

impl Ran {
    pub(crate) fn data(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn talk(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Exit code and talk of what must fail, with nothing on stdout.
    pub(crate) fn failure(&self) -> (i32, String) {
        assert_eq!(self.data(), "");
        (self.0.status.code().unwrap(), self.talk())
    }
}

/// The program while it serves; gone at the end, whatever happens.
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
            let mut talk = String::new();
            child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
            panic!("did not start: {line}{talk}");
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
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes as they are, and reads to the end.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read_all(&mut stream)
    }

    pub(crate) fn request(&self, head: &str, token: &str, body: &str) -> Reply {
        self.request_with(head, "", token, body)
    }

    /// With further headers, each ending its line.
    pub(crate) fn request_with(&self, head: &str, more: &str, token: &str, body: &str) -> Reply {
        let authorization = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let text = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}{more}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Reply::parse(&self.raw(text.as_bytes()))
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Reply {
        self.request(&format!("GET {path}"), token, "")
    }

    pub(crate) fn invoke(&self, token: &str, name: &str, arguments: &Value) -> Reply {
        let body = serde_json::json!({"name": name, "arguments": arguments}).to_string();
        self.request("POST /mcp/tools/invoke", token, &body)
    }

    pub(crate) fn tools(&self, token: &str) -> Vec<String> {
        let reply = self.get(token, "/mcp/tools/list");
        let body = reply.json();
        let tools = body["tools"].as_array().unwrap_or_else(|| panic!("{}", reply.body));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Asks again and again until it is so.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            assert!(started.elapsed() < PATIENCE, "never: {what}");
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end; the exit code and what was logged come back.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut talk = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
        (self.child.wait().unwrap().code(), talk)
    }
}

fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// An HTTP reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v).next()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}
