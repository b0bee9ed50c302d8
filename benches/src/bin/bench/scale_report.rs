//! The report about the packaged program with registries of different sizes.

use callgate_bench::chart::{Bar, Chart, Group};
use callgate_bench::table::Table;

use crate::machine::Machine;
use crate::measure::Plan;
use crate::registry::{DEFAULT_SIZE, Size};
use crate::report::{disturbance, heading, mebibytes, thousands};
use crate::results::MAX_DISTURBED;
use crate::scale::{PER_SECOND, PROBES, ScaleResults, SizeResults};
use crate::statistics::Spread;

const TITLE: &str = "CPU time of a call by size of the registry, µs";

/// Returns the report as Markdown.
pub(crate) fn markdown(plan: &Plan, machine: &Machine, results: &ScaleResults) -> String {
    let heading = heading("scale", machine, std::slice::from_ref(&results.version));
    let Plan { rounds, latency_length, starts, .. } = plan;
    format!(
        "# Benchmark: size of the registry\n\n{heading}![{TITLE}](scale.svg)\n\n## Method\n\n\
         The measured program is the packaged program with its registry in SQLite, its default \
         limits and its demo. [Server](server.md) and [forwarded calls](forward.md) compare its \
         tail latency with that of other servers.\n\n\
         **Cost.** For each size, there is a server with one core. It gets {} calls of a function \
         per second on 32 connections, in {rounds} rounds of {latency_length:?}. Each token \
         belongs to a different user. The calls use at most 1,000 of the tokens. Only in the last \
         row, each call has a token that was not used before, so each call reads the registry. \
         Ratios to the first row are computed within a round. Each figure is the median of the \
         rounds, with minimum and maximum in parentheses. A round is repeated if other processes, \
         or the host of the virtual machine, took more than {:.0} % of a core. There are at most \
         {rounds} repetitions. `start-up` is the time from the start of the process to the first \
         correct reply, as the median of {starts} starts. `memory` is the resident memory after \
         all rounds, and `highest` is its peak.\n\n\
         **Changes.** A server with {} cores, 100,000 methods and 1,000 tokens gets {} calls per \
         second on 32 connections for {:?}. At the same time, a probe sends {} calls per second on \
         8 other connections. There are three runs: without changes, with changes of the \
         description of one method, and with changes of the descriptions of all methods. The \
         changes are SQL statements; each change begins when the previous one is served. Latency \
         is that of the probe, counted from the time at which a request was due.\n\n\
         ## Cost by size\n\n{}\n{}\n\n## Changes under load\n\n{}",
        thousands(f64::from(PER_SECOND)),
        MAX_DISTURBED * 100.0,
        machine.cores,
        thousands(f64::from(PER_SECOND)),
        *latency_length * 4,
        thousands(f64::from(PROBES)),
        sizes(results),
        disturbance(&results.cores),
        swaps(results),
    )
}

fn sizes(results: &ScaleResults) -> Table {
    let mut table = Table::new(&[
        "methods",
        "tokens",
        "CPU µs/call",
        "CPU to the first row",
        "start-up",
        "memory",
        "highest",
    ]);
    let first = results.sizes.first().map_or(&[][..], |first| &first.cpu);
    let ratio = |cpu: &[f64]| Spread::of(cpu.iter().zip(first).map(|(cpu, first)| cpu / first));
    let cost = |cpu: &[f64]| format!("{:.1}", Spread::of(cpu.iter().copied()).median);
    for SizeResults { size, start_up, cpu, memory } in &results.sizes {
        table.row([
            thousands_of(size.methods),
            thousands_of(size.tokens),
            cost(cpu),
            ratio(cpu).to_string(),
            format!("{} ms", thousands(start_up.median)),
            mebibytes(memory.resident),
            mebibytes(memory.peak),
        ]);
    }
    if let Some(last) = results.sizes.last() {
        let label = format!("{}, first use", thousands_of(last.size.tokens));
        let (cost, ratio) = (cost(&results.first_use), ratio(&results.first_use).to_string());
        let [a, b, c] = [(); 3].map(|()| String::new());
        table.row([thousands_of(last.size.methods), label, cost, ratio, a, b, c]);
    }
    table
}

fn swaps(results: &ScaleResults) -> Table {
    let mut table = Table::new(&[
        "changes",
        "number",
        "until served, s",
        "p50 of the probe, µs",
        "p99",
        "longest",
    ]);
    for swap in &results.swaps {
        let delay = Spread::of(swap.delays.iter().copied());
        let is_none = swap.delays.is_empty();
        table.row([
            swap.changes.to_owned(),
            swap.delays.len().to_string(),
            if is_none { String::new() } else { delay.to_string() },
            thousands(swap.probe.p50),
            thousands(swap.probe.p99),
            thousands(swap.probe.longest),
        ]);
    }
    table
}

/// Returns a picture of the cost by size.
pub(crate) fn picture(results: &ScaleResults) -> String {
    let group = |heading: &str, count: fn(&Size) -> usize, is_included: fn(&Size) -> bool| {
        let mut included: Vec<&SizeResults> =
            results.sizes.iter().filter(|results| is_included(&results.size)).collect();
        included.sort_by_key(|results| count(&results.size));
        let bars = included.into_iter().map(|size_results| {
            let value = Spread::of(size_results.cpu.iter().copied()).median;
            let label = thousands_of(count(&size_results.size));
            Bar { label, value, text: format!("{value:.1}"), is_callgate: true }
        });
        Group { heading: heading.to_owned(), bars: bars.collect() }
    };
    let groups = vec![
        group("methods", |size| size.methods, |size| size.tokens == DEFAULT_SIZE.tokens),
        group("tokens", |size| size.tokens, |size| size.methods == DEFAULT_SIZE.methods),
    ];
    Chart { title: TITLE.to_owned(), groups }.to_string()
}

fn thousands_of(count: usize) -> String {
    thousands(f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
}
