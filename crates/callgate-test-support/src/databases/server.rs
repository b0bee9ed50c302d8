//! A running database server.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tempfile::TempDir;

use super::engine::Engine;
use crate::process_guard::{ProcessGuard, poll_until};

/// User of every database.
pub(super) const USER: &str = "callgate";
/// Password. Contains characters that must be encoded in a URL.
pub(super) const PASSWORD: &str = "s3cret:/@%";
const ENCODED_PASSWORD: &str = "s3cret%3A%2F%40%25";
/// User id of `nobody`, for servers that refuse to run as root.
const NOBODY: u32 = 65534;
/// Number of ports to try. The first one may fail, because another process may bind it before the server does.
const PORT_ATTEMPTS: usize = 5;

/// A running database server. It stops when it is dropped.
#[derive(Debug)]
pub struct DatabaseServer {
    /// Guard of the process; `None` for a server that another process started.
    guard: Option<Mutex<ProcessGuard>>,
    address: SocketAddr,
    engine: Engine,
    /// Directory with the unpacked packages.
    tmp: PathBuf,
    database_count: AtomicUsize,
}

/// A server's certificate and private key, both as PEM.
#[derive(Debug, Clone, Copy)]
pub struct TlsIdentity<'a> {
    /// Certificate.
    pub certificate: &'a str,
    /// Private key of the certificate.
    pub key: &'a str,
}

impl TlsIdentity<'_> {
    fn write(self, directory: &Path) {
        let (certificate, key) = identity_files(directory);
        for (file, text) in [(certificate, self.certificate), (key, self.key)] {
            fs::write(&file, text).expect("file is writable");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("owned file");
            if is_owned_by_root(&file) {
                chown(&file, Some(NOBODY), Some(NOBODY)).expect("root may change owners");
            }
        }
    }
}

/// Returns the paths of the certificate and the key in a server's directory. The files may be missing.
pub(super) fn identity_files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("certificate.pem"), directory.join("key.pem"))
}

/// A database that one test uses.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    /// URL with user and password.
    pub url: String,
    /// Name of the database on the server.
    pub name: String,
}

impl DatabaseServer {
    /// Returns the server at the address in [`Engine::env_var`], started by `cargo xtask`.
    pub(super) fn from_env(engine: Engine, tmp: &Path) -> Option<Self> {
        let variable = engine.env_var();
        let address = std::env::var_os(variable)?;
        let address = address.to_str().and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{variable} is not a socket address"));
        Some(Self::new(engine, tmp, None, address))
    }

    /// Starts a server on a free port with a new data directory, and waits until it is ready.
    pub(super) fn start(engine: Engine, tmp: &Path, identity: Option<TlsIdentity<'_>>) -> Self {
        let backend = engine.backend();
        let template = data_template(engine, tmp);
        let start = |address: SocketAddr| {
            let directory = temporary_directory().keep();
            run(Command::new("cp").arg("-a").arg(&template).arg(directory.join("data")));
            if let Some(identity) = identity {
                identity.write(&directory);
            }
            let command = backend.command(tmp, &directory, address.port());
            ProcessGuard::start(directory, backend.stop_signal(), &command)
        };
        let is_ready = |guard: &ProcessGuard, address| backend.is_ready(guard.directory(), address);
        let (guard, address) = start_on_free_port(engine.name(), start, is_ready);
        Self::new(engine, tmp, Some(Mutex::new(guard)), address)
    }

    fn new(
        engine: Engine,
        tmp: &Path,
        guard: Option<Mutex<ProcessGuard>>,
        address: SocketAddr,
    ) -> Self {
        Self { guard, address, engine, tmp: tmp.to_owned(), database_count: AtomicUsize::new(0) }
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a database.
    pub fn database(&self) -> TestDatabase {
        let number = self.database_count.fetch_add(1, Ordering::Relaxed);
        // Test processes share the server, and the operating system reuses process ids.
        let seconds = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let name = format!("test_{:x}{seconds:x}_{number}", std::process::id());
        self.sql(self.engine.backend().default_database(), &format!("CREATE DATABASE {name}"));
        TestDatabase { url: self.url(&name, self.address), name }
    }

    /// Returns the URL of a database at an address, which may be a proxy's.
    pub fn url(&self, database: &str, address: SocketAddr) -> String {
        let scheme = self.engine.backend().url_scheme();
        format!("{scheme}://{USER}:{ENCODED_PASSWORD}@{address}/{database}")
    }

    /// Runs SQL in the engine's command-line client. Returns its output.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL in the engine's command-line client. Returns its output, or its error output if it fails.
    pub fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut client = self.engine.backend().client(&self.tmp, self.address, database);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = client.spawn().expect("client starts");
        let mut input = child.stdin.take().expect("stdin is piped");
        let sql = sql.to_owned();
        let writer = std::thread::spawn(move || {
            // A client that stops at an error does not read the rest of its input.
            let _ = std::io::Write::write_all(&mut input, sql.as_bytes());
        });
        let output = child.wait_with_output().expect("client exits");
        let _ = writer.join();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Kills the server with `SIGKILL`.
    pub fn kill(&self) {
        let guard = self.guard();
        guard.signal("KILL");
        poll_until(|| guard.has_exited().then_some(()));
    }

    /// Suspends the server's processes, as if the network were cut.
    pub fn suspend(&self) {
        self.guard().suspend();
    }

    /// Resumes the processes after [`Self::suspend`].
    pub fn resume(&self) {
        self.guard().resume();
    }

    /// Starts the server again after [`Self::kill`], with the same address and data.
    pub fn restart(&self) {
        poll_until(|| {
            let mut guard = self.guard();
            guard.restart();
            // A process of the killed server may still block the restart.
            let backend = self.engine.backend();
            guard.wait(|| backend.is_ready(guard.directory(), self.address)).ok()
        });
    }

    fn guard(&self) -> MutexGuard<'_, ProcessGuard> {
        let guard = self.guard.as_ref();
        let guard = guard.expect("only a server that this test started can be stopped");
        guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a server on a free port and waits until it is ready.
pub(super) fn start_on_free_port(
    name: &str,
    start: impl Fn(SocketAddr) -> ProcessGuard,
    is_ready: impl Fn(&ProcessGuard, SocketAddr) -> bool,
) -> (ProcessGuard, SocketAddr) {
    let mut log = String::new();
    for _ in 0..PORT_ATTEMPTS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("bound listener");
        drop(listener);
        let guard = start(address);
        match guard.wait(|| is_ready(&guard, address)) {
            Ok(()) => return (guard, address),
            Err(output) => log = output,
        }
    }
    panic!("{name} does not start: {log}");
}

/// Returns an initial data directory, created once for each version, to be copied.
fn data_template(engine: Engine, tmp: &Path) -> PathBuf {
    let backend = engine.backend();
    let template = tmp.join("databases").join(version(backend.program(tmp)));
    if template.is_dir() {
        return template;
    }
    let temporary = temporary_directory();
    let data = temporary.path().join("data");
    backend.initialise(tmp, &data);
    fs::create_dir_all(tmp.join("databases")).expect("directory is writable");
    let staging = TempDir::with_prefix_in("new", tmp.join("databases"));
    let staging = staging.expect("directory is writable").keep();
    run(Command::new("cp").arg("-a").arg(data).arg(staging.join("data")));
    // Renaming is atomic. Another process may have been faster.
    let _ = fs::rename(staging.join("data"), &template);
    let _ = fs::remove_dir_all(staging);
    template
}

/// Creates a directory. If this process runs as root, `nobody` owns the directory.
fn temporary_directory() -> TempDir {
    let directory = TempDir::with_prefix("callgate-test").expect("directory is writable");
    if is_owned_by_root(directory.path()) {
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).expect("root may change owners");
    }
    directory
}

/// Returns `true` if root owns the file. For a file of this process, this means that the process runs as root.
fn is_owned_by_root(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.uid() == 0)
}

/// Returns the command, run as `nobody` if this process runs as root.
pub(super) fn not_as_root(command: Command) -> Command {
    let probe = tempfile::tempdir().expect("directory is writable");
    if !is_owned_by_root(probe.path()) {
        return command;
    }
    let mut wrapper = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    wrapper.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups", "--"]);
    wrapper.arg(command.get_program()).args(command.get_args());
    wrapper.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapper
}

/// Returns the output of `--version` as a file name.
fn version(mut command: Command) -> String {
    let output = run(command.arg("--version"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

pub(super) fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let texts = [&output.stdout, &output.stderr];
    let text = || texts.map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}", text());
    output
}

/// Returns `name` and `value` as one argument, such as `--datadir=/tmp/data`.
pub(super) fn argument(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut argument = OsString::from(name);
    argument.push(value);
    argument
}
