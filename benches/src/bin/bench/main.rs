//! Compares the servers and writes a report.

mod anvil;
mod client;
mod connection;
mod free_port;
mod load;
mod machine;
mod measure;
mod nginx;
mod process;
mod repeats;
mod report;
mod results;
mod statistics;
mod usage;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use callgate_bench::suite::Suite;
use clap::Parser;

use crate::machine::Machine;

/// Compare Callgate with other servers.
#[derive(Debug, Parser)]
struct Arguments {
    /// Comparison to run.
    #[arg(long, value_enum, default_value = "local")]
    suite: Suite,
    /// Number of rounds of full load for each case.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Duration of full load for each server and round, in seconds.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Number of rounds at a fixed rate for each case.
    #[arg(long, default_value_t = 3)]
    latency_rounds: usize,
    /// Duration at a fixed rate for each server and round, in seconds.
    #[arg(long, default_value_t = 5.0)]
    latency_seconds: f64,
    /// Number of starts of each server.
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
    ensure!(arguments.rounds > 0 && arguments.starts > 0, "`rounds` and `starts` must be above 0");
    ensure!(arguments.latency_rounds > 0, "`latency-rounds` must be above 0");
    let plan = measure::Plan {
        suite: arguments.suite,
        rounds: arguments.rounds,
        length: Duration::try_from_secs_f64(arguments.seconds)?,
        latency_rounds: arguments.latency_rounds,
        latency_length: Duration::try_from_secs_f64(arguments.latency_seconds)?,
        starts: arguments.starts,
    };
    let machine = Machine::prepare();
    let results = measure::run(&plan, &machine)?;
    let report = report::markdown(&plan, &machine, &results, arguments.date.as_deref());
    writeln!(std::io::stdout(), "\n{report}")?;
    if let Some(path) = arguments.out {
        std::fs::write(&path, report)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// Prints progress to stderr.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
