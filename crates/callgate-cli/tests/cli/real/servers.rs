//! Servers that no one here wrote, installed without touching the system and without root: packages of
//! Debian are unpacked where the build's files are, those of npm installed there.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use crate::support::PATIENCE;

/// So many ports are tried, should somebody take one before the server does.
const PORTS: usize = 5;

/// Cargo's directory for tests' files.
const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// aria2's secret.
pub(crate) const SECRET: &str = "s3cret";

/// A server while it runs; gone at the end, whatever happens.
pub(crate) struct Running {
    make: Box<dyn Fn(u16) -> Command>,
    /// With what it prints.
    process: Option<(Child, File)>,
    pub(crate) address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    /// Starts what `make` says on a free port of loopback, and waits until it listens there.
    pub(crate) fn start(make: impl Fn(u16) -> Command + 'static) -> Self {
        let mut running = Self { make: Box::new(make), process: None, address: free_address() };
        for _ in 0..PORTS {
            if running.try_start() {
                return running;
            }
            running.address = free_address();
        }
        panic!("it does not start: {}", running.said());
    }

    /// Starts it again where it was.
    pub(crate) fn start_again(&mut self) {
        let started = Instant::now();
        self.kill();
        // The system may hold the port for a moment.
        while !self.try_start() {
            assert!(started.elapsed() < PATIENCE, "it does not come back: {}", self.said());
        }
    }

    /// Ends it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some((child, _)) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal, such as `-CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let (child, _) = self.process.as_ref().unwrap();
        let id = child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Has it do nothing until it is sent `-CONT`.
    pub(crate) fn stop(&self) {
        let (child, _) = self.process.as_ref().unwrap();
        callgate_test_support::suspend_process(&child.id().to_string());
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Whether it listens before it ends.
    fn try_start(&mut self) -> bool {
        let started = Instant::now();
        let (child, _) = self.process.insert(spawn((self.make)(self.address.port())));
        while TcpStream::connect_timeout(&self.address, PATIENCE).is_err() {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(started.elapsed() < PATIENCE, "it does not listen");
            std::thread::yield_now();
        }
        true
    }

    /// What it printed so far. It may be printing: where it does so is left alone.
    pub(crate) fn said(&self) -> String {
        let Some((_, log)) = &self.process else { return String::new() };
        let mut said = vec![0; usize::try_from(log.metadata().unwrap().len()).unwrap()];
        log.read_exact_at(&mut said, 0).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// A program of a package of Debian.
pub(crate) fn debian(package: &'static str, program: &str) -> Command {
    callgate_test_support::debian(Path::new(TMP), package, program)
}

fn spawn(mut command: Command) -> (Child, File) {
    let log = tempfile::tempfile().unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log.try_clone().unwrap());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    (child, log)
}

/// An address where nobody listens now.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// aria2, at `/jsonrpc`. It takes parameters by position, its secret first.
pub(crate) fn aria2() -> Running {
    Running::start(|port| {
        let mut command = debian("aria2", "aria2c");
        command.args(["--enable-rpc", "--rpc-listen-all=false", "--no-conf", "--quiet"]);
        command.arg(format!("--rpc-listen-port={port}")).arg(format!("--rpc-secret={SECRET}"));
        command.current_dir(TMP);
        command
    })
}

/// A node of Ethereum that is a chain of its own, at `/`.
pub(crate) fn anvil() -> Running {
    Running::start(|port| {
        let packages = packages().join("node_modules/@foundry-rs");
        let mut all = std::fs::read_dir(packages).unwrap().map(|entry| entry.unwrap().path());
        let binary =
            all.find_map(|package| Some(package.join("bin/anvil")).filter(|it| it.exists()));
        let Some(binary) = binary else { panic!("anvil has no binary for this system") };
        let mut command = Command::new(binary);
        command.args(["--host", "127.0.0.1", "--silent", "--port", &port.to_string()]);
        command
    })
}

/// A server that answers as an OpenRPC document says, at `/`, and has the document itself.
pub(crate) fn mock(document: &Path) -> Running {
    let document = document.to_owned();
    Running::start(move |port| {
        let script = "node_modules/@open-rpc/mock-server/build/cli.js";
        let mut command = Command::new("node");
        command.arg("-r").arg(packages().join("loopback.cjs")).arg(packages().join(script));
        command.arg("-d").arg(&document).args(["-p", &port.to_string()]);
        command
    })
}

/// An authorization server for the client `callgate` with [`SECRET`], at `/token`. Access tokens are good
/// for so many seconds.
pub(crate) fn authorization(seconds: u32) -> Running {
    Running::start(move |port| {
        let mut command = Command::new("node");
        command.arg(packages().join("authorization.mjs"));
        command.args([&port.to_string(), "callgate", SECRET, &seconds.to_string()]);
        command
    })
}

/// An OpenRPC document of what nodes of Ethereum and wallets have, by others, and how many methods are
/// in it.
pub(crate) fn ethereum_document() -> (PathBuf, usize) {
    (packages().join("node_modules/@metamask/api-specs/dist/build/openrpc.json"), 55)
}

/// Those of npm, installed once.
fn packages() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
        let files = ["../clients/loopback.cjs", "authorization.mjs"];
        callgate_test_support::npm(Path::new(TMP), &source, &files)
    })
}
