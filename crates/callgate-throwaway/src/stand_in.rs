//! A server that speaks as SQL Server does.
//!
//! No server of Microsoft's can be had everywhere; `iridium_server` from the registry of crates is what the
//! driver is tried with. What it cannot do is in `docs/operate/databases.md`.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::keeper::{Keeper, until};
use crate::server::{PORTS, free_address};

const VERSION: &str = "0.1.13";
/// As many sessions as tests want.
const SESSIONS: &str = "200";
/// The stack of each of its threads, in bytes.
const STACK: &str = "67108864";

/// A server of one test, all of it in memory: it has one database only.
#[derive(Debug)]
pub struct StandIn {
    keeper: Keeper,
    address: SocketAddr,
}

impl StandIn {
    /// Who everybody is to it.
    pub const USER: &str = "sa";
    /// With characters that a URL has to encode.
    pub const PASSWORD: &str = "s3cret:/@%+";

    /// Starts one, which does not encrypt. `tmp` is cargo's directory for tests' files.
    pub fn start(tmp: &Path) -> Self {
        let program = Self::build(tmp.parent().unwrap_or(tmp));
        let mut said = String::new();
        for _ in 0..PORTS {
            let directory = tempfile::TempDir::with_prefix("callgate-throwaway");
            let directory = directory.expect("can be made").keep();
            let address = free_address();
            let mut command = Command::new(&program);
            command.args([
                "--memory",
                "--pool-max",
                SESSIONS,
                "--port",
                &address.port().to_string(),
            ]);
            command.args(["--user", Self::USER, "--password", Self::PASSWORD, "--no-tls"]);
            // It would log each statement.
            command.env("RUST_LOG", "error");
            // What is not optimised needs more than the usual stack.
            command.env("RUST_MIN_STACK", STACK);
            let keeper = Keeper::start(directory, "KILL", &command);
            let is_ready = until(|| {
                if TcpStream::connect(address).is_ok() {
                    return Some(true);
                }
                keeper.has_ended().then_some(false)
            });
            if is_ready {
                return Self { keeper, address };
            }
            said = keeper.log();
        }
        panic!("it does not start: {said}");
    }

    /// Sends it a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        self.keeper.signal(name);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its database, with the user and the password.
    pub fn url(&self) -> String {
        format!("mssql://sa:s3cret%3A%2F%40%25+@{}/master?encrypt=off", self.address)
    }

    /// Builds the program, if it is not there. `target` is cargo's directory.
    pub fn build(target: &Path) -> PathBuf {
        let tools = target.join("tools");
        let root = tools.join(format!("iridium-{VERSION}"));
        let program = root.join("bin/iridium-server");
        fs::create_dir_all(&tools).expect("can be made");
        // Two that want it build it once.
        let lock = File::create(tools.join("lock")).expect("can be made");
        lock.lock().expect("can be locked");
        if !program.exists() {
            install(&tools, &root);
        }
        program
    }
}

/// Builds the program, in a minute or two. What only the compiler needs is removed.
fn install(tools: &Path, root: &Path) {
    let (fresh, scratch) = (tools.join("fresh"), tools.join("build"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut install = Command::new(cargo);
    // Optimised, it takes more than three times as long to build and saves the tests three seconds.
    install.args(["install", "--quiet", "--debug", "--locked", "--version", VERSION]);
    for check in ["DEBUG", "DEBUG_ASSERTIONS", "OVERFLOW_CHECKS"] {
        install.env(format!("CARGO_PROFILE_DEV_{check}"), "false");
    }
    install.args(["--bin", "iridium-server", "iridium_server"]);
    install.arg("--root").arg(&fresh).arg("--target-dir").arg(&scratch);
    let status = install.status().expect("there is cargo");
    let _ = fs::remove_dir_all(&scratch);
    assert!(status.success(), "SQL Server's stand-in cannot be built: {install:?}: {status}");
    // All of it or nothing, should this be cut off.
    fs::rename(fresh, root).expect("can be moved");
}
