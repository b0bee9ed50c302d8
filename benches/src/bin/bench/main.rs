//! Measures the packaged program beside other servers, and writes a report with a picture.

mod anvil;
mod client;
mod connection;
mod free_port;
mod load;
mod machine;
mod measure;
mod measured_server;
mod nginx;
mod peers;
mod process;
mod registry;
mod repeats;
mod report;
mod results;
mod scale;
mod scale_report;
mod statistics;
mod usage;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use callgate_bench::suite::Suite;
use clap::Parser;

use crate::machine::Machine;

/// Compare the packaged program with other servers.
#[derive(Debug, Parser)]
struct Arguments {
    /// Comparison to run.
    #[arg(long, value_enum, default_value = "server")]
    suite: Suite,
    /// Number of rounds of full load for each case.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of full load for each server and round, in seconds.
    #[arg(long, default_value_t = 0.6)]
    seconds: f64,
    /// Number of rounds at a fixed rate for each case.
    #[arg(long, default_value_t = 3)]
    latency_rounds: usize,
    /// Duration at a fixed rate for each server and round, in seconds.
    #[arg(long, default_value_t = 1.5)]
    latency_seconds: f64,
    /// Number of starts of each server.
    #[arg(long, default_value_t = 3)]
    starts: usize,
    /// File for the report, as Markdown. The picture is written beside it.
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
    let machine = Machine::detect();
    let (page, picture) = if plan.suite == Suite::Scale {
        let results = scale::run(&plan, &machine)?;
        (scale_report::markdown(&plan, &machine, &results), Some(scale_report::picture(&results)))
    } else {
        let results = measure::run(&plan, &machine)?;
        (report::markdown(&plan, &machine, &results), report::picture(plan.suite, &results))
    };
    writeln!(std::io::stdout(), "\n{page}")?;
    if let Some(path) = arguments.out {
        write(&path, &page)?;
        if let Some(picture) = picture {
            write(&path.with_extension("svg"), &picture)?;
        }
    }
    Ok(())
}

fn write(path: &std::path::Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}

/// Prints progress to stderr.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
