//! Imports that a server repeats, each in a separate process.
//!
//! A malicious source may use up memory or time. In this case, only the process of the import ends.
//! The server logs the failure and continues.

use std::io::{BufRead as _, Read as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use callgate::forward::wait_for_token_requests;
use callgate_import::Importer;
use callgate_import::watch::Change;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command as Process;
use tokio::time::timeout;

use super::read_source;
use crate::cli::{Cli, Command, GlobalArgs, ImportCommand};
use crate::commands::TOKEN_REQUESTS_TIMEOUT;
use crate::config::Config;
use crate::{printer, registry};

/// Maximum memory of the process, in bytes.
#[cfg(target_os = "linux")]
const MAX_MEMORY: u64 = 1 << 30;
/// Maximum duration of an import.
const TIME_LIMIT: Duration = Duration::from_mins(15);
/// Maximum length of a reply, in bytes. The text of a change has at most 4 MiB, and escaping in
/// JSON makes the text longer.
const MAX_REPLY: u64 = 32 << 20;
/// Maximum number of bytes of the error output that are read.
const MAX_ERRORS: u64 = 4096;

/// The job that the process reads from standard input. It is not passed as an argument, because the URL of a database
/// may contain a password.
#[derive(Serialize, Deserialize)]
struct Job {
    global: GlobalArgs,
    name: String,
}

/// The change, if there is one, or the error message.
type Reply = Result<Option<Change>, String>;

/// Runs an import in a new process. The process ends when this future is dropped.
pub(super) async fn start(
    config: &Config,
    global: &GlobalArgs,
    name: &str,
) -> anyhow::Result<Option<Change>> {
    let mut global = global.clone();
    // With `--demo`, which is not passed to the process, the server may use another file than the
    // global options name.
    if config.database.path().is_some() {
        global.database = Some(config.database.to_string());
    }
    let mut job = serde_json::to_vec(&Job { global, name: name.to_owned() })?;
    job.push(b'\n');
    let mut process = Process::new(program()?)
        .args(["import", "process"])
        // In KiB. Memory that the allocator reserves in advance counts against the limit.
        .env("MIMALLOC_ARENA_RESERVE", "65536")
        // If the memory is used up, writing a backtrace may also fail.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a process for the import")?;
    // Kept open, because the process ends when its standard input is closed.
    let mut stdin = process.stdin.take().context("no standard input")?;
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let finished = async {
        // Writing fails if the process has ended. Its exit status then explains the reason.
        let _ = stdin.write_all(&job).await;
        let (reply, error_output) = tokio::join!(read(stdout, MAX_REPLY), read(stderr, MAX_ERRORS));
        anyhow::Ok((reply, error_output, process.wait().await?))
    };
    let Ok(finished) = timeout(TIME_LIMIT, finished).await else {
        bail!(
            "the import was stopped, because it took more than {} minutes",
            TIME_LIMIT.as_secs() / 60
        );
    };
    let (reply, error_output, status) = finished?;
    match serde_json::from_slice::<Reply>(&reply) {
        Ok(reply) => reply.map_err(anyhow::Error::msg),
        Err(_) => Err(process_error(status, &error_output)),
    }
}

/// Returns the path of this program. On Linux, the path exists even after an upgrade has replaced the file.
fn program() -> anyhow::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().context("cannot find the path of this program")
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, max_bytes: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(max_bytes).read_to_end(&mut bytes).await;
    }
    bytes
}

fn process_error(status: ExitStatus, error_output: &[u8]) -> anyhow::Error {
    let error_output = String::from_utf8_lossy(error_output);
    anyhow::anyhow!("the process of the import ended with {status}: {}", error_output.trim())
}

/// Main function of the process that `start` starts. Reads a `Job` from standard input, runs this import, and
/// prints the reply.
pub(crate) fn run() -> anyhow::Result<()> {
    limit_memory()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let job = serde_json::from_str(&line).context("only `callgate serve` runs this command")?;
    std::thread::Builder::new().spawn(exit_with_server)?;
    let reply: Reply = import(job).map_err(|error| format!("{error:#}"));
    printer::exact(serde_json::to_string(&reply)?);
    Ok(())
}

fn import(Job { global, name }: Job) -> anyhow::Result<Option<Change>> {
    let command = Command::Import(ImportCommand::Process);
    let config = Config::load(&Cli { global, command })?;
    let configured = config.imports.get(&name)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = registry::open_without_festi(&config).await?;
        let import = async {
            let (source, options) = &read_source(&config, &configured.import).await?;
            Importer { source, store: &store, options }.run(&name, configured.policy).await
        };
        let change = import.await;
        wait_for_token_requests(TOKEN_REQUESTS_TIMEOUT).await;
        change
    })
}

#[cfg(target_os = "linux")]
fn limit_memory() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(MAX_MEMORY), maximum: Some(MAX_MEMORY) };
    setrlimit(Resource::Data, limit).context("cannot limit the memory of the import")
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "only Linux limits the memory of a process")]
fn limit_memory() -> anyhow::Result<()> {
    Ok(())
}

/// Ends the process when the server closes standard input. This also happens when the server ends.
#[expect(clippy::exit, reason = "the import may be busy")]
fn exit_with_server() {
    let _ = std::io::stdin().lock().read(&mut [0]);
    std::process::exit(1);
}
