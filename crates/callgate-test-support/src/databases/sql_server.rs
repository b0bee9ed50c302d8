//! A server with SQL Server's protocol.
//!
//! Microsoft's server is not available on every platform, so tests of the driver use the `iridium_server` crate.
//! `docs/operate/databases.md` lists what this crate does not support.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::start_on_free_port;
use crate::process_guard::ProcessGuard;

const VERSION: &str = "0.1.13";
/// Maximum number of sessions.
const SESSIONS: &str = "200";
/// Stack size of the server's threads, in bytes. Unoptimised code needs more than the default.
const STACK: &str = "67108864";

/// A server for one test. It has a single in-memory database.
#[derive(Debug)]
pub struct SqlServerEmulator {
    guard: ProcessGuard,
    address: SocketAddr,
}

impl SqlServerEmulator {
    /// User name.
    pub const USER: &str = "sa";
    /// Password. Contains characters that must be encoded in a URL.
    pub const PASSWORD: &str = "s3cret:/@%+";

    /// Starts a server without TLS. `tmp` is `CARGO_TARGET_TMPDIR`.
    pub fn start(tmp: &Path) -> Self {
        let program = Self::build(tmp.parent().unwrap_or(tmp));
        let start = |address: SocketAddr| {
            let directory = tempfile::TempDir::with_prefix("callgate-test");
            let directory = directory.expect("directory is writable").keep();
            let mut command = Command::new(&program);
            command.args(["--memory", "--pool-max", SESSIONS, "--port"]);
            command.args([&address.port().to_string(), "--user", Self::USER]);
            command.args(["--password", Self::PASSWORD, "--no-tls"]);
            // The default level logs every statement.
            command.env("RUST_LOG", "error").env("RUST_MIN_STACK", STACK);
            ProcessGuard::start(directory, "KILL", &command)
        };
        let is_ready = |_: &ProcessGuard, address: SocketAddr| TcpStream::connect(address).is_ok();
        let (guard, address) = start_on_free_port("iridium-server", start, is_ready);
        Self { guard, address }
    }

    /// Sends the server a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        self.guard.signal(name);
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the database with user and password.
    pub fn url(&self) -> String {
        format!("mssql://sa:s3cret%3A%2F%40%25+@{}/master?encrypt=off", self.address)
    }

    /// Builds the program unless it exists. `target` is cargo's target directory.
    pub fn build(target: &Path) -> PathBuf {
        let tools = target.join("tools");
        let root = tools.join(format!("iridium-{VERSION}"));
        let program = root.join("bin/iridium-server");
        fs::create_dir_all(&tools).expect("directory is writable");
        // Several test processes may build the program at the same time.
        let lock = File::create(tools.join("lock")).expect("directory is writable");
        lock.lock().expect("file can be locked");
        if !program.exists() {
            install(&tools, &root);
        }
        program
    }
}

/// Builds the program, which takes one or two minutes, and removes the intermediate files.
fn install(tools: &Path, root: &Path) {
    let (staging, build_directory) = (tools.join("fresh"), tools.join("build"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut install = Command::new(cargo);
    // An optimised build takes more than three times as long and saves the tests three seconds.
    install.args(["install", "--quiet", "--debug", "--locked", "--version", VERSION]);
    for setting in ["DEBUG", "DEBUG_ASSERTIONS", "OVERFLOW_CHECKS"] {
        install.env(format!("CARGO_PROFILE_DEV_{setting}"), "false");
    }
    install.args(["--bin", "iridium-server", "iridium_server"]);
    install.arg("--root").arg(&staging).arg("--target-dir").arg(&build_directory);
    let status = install.status().expect("cargo starts");
    let _ = fs::remove_dir_all(&build_directory);
    assert!(status.success(), "failed to build the SQL Server emulator: {install:?}: {status}");
    // Renaming is atomic, so that an interrupted build leaves nothing.
    fs::rename(staging, root).expect("directory is writable");
}
