//! Measures the servers beside each other, and writes what it found.

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
mod reply;
mod report;
mod results;
mod statistics;
mod table;
mod usage;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use callgate_bench::suite::Suite;
use clap::Parser;

use crate::machine::Machine;

/// Measures Callgate beside others.
#[derive(Debug, Parser)]
struct Arguments {
    /// What is compared.
    #[arg(long, value_enum, default_value = "local")]
    suite: Suite,
    /// How many rounds of full load for each case.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How long a server is under full load in each round, in seconds.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// How many rounds at a fixed rate for each case.
    #[arg(long, default_value_t = 3)]
    latency_rounds: usize,
    /// How long a server is at a fixed rate in each round, in seconds.
    #[arg(long, default_value_t = 5.0)]
    latency_seconds: f64,
    /// How often each server is started to see how long that takes.
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// The date to put into the report.
    #[arg(long)]
    date: Option<String>,
    /// Where to write the report as Markdown.
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
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Says how far it is.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
