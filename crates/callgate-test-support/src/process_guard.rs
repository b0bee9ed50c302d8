//! Stops a server when its test ends.
//!
//! A shell starts the server and then reads its own standard input. The test process holds the other end of the pipe.
//! The pipe closes when the test ends, even by `SIGKILL`. The shell then stops the server and removes its directory.
//! The shell has its own process group, because signals to the group of the test must not end the shell.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for a server to start or stop.
const TIMEOUT: Duration = Duration::from_mins(1);

const SCRIPT: &str = r#"
# The kernel sends HUP to an orphaned process group with a suspended process.
trap '' HUP
directory=$1 signal=$2
shift 2
cd "$directory"
start() {
    rm -f pid ended
    ( "$@" >>log 2>&1 & echo $! >fresh; mv fresh pid; wait; : >ended ) &
}
start "$@"
while read -r _; do start "$@"; done
# A process that has just started may not handle the signal yet.
until [ -e ended ]; do
    kill -s "$signal" "$(cat pid)"
    kill -s CONT "$(cat pid)"
    sleep 0.02
done
cd /
rm -rf "$directory"
"#;

/// A server process and the shell that stops it. Dropping the guard waits until the process has exited.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    shell: Child,
    directory: PathBuf,
}

impl ProcessGuard {
    /// Starts a server. `signal` stops the server. The directory is removed afterwards.
    pub(crate) fn start(directory: PathBuf, signal: &str, server: &Command) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "process-guard"]).arg(&directory).arg(signal);
        shell.arg(server.get_program()).args(server.get_args());
        shell.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let shell = shell.spawn().expect("sh starts");
        Self { shell, directory }
    }

    /// Starts the server again after it exited.
    pub(crate) fn restart(&mut self) {
        for file in ["pid", "ended"] {
            let _ = fs::remove_file(self.directory.join(file));
        }
        let input = self.shell.stdin.as_mut().expect("stdin is piped");
        input.write_all(b"\n").expect("shell reads its input");
    }

    /// Waits until the server is ready. Returns its output if it exits before it is ready.
    pub(crate) fn wait(&self, is_ready: impl Fn() -> bool) -> Result<(), String> {
        poll_until(|| {
            if is_ready() {
                return Some(Ok(()));
            }
            self.has_exited().then(|| {
                let log = fs::read(self.directory.join("log")).unwrap_or_default();
                Err(String::from_utf8_lossy(&log).into_owned())
            })
        })
    }

    /// Sends the server a signal.
    pub(crate) fn signal(&self, name: &str) {
        let _ = Command::new("kill").args(["-s", name, &self.id()]).status();
    }

    /// Suspends the server and its child processes.
    pub(crate) fn suspend(&self) {
        for id in self.all_ids() {
            suspend_process(&id);
        }
    }

    /// Resumes the server and its child processes.
    pub(crate) fn resume(&self) {
        for id in self.all_ids() {
            let _ = Command::new("kill").args(["-s", "CONT", &id]).status();
        }
    }

    fn all_ids(&self) -> Vec<String> {
        let id = self.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().map(ToOwned::to_owned);
        std::iter::once(id).chain(children).collect()
    }

    fn id(&self) -> String {
        let id = poll_until(|| fs::read_to_string(self.directory.join("pid")).ok());
        id.trim().to_owned()
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.directory.join("ended").exists()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Sends a process `SIGSTOP` and waits until all of its threads have stopped.
pub fn suspend_process(id: &str) {
    let _ = Command::new("kill").args(["-s", "STOP", id]).status();
    let is_stopped = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets: `1 (postgres) T …`.
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    poll_until(|| match fs::read_dir(format!("/proc/{id}/task")) {
        Ok(mut threads) => threads.all(|thread| thread.is_ok_and(is_stopped)).then_some(()),
        // The process has exited.
        Err(_) => Some(()),
    });
}

/// Calls `poll` until it returns `Some`.
pub(crate) fn poll_until<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(started.elapsed() < TIMEOUT, "timed out waiting for a server process");
        thread::sleep(Duration::from_millis(5));
    }
}
