//! Measures the overhead of a bridge. Runs the same call directly, through `callgate bridge`, and through npm's
//! `mcp-remote`, in turns.

mod peer;
mod programs;
mod report;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;

use peer::{BridgeProcess, DirectClient, Era, Peer};
use programs::{Demo, Npm};
use report::{Cost, Report};

/// Compare the bridge with npm's mcp-remote.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of calls in each turn.
    #[arg(long, default_value_t = 1000)]
    calls: usize,
    /// Number of turns of each program.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of starts of each program.
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// Date for the report.
    #[arg(long)]
    date: Option<String>,
    /// File for the report, as Markdown.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let demo = Demo::start()?;
    let npm = Npm::install()?;
    let mut report = Report::default();
    for era in [Era::Legacy, Era::Modern] {
        progress(&format!("calls, {era}"));
        report.calls.push((era, calls(&arguments, era, &demo, &npm, &mut report.memory)?));
    }
    for _ in 0..arguments.starts {
        report.bridge_starts.push(start(|| demo.start_bridge())?);
        report.remote_starts.push(start(|| npm.start_remote(&demo))?);
    }
    let text = report.markdown(arguments.calls, arguments.rounds, arguments.date.as_deref());
    writeln!(std::io::stdout(), "\n{text}")?;
    if let Some(path) = arguments.out {
        std::fs::write(&path, text)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the medians of each turn.
fn calls(
    arguments: &Arguments,
    era: Era,
    demo: &Demo,
    npm: &Npm,
    memory: &mut Vec<(&'static str, u64)>,
) -> anyhow::Result<Vec<Cost>> {
    let mut direct = DirectClient::connect(demo, era)?;
    let mut bridge = demo.start_bridge()?;
    bridge.initialize(era)?;
    let mut remote = match era {
        Era::Legacy => {
            let mut remote = npm.start_remote(demo)?;
            remote.initialize(era)?;
            Some(remote)
        }
        // mcp-remote does not support the modern era.
        Era::Modern => None,
    };
    let mut costs = Vec::new();
    for _ in 0..arguments.rounds {
        costs.push(Cost {
            direct: median(arguments.calls, era, &mut direct)?,
            bridge: median(arguments.calls, era, &mut bridge)?,
            remote: remote
                .as_mut()
                .map(|remote| median(arguments.calls, era, remote))
                .transpose()?,
        });
    }
    if let Some(remote) = &remote {
        memory.push(("callgate bridge", bridge.peak_memory()?));
        memory.push(("mcp-remote", remote.peak_memory()?));
    }
    Ok(costs)
}

fn median(calls: usize, era: Era, peer: &mut impl Peer) -> anyhow::Result<Duration> {
    let call = era.call();
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let started = Instant::now();
        let reply = peer.request(&call)?;
        times.push(started.elapsed());
        anyhow::ensure!(reply.contains("\"result\""), "the call failed: {reply}");
    }
    times.sort_unstable();
    times.get(calls / 2).copied().context("no calls were made")
}

/// Measures the time from the start of the process to its first reply.
fn start(
    start_program: impl FnOnce() -> anyhow::Result<BridgeProcess>,
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut peer = start_program()?;
    peer.initialize(Era::Legacy)?;
    Ok(started.elapsed())
}

/// Prints progress to stderr.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
