//! Servers of other projects, from Debian and npm packages below `target`.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use crate::support::TIMEOUT;

/// Number of ports to try, since another process may bind a free port first.
const PORT_ATTEMPTS: usize = 5;

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// Secret of aria2 and of the authorization server's client.
pub(crate) const SECRET: &str = "s3cret";

/// A running server. It stops when it is dropped.
pub(crate) struct RunningProcess {
    make: Box<dyn Fn(u16) -> Command>,
    /// Process and its log.
    process: Option<(Child, File)>,
    pub(crate) address: SocketAddr,
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl RunningProcess {
    /// Starts the command of `make` on a free port of loopback, and waits until the process
    /// listens.
    pub(crate) fn start(make: impl Fn(u16) -> Command + 'static) -> Self {
        let mut running = Self { make: Box::new(make), process: None, address: free_address() };
        for _ in 0..PORT_ATTEMPTS {
            if running.try_start() {
                return running;
            }
            running.address = free_address();
        }
        panic!("server does not start: {}", running.log());
    }

    /// Restarts the server on the same port.
    pub(crate) fn restart(&mut self) {
        let started = Instant::now();
        self.kill();
        // The system may hold the port for a moment.
        while !self.try_start() {
            assert!(started.elapsed() < TIMEOUT, "server does not restart: {}", self.log());
        }
    }

    /// Kills the server with `SIGKILL`.
    pub(crate) fn kill(&mut self) {
        if let Some((child, _)) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal, such as `-CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let (child, _) = self.process.as_ref().unwrap();
        let id = child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Suspends the server until it is sent `-CONT`.
    pub(crate) fn suspend(&self) {
        let (child, _) = self.process.as_ref().unwrap();
        callgate_test_support::suspend_process(&child.id().to_string());
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Starts the process. Returns `true` once it listens, or `false` if it exits before.
    fn try_start(&mut self) -> bool {
        let started = Instant::now();
        let (child, _) = self.process.insert(spawn((self.make)(self.address.port())));
        while TcpStream::connect_timeout(&self.address, TIMEOUT).is_err() {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(started.elapsed() < TIMEOUT, "server does not listen");
            std::thread::yield_now();
        }
        true
    }

    /// Returns the output so far. Does not move the offset at which the process writes.
    pub(crate) fn log(&self) -> String {
        let Some((_, log)) = &self.process else { return String::new() };
        let mut output = vec![0; usize::try_from(log.metadata().unwrap().len()).unwrap()];
        log.read_exact_at(&mut output, 0).unwrap();
        String::from_utf8_lossy(&output).into_owned()
    }
}

/// Returns the command of a program of a Debian package.
pub(crate) fn debian(package: &'static str, program: &str) -> Command {
    callgate_test_support::debian(Path::new(TMP), package, program)
}

fn spawn(mut command: Command) -> (Child, File) {
    let log = tempfile::tempfile().unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log.try_clone().unwrap());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    (child, log)
}

/// Returns an address that no process listens on.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Starts aria2 at `/jsonrpc`. It takes parameters by position, the secret first.
pub(crate) fn aria2() -> RunningProcess {
    RunningProcess::start(|port| {
        let mut command = debian("aria2", "aria2c");
        command.args(["--enable-rpc", "--rpc-listen-all=false", "--no-conf", "--quiet"]);
        command.arg(format!("--rpc-listen-port={port}")).arg(format!("--rpc-secret={SECRET}"));
        command.current_dir(TMP);
        command
    })
}

/// Starts the web interface of Deluge at `/json`, without a daemon. Its password is `deluge`.
pub(crate) fn deluge() -> RunningProcess {
    let state = tempfile::tempdir().unwrap();
    RunningProcess::start(move |port| {
        let mut command = debian("deluge-web", "deluge-web");
        let modules = package_file(&command, "usr/lib/python3/dist-packages");
        command.env("PYTHONPATH", modules).arg("-d").arg("-c").arg(state.path());
        command.args(["-i", "127.0.0.1", "-p", &port.to_string()]);
        command
    })
}

/// Starts Transmission at `/transmission/rpc`.
pub(crate) fn transmission() -> RunningProcess {
    let state = tempfile::tempdir().unwrap();
    RunningProcess::start(move |port| {
        let mut command = debian("transmission-daemon", "transmission-daemon");
        command.args(["-f", "--no-auth", "--no-portmap", "--no-dht", "--no-utp", "--no-lpd"]);
        command.args(["--rpc-bind-address", "127.0.0.1", "--bind-address-ipv4", "127.0.0.1"]);
        command.args(["--port", &port.to_string()]).arg("-g").arg(state.path());
        command
    })
}

/// Starts a Litecoin node with a chain of its own at `/`, for the user `ada` with [`SECRET`]. One call runs and one
/// waits; others are refused.
pub(crate) fn litecoind() -> RunningProcess {
    let state = tempfile::tempdir().unwrap();
    RunningProcess::start(move |port| {
        let script = debian("litecoind", "litecoind");
        let mut command = Command::new(package_file(&script, "usr/lib/litecoin/litecoind"));
        command.envs(script.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["-regtest", "-listen=0", "-disablewallet", "-rpcthreads=1"]);
        command.args(["-rpcworkqueue=1", "-rpcuser=ada", &format!("-rpcpassword={SECRET}")]);
        command.arg(format!("-rpcport={port}"));
        command.arg(format!("-datadir={}", state.path().display()));
        command
    })
}

/// Starts a Monero node with a chain of its own at `/json_rpc`.
pub(crate) fn monerod(options: &'static [&'static str]) -> RunningProcess {
    let state = tempfile::tempdir().unwrap();
    RunningProcess::start(move |port| {
        let mut command = debian("monero", "monerod");
        command.args(["--regtest", "--offline", "--non-interactive", "--no-zmq"]).args(options);
        // Without this option, the node would first create a key.
        command.args(["--rpc-ssl", "disabled", "--rpc-bind-port", &port.to_string()]);
        command.arg("--data-dir").arg(state.path());
        command
    })
}

/// Starts Electrum's daemon at `/`, for the user `ada` with [`SECRET`].
pub(crate) fn electrum() -> RunningProcess {
    let state = tempfile::tempdir().unwrap();
    std::fs::create_dir(state.path().join("regtest")).unwrap();
    RunningProcess::start(move |port| {
        let config = serde_json::json!({
            "rpchost": "127.0.0.1", "rpcport": port, "rpcuser": "ada", "rpcpassword": SECRET,
        });
        std::fs::write(state.path().join("regtest/config"), config.to_string()).unwrap();
        let mut command = debian("electrum", "electrum");
        let modules = package_file(&command, "usr/lib/python3/dist-packages");
        command.env("PYTHONPATH", modules).args(["--regtest", "--offline", "-D"]);
        command.arg(state.path()).arg("daemon");
        command
    })
}

/// Starts a server of jayson at `/`, which answers `rpc.discover`.
pub(crate) fn jayson() -> RunningProcess {
    RunningProcess::start(|port| {
        let mut command = Command::new("node");
        command.arg(packages().join("jayson.mjs")).arg(port.to_string());
        command
    })
}

/// Returns a file of the package that a program in `usr/bin` belongs to.
fn package_file(program: &Command, file: &str) -> PathBuf {
    let program = Path::new(program.get_program());
    program.ancestors().nth(3).unwrap().join(file)
}

/// Starts an Ethereum node with a local chain at `/`.
pub(crate) fn anvil() -> RunningProcess {
    RunningProcess::start(|port| {
        let packages = packages().join("node_modules/@foundry-rs");
        let mut paths = std::fs::read_dir(packages).unwrap().map(|entry| entry.unwrap().path());
        let binary =
            paths.find_map(|package| Some(package.join("bin/anvil")).filter(|it| it.exists()));
        let Some(binary) = binary else { panic!("anvil has no binary for this system") };
        let mut command = Command::new(binary);
        command.args(["--host", "127.0.0.1", "--silent", "--port", &port.to_string()]);
        command
    })
}

/// Starts a server that implements an OpenRPC document at `/` and serves the document.
pub(crate) fn mock(document: &Path) -> RunningProcess {
    let document = document.to_owned();
    RunningProcess::start(move |port| {
        let script = "node_modules/@open-rpc/mock-server/build/cli.js";
        let mut command = Command::new("node");
        command.arg("-r").arg(packages().join("loopback.cjs")).arg(packages().join(script));
        command.arg("-d").arg(&document).args(["-p", &port.to_string()]);
        command
    })
}

/// Starts an authorization server for the client `callgate` with [`SECRET`], at `/token`. Access tokens expire after
/// this number of seconds.
pub(crate) fn authorization(seconds: u32) -> RunningProcess {
    RunningProcess::start(move |port| {
        let mut command = Command::new("node");
        command.arg(packages().join("authorization.mjs"));
        command.args([&port.to_string(), "callgate", SECRET, &seconds.to_string()]);
        command
    })
}

/// Returns an OpenRPC document of Ethereum nodes and wallets, and the number of its methods.
pub(crate) fn ethereum_document() -> (PathBuf, usize) {
    (npm_file("@metamask/api-specs/dist/build/openrpc.json"), 55)
}

/// Returns a file of an npm package.
pub(crate) fn npm_file(path: &str) -> PathBuf {
    packages().join("node_modules").join(path)
}

/// Returns the directory with the npm packages, installed once.
fn packages() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
        let files = ["../clients/loopback.cjs", "authorization.mjs", "jayson.mjs"];
        callgate_test_support::npm(Path::new(TMP), &source, &files)
    })
}
