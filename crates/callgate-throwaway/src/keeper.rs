//! What ends a server when nobody wants it any more.
//!
//! A shell starts the server and reads lines until there are no more: its other end is held by the test, so
//! it closes however the test ends, also by `kill -9`. Then the shell ends the server and removes its
//! directory. It has a process group of its own, since what ends the test may be sent to all of its group.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

const SCRIPT: &str = r#"
# Sent to all of a group where somebody was stopped, when whoever started it ends.
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
# One that has just been started may not listen to it yet.
until [ -e ended ]; do
    kill -s "$signal" "$(cat pid)"
    kill -s CONT "$(cat pid)"
    sleep 0.02
done
cd /
rm -rf "$directory"
"#;

/// A server and the shell that looks after it.
#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    directory: PathBuf,
}

impl Keeper {
    /// Starts a server. `signal` is what ends it; the directory is removed with it.
    pub(crate) fn start(directory: PathBuf, signal: &str, server: &Command) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "keeper"]).arg(&directory).arg(signal);
        shell.arg(server.get_program()).args(server.get_args());
        shell.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let shell = shell.spawn().expect("there is a shell");
        Self { shell, directory }
    }

    /// Starts it again after it ended.
    pub(crate) fn start_again(&mut self) {
        for old in ["pid", "ended"] {
            let _ = fs::remove_file(self.directory.join(old));
        }
        let lines = self.shell.stdin.as_mut().expect("it is open");
        lines.write_all(b"\n").expect("the shell reads");
    }

    /// Sends the server a signal.
    pub(crate) fn signal(&self, name: &str) {
        let _ = Command::new("kill").args(["-s", name, &self.id()]).status();
    }

    /// Has the server and the processes that it started do nothing.
    pub(crate) fn stop_all(&self) {
        for id in self.all() {
            stop(&id);
        }
    }

    /// Has them go on after that.
    pub(crate) fn go_on_all(&self) {
        for id in self.all() {
            let _ = Command::new("kill").args(["-s", "CONT", &id]).status();
        }
    }

    /// The server and the processes that it started.
    fn all(&self) -> Vec<String> {
        let id = self.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        [id.as_str()]
            .into_iter()
            .chain(children.split_whitespace())
            .map(ToOwned::to_owned)
            .collect()
    }

    fn id(&self) -> String {
        let id = until(|| fs::read_to_string(self.directory.join("pid")).ok());
        id.trim().to_owned()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.directory.join("ended").exists()
    }

    /// What the server printed.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Sends a process `STOP`, and waits until all of its threads have stopped: until then one may still answer.
pub fn stop(id: &str) {
    let _ = Command::new("kill").args(["-s", "STOP", id]).status();
    let is_stopped = |thread: fs::DirEntry| {
        let state = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // Behind the name, which is in brackets: `1 (postgres) T …`.
        state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    until(|| match fs::read_dir(format!("/proc/{id}/task")) {
        Ok(mut threads) => threads.all(|thread| thread.is_ok_and(is_stopped)).then_some(()),
        // It has ended.
        Err(_) => Some(()),
    });
}

/// Waits until it is gone.
impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Asks until there is an answer.
pub(crate) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "it takes too long");
        thread::sleep(Duration::from_millis(5));
    }
}
