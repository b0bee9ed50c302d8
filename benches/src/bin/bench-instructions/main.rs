//! Counts the instructions and allocations of a request with callgrind, and writes a table.
//!
//! A server runs twice for the same time: once with requests after the warm-up, and once without. The difference is the
//! cost of the requests. Counts hardly depend on the load of the machine.

mod callgrind;
mod exchange;
mod server;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use callgate_bench::table::Table;
use clap::Parser;

use crate::callgrind::Counts;
use crate::server::{Server, Service};

/// Number of warm-up requests, which are not counted.
const WARM_UP: u32 = 100;
/// Relative difference to the figure of the previous table above which a row is marked.
const MARK_THRESHOLD: f64 = 0.03;

/// Count the instructions of a request.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of counted requests.
    #[arg(long, default_value_t = 9000)]
    requests: u32,
    /// File for the table, as Markdown. The figures that it contains are compared with the new ones.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A measured program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The packaged program.
    Callgate,
    /// A server that `bench-server` runs, with its name on the command line.
    Other(&'static str),
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `tools/call` of a function in the process of the server.
    Call,
    /// `tools/list` of nine tools.
    List,
    /// `tools/call` that is forwarded to a service.
    Forward,
}

const MEASURED: [(&str, Program, Kind); 8] = [
    ("`tools/call`, callgate", Program::Callgate, Kind::Call),
    ("`tools/call`, bare axum", Program::Other("bare"), Kind::Call),
    ("`tools/call`, rmcp", Program::Other("rmcp"), Kind::Call),
    ("`tools/list`, callgate", Program::Callgate, Kind::List),
    ("`tools/list`, bare axum", Program::Other("bare"), Kind::List),
    ("`tools/list`, rmcp", Program::Other("rmcp"), Kind::List),
    ("forwarded call, callgate", Program::Callgate, Kind::Forward),
    ("forwarded call, hyper", Program::Other("hyper"), Kind::Forward),
];

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.requests > 0, "`requests` must be above 0");
    let previous = arguments.out.as_deref().and_then(|path| std::fs::read_to_string(path).ok());
    let service = Service::start()?;
    let mut table = Table::new(&["per request", "instructions", "allocations", "before"]);
    for (name, program, kind) in MEASURED {
        let counts = count(program, kind, &service, arguments.requests).context(name)?;
        let before = previous.as_deref().and_then(|text| recorded(text, name));
        table.row([
            name.to_owned(),
            format!("{:.0}", counts.instructions),
            // The other servers are built without symbols.
            if program == Program::Callgate {
                format!("{:.1}", counts.allocations)
            } else {
                String::new()
            },
            before.map_or_else(String::new, |before| compared(counts.instructions, before)),
        ]);
        writeln!(std::io::stderr(), "{name}: {:.0}", counts.instructions)?;
    }
    let mut report = String::from("# Benchmark: instructions\n\n");
    write!(report, "{METHOD}\n\n{table}")?;
    writeln!(std::io::stdout(), "\n{report}")?;
    if let Some(path) = arguments.out {
        std::fs::write(&path, report)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

const METHOD: &str = "\
Written by `cargo xtask bench instructions`. The table has the number of instructions in user code for the packaged
program and for the servers that it is compared with. callgrind counts the instructions. The packaged program runs with a
registry and with its default limits. The requests have the revision 2026-07-28 and a token, and are sent one after the other
on one connection. Each server runs twice for the same time, once with requests and once without. Each figure is the
difference of the two counts, divided by the number of requests. So work that depends on time, such as polling the
registry, is not included. Allocations are calls of the allocator, counted only in the packaged program. The last column
has the instructions of the previous measurement, and the change since then. A change of more than 3 % is marked with (!).";

/// Returns the cost of one request.
fn count(
    program: Program,
    kind: Kind,
    service: &Service,
    requests: u32,
) -> anyhow::Result<Counts<f64>> {
    let start = || -> anyhow::Result<Server> {
        let server = Server::start(program, kind, service)?;
        exchange::send(&server, kind, WARM_UP)?;
        Ok(server)
    };
    let server = start()?;
    let started = Instant::now();
    exchange::send(&server, kind, requests)?;
    let duration = started.elapsed();
    let with_requests = server.stop()?;
    let server = start()?;
    exchange::send(&server, kind, 0)?;
    // The server also works without requests: it polls its registry, for example.
    thread::sleep(duration);
    let without_requests = server.stop()?;
    let per_request = |counter: fn(&Counts<u64>) -> u64| -> anyhow::Result<f64> {
        let total = counter(&with_requests).checked_sub(counter(&without_requests));
        let total = u32::try_from(total.context("the count with requests is lower than without")?);
        Ok(f64::from(total.context("too many instructions; use fewer requests")?)
            / f64::from(requests))
    };
    Ok(Counts {
        instructions: per_request(|counts| counts.instructions)?,
        allocations: per_request(|counts| counts.allocations)?,
    })
}

/// Returns the instructions of a row of an earlier table.
fn recorded(table: &str, name: &str) -> Option<f64> {
    let row = table.lines().find(|line| line.starts_with(&format!("| {name} ")))?;
    row.split('|').nth(2)?.trim().parse().ok()
}

fn compared(current: f64, before: f64) -> String {
    let change = current / before - 1.0;
    let mark = if change.abs() > MARK_THRESHOLD { " (!)" } else { "" };
    format!("{before:.0}, {:+.1} %{mark}", change * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_compared_with_those_of_an_earlier_table() {
        let table = "| per request | instructions |\n| `tools/call`, rmcp | 1000 | 3.0 | |\n";
        let before = recorded(table, "`tools/call`, rmcp").unwrap();
        assert_eq!(compared(1020.0, before), "1000, +2.0 %");
        assert_eq!(compared(1040.0, before), "1000, +4.0 % (!)");
        assert_eq!(recorded(table, "`tools/list`, rmcp"), None);
    }
}
