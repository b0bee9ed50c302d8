//! What the database servers have in common.

use std::ffi::OsStr;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tempfile::TempDir;

use crate::keeper::{Keeper, until};

/// Who everybody is to the servers.
pub(crate) const USER: &str = "callgate";
/// With characters that a URL has to encode.
pub(crate) const PASSWORD: &str = "s3cret:/@%";
pub(crate) const ENCODED_PASSWORD: &str = "s3cret%3A%2F%40%25";
/// Nobody's number, for servers that refuse to be root.
const NOBODY: u32 = 65534;
/// So many ports are tried, should somebody take one before the server does.
pub(crate) const PORTS: usize = 5;

/// A server while it runs.
pub struct Server {
    /// `None` for a server that another process started.
    keeper: Option<Mutex<Keeper>>,
    address: SocketAddr,
    brand: &'static dyn Brand,
    /// Where packages are unpacked.
    tmp: PathBuf,
    databases: AtomicUsize,
}

/// What a server shows to those who want the connection encrypted, both as PEM.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// Its certificate.
    pub certificate: &'a str,
    /// The key that belongs to it.
    pub key: &'a str,
}

impl Identity<'_> {
    /// Lays both down where a server of this directory looks for them.
    fn lay_down(self, directory: &Path) {
        let (certificate, key) = identity_files(directory);
        for (file, text) in [(certificate, self.certificate), (key, self.key)] {
            fs::write(&file, text).expect("can be written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
            if is_root(&file) {
                chown(&file, Some(NOBODY), Some(NOBODY)).expect("root may");
            }
        }
    }
}

/// Where a server of this directory finds its certificate and its key, if it has them.
pub(crate) fn identity_files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("certificate.pem"), directory.join("key.pem"))
}

/// What is different between them.
pub(crate) trait Brand: Sync {
    /// The signal that ends it.
    fn signal(&self) -> &'static str;
    fn scheme(&self) -> &'static str;
    /// Its program, without arguments.
    fn program(&self, tmp: &Path) -> Command;
    /// Fills a new directory of data.
    fn initialise(&self, tmp: &Path, data: &Path);
    /// What runs it, on what its directory holds.
    fn command(&self, tmp: &Path, directory: &Path, port: u16) -> Command;
    fn is_ready(&self, directory: &Path, address: SocketAddr) -> bool;
    /// Its client, which reads SQL from its input.
    fn client(&self, tmp: &Path, address: SocketAddr, database: &str) -> Command;
    /// The database that is always there.
    fn first_database(&self) -> &'static str;
}

/// A database of a test.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    /// With the user and the password.
    pub url: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// The server at the address that an environment variable has, started by `cargo xtask`.
    pub(crate) fn given(brand: &'static dyn Brand, tmp: &Path, variable: &str) -> Option<Self> {
        let address = std::env::var_os(variable)?;
        let address = address.to_str().and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{variable} is not an address"));
        Some(Self {
            keeper: None,
            address,
            brand,
            tmp: tmp.to_owned(),
            databases: AtomicUsize::new(0),
        })
    }

    /// Starts it on a free port, on data of its own, and waits until it answers.
    pub(crate) fn start(
        brand: &'static dyn Brand,
        tmp: &Path,
        identity: Option<Identity<'_>>,
    ) -> Self {
        let template = template(brand, tmp);
        let mut said = String::new();
        for _ in 0..PORTS {
            let directory = fresh_directory().keep();
            run(Command::new("cp").arg("-a").arg(&template).arg(directory.join("data")));
            if let Some(identity) = identity {
                identity.lay_down(&directory);
            }
            let address = free_address();
            let command = brand.command(tmp, &directory, address.port());
            let keeper = Keeper::start(directory, brand.signal(), &command);
            let server = Self {
                keeper: Some(Mutex::new(keeper)),
                address,
                brand,
                tmp: tmp.to_owned(),
                databases: AtomicUsize::new(0),
            };
            match server.wait() {
                Ok(()) => return server,
                Err(log) => said = log,
            }
        }
        panic!("it does not start: {said}");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A database that nobody else uses.
    pub fn database(&self) -> TestDatabase {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        // The processes of a test run may share the server, and the system gives their ids again.
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let name = format!("test_{:x}{since:x}_{number}", std::process::id());
        self.sql(self.brand.first_database(), &format!("CREATE DATABASE {name}"));
        TestDatabase { url: self.url(&name, self.address), name }
    }

    /// The URL of a database, as if the server were at an address: that of a proxy, say.
    pub fn url(&self, database: &str, address: SocketAddr) -> String {
        let scheme = self.brand.scheme();
        format!("{scheme}://{USER}:{ENCODED_PASSWORD}@{address}/{database}")
    }

    /// Runs SQL through the server's own client. Comes back with what it printed.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL that may be refused.
    pub fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut client = self.brand.client(&self.tmp, self.address, database);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = client.spawn().expect("there is a client");
        let mut input = child.stdin.take().expect("it is open");
        let sql = sql.to_owned();
        let writing = std::thread::spawn(move || {
            // One that stops at an error does not read the rest.
            let _ = std::io::Write::write_all(&mut input, sql.as_bytes());
        });
        let output = child.wait_with_output().expect("it ends");
        let _ = writing.join();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&self) {
        let keeper = self.keeper();
        keeper.signal("KILL");
        until(|| keeper.has_ended().then_some(()));
    }

    /// Has it do nothing, as if the network were cut.
    pub fn stop(&self) {
        self.keeper().stop_all();
    }

    /// Has it go on after that.
    pub fn go_on(&self) {
        self.keeper().go_on_all();
    }

    /// Starts it again where it was, with what it had.
    pub fn start_again(&self) {
        until(|| {
            self.keeper().start_again();
            // What is left of the old one may be in the way for a moment.
            self.wait().ok()
        });
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        let keeper =
            self.keeper.as_ref().expect("a shared server is not stopped: start one for the test");
        keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it answers. What it printed, if it ends before.
    fn wait(&self) -> Result<(), String> {
        let keeper = self.keeper();
        until(|| {
            if self.brand.is_ready(keeper.directory(), self.address) {
                return Some(Ok(()));
            }
            keeper.has_ended().then(|| Err(keeper.log()))
        })
    }
}

/// Returns a directory of data that was made once, to be copied.
fn template(brand: &dyn Brand, tmp: &Path) -> PathBuf {
    let template = tmp.join("databases").join(version(brand.program(tmp)));
    if template.is_dir() {
        return template;
    }
    let scratch = fresh_directory();
    let filled = scratch.path().join("data");
    brand.initialise(tmp, &filled);
    fs::create_dir_all(tmp.join("databases")).expect("can be made");
    let copy = TempDir::with_prefix_in("fresh", tmp.join("databases")).expect("can be made").keep();
    run(Command::new("cp").arg("-a").arg(filled).arg(copy.join("data")));
    // All of it or nothing; another may have been faster.
    let _ = fs::rename(copy.join("data"), &template);
    let _ = fs::remove_dir_all(copy);
    template
}

/// A directory that also nobody may use, should this be root.
fn fresh_directory() -> TempDir {
    let directory = TempDir::with_prefix("callgate-throwaway").expect("can be made");
    if is_root(directory.path()) {
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    directory
}

/// By the owner of what this process made.
fn is_root(made: &Path) -> bool {
    fs::metadata(made).is_ok_and(|made| made.uid() == 0)
}

/// The command as a user who is not root.
pub(crate) fn not_as_root(command: Command) -> Command {
    let probe = tempfile::tempdir().expect("can be made");
    if !is_root(probe.path()) {
        return command;
    }
    let mut other = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    other.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups", "--"]);
    other.arg(command.get_program()).args(command.get_args());
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other
}

/// The version that a program says it has, as a part of a name.
fn version(mut command: Command) -> String {
    let output = run(command.arg("--version"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, wrong) = (&output.stdout, &output.stderr);
    let said = || [said, wrong].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}", said());
    output
}

pub(crate) fn setting(name: &str, value: impl AsRef<OsStr>) -> std::ffi::OsString {
    let mut setting = std::ffi::OsString::from(name);
    setting.push(value);
    setting
}

/// An address where nobody listens now.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    listener.local_addr().expect("it has an address")
}
