//! What was measured, in words and tables.

use std::fmt::Write as _;

use callgate_bench::candidate::Candidate;
use callgate_bench::suite::Suite;

use crate::machine::Machine;
use crate::measure::Plan;
use crate::results::{CaseResults, Cores, Latencies, MAX_WAITING, Results};
use crate::statistics::Spread;
use crate::table::Table;

/// The whole report as Markdown.
pub(crate) fn markdown(
    plan: &Plan,
    machine: &Machine,
    results: &Results,
    date: Option<&str>,
) -> String {
    let mut out = String::from("# Benchmarks\n\n");
    let date = date.map(|date| format!(" on {date}")).unwrap_or_default();
    let cores = if machine.pinned {
        "The servers have one of them and the load generator has another."
    } else {
        "Nothing was pinned to a core, so the figures are noisy."
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "Measured{date} by `bench` of the package `callgate-bench`, on {} cores of an {}, Linux {}. {cores}\n",
        machine.cores, machine.processor, machine.kernel,
    );
    out.push_str(&method(plan));
    for case in &results.cases {
        out.push_str(&case_section(case, plan.suite.yardstick()));
    }
    out.push_str(&server_section(results));
    out
}

fn method(plan: &Plan) -> String {
    let (candidates, setting) = match plan.suite {
        Suite::Local => (LOCAL, LOCAL_SETTING),
        Suite::Forward => (FORWARD, FORWARD_SETTING),
        Suite::Batch => (BATCH, BATCH_SETTING),
    };
    let yardstick = plan.suite.yardstick();
    format!(
        "## Method\n\n{candidates}\n\n{setting} Every server has a runtime with one thread. A load \
         generator keeps 32 connections busy and checks every reply; one that is wrong ends the \
         measurement. The servers take turns in {} rounds of {:?} each. A ratio is taken between \
         servers in the same round; the figure is the median over the rounds, with the lowest and the \
         highest in brackets. CPU time is what the kernel counts for the server's process, its own \
         work for the sockets included.\n\n\
         Latency is measured at a fixed rate, half of what {yardstick} takes, in {} rounds of {:?}: it \
         counts from the moment at which a request was due, so that waiting for a slow server counts \
         too. Where that is more than a server can take, a second rate is half of what the slowest \
         takes.\n\n\
         A round in which a server or the load generator had to wait for its core for more than \
         {:.0} % of the time, because something else ran there or the host took cores away, is \
         repeated, for at most as many times as there are rounds.\n\n",
        plan.rounds,
        plan.length,
        plan.latency_rounds,
        plan.latency_length,
        MAX_WAITING * 100.0,
    )
}

const LOCAL: &str = "\
    - **bare** is an axum handler that reads the envelope of JSON-RPC and writes a reply of the same \
    shape as Callgate's. It checks no token, knows no tools and looks at no arguments: it is the \
    floor.\n\
    - **callgate** is the library's router. It checks the token, decides what the caller may, and \
    checks the arguments against the tool's schema.\n\
    - **rmcp** is rmcp 3.8.0 without sessions and with JSON replies, behind a token check in axum. What \
    each set of grants may see is worked out beforehand. It does not check arguments against a schema.";

const LOCAL_SETTING: &str = "\
    Every server has 50 tools, 1,000 tokens and 100 different sets of grants, and is the same program \
    with the same allocator. Calls are made with all tokens in turn; lists are asked for with the \
    tokens that see every tool.";

const FORWARD: &str = "\
    - **nginx** is Debian's, as a reverse proxy that keeps its connections to the service, with one \
    worker and no log of requests. It passes the request on as it is, and so it does the reply.\n\
    - **hyper** is a reverse proxy of hyper's server and pooled client, and nothing else.\n\
    - **callgate** is the library's router with an upstream. It checks the token, decides what the \
    caller may, checks the arguments against the tool's schema, writes a JSON-RPC request of its own, \
    reads the reply and writes an MCP result.";

const FORWARD_SETTING: &str = "\
    Behind all of them is the same service, a hyper server that reads the request's id and answers the \
    same to everything. It shares the servers' core, so a request costs what the server and the service \
    need together; CPU time is the server's alone. Callgate has 50 tools, 1,000 tokens and 100 different \
    sets of grants; calls are made with all tokens in turn.";

const BATCH: &str = "\
    - **callgate** is the library's router with an upstream, to which each call is a request.\n\
    - **callgate, batch** is the same with `batch = true`: calls that arrive together go out as one \
    JSON-RPC batch.";

const BATCH_SETTING: &str = "\
    Behind both is anvil, a node of Ethereum, which is asked for `eth_chainId`. It shares the servers' \
    core, so a request costs what the server and the node need together; CPU time is the server's alone.";

fn case_section(results: &CaseResults, yardstick: Candidate) -> String {
    let mut out = format!("## {}\n\n", results.case);
    let latency_headings: Vec<String> = results
        .latencies
        .iter()
        .map(|latencies| format!("µs at {}/s: p50, p99", thousands(latencies.per_second)))
        .collect();
    let (cpu, throughput) = (format!("CPU to {yardstick}"), format!("requests/s to {yardstick}"));
    let mut headings = vec!["", "CPU µs/request", &cpu, "requests/s", &throughput];
    headings.extend(latency_headings.iter().map(String::as_str));
    headings.push("reply bytes");
    let mut table = Table::new(&headings);
    let yardstick = results.load(yardstick);
    let shown = |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |s| s.to_string());
    for load in &results.loads {
        let mut row = vec![
            load.candidate.to_string(),
            format!("{:.1}", load.median(|round| round.cpu)),
            shown(yardstick.map(|other| load.ratio(other, |round| round.cpu))),
            thousands(load.median(|round| round.throughput)),
            shown(yardstick.map(|other| load.ratio(other, |round| round.throughput))),
        ];
        row.extend(
            results.latencies.iter().map(|latencies| percentiles(latencies, load.candidate)),
        );
        row.push(load.reply_bytes.to_string());
        table.row(row);
    }
    let _ = writeln!(out, "{table}");
    out.push_str(&comparison(results));
    out.push_str(&utilisation(results));
    out
}

fn percentiles(latencies: &Latencies, candidate: Candidate) -> String {
    let server = latencies.servers.iter().find(|(other, _)| *other == candidate);
    let Some((_, server)) = server.filter(|(_, server)| server.kept_up()) else {
        return "cannot keep up".to_owned();
    };
    let Spread { median, min, max } = server.p99;
    let [p50, p99, min, max] = [server.p50.median, median, min, max].map(thousands);
    format!("{p50}, {p99} ({min}..{max})")
}

fn comparison(results: &CaseResults) -> String {
    let callgate = results.load(Candidate::Callgate);
    let Some((callgate, rmcp)) = callgate.zip(results.load(Candidate::Rmcp)) else {
        return String::new();
    };
    format!(
        "Callgate to rmcp: CPU {}, requests/s {}.\n\n",
        callgate.ratio(rmcp, |round| round.cpu),
        callgate.ratio(rmcp, |round| round.throughput),
    )
}

/// Whether it was the servers that were measured, and not the load generator or something else.
fn utilisation(results: &CaseResults) -> String {
    let all = || results.loads.iter().flat_map(|load| &load.rounds);
    let share =
        |figure: fn(&Cores) -> f64| Spread::of(all().map(|round| figure(&round.cores) * 100.0));
    let server = share(|cores| cores.server);
    let generator = share(|cores| cores.generator);
    let answered: u64 = all().map(|round| u64::from(round.answered)).sum();
    let disturbed = all().filter(|round| round.cores.is_disturbed()).count();
    format!(
        "{answered} replies under full load, all of them right. The servers were on their core for \
         {:.0} to {:.0} % of the time, the load generator on its own for {:.0} to {:.0} %. Something \
         else had a core for at most {:.1} %, and the host took cores away for at most {:.1} %. \
         Rounds that were repeated: {}; turns that were disturbed and count all the same: \
         {disturbed} of {}.\n\n",
        server.min,
        server.max,
        generator.min,
        generator.max,
        share(|cores| cores.waiting).max,
        share(|cores| cores.stolen).max,
        results.repeated,
        all().count(),
    )
}

fn server_section(results: &Results) -> String {
    let mut table = Table::new(&["", "memory", "highest", "start-up"]);
    let mebibytes = |kibibytes: u32| format!("{:.1} MiB", f64::from(kibibytes) / 1024.0);
    for server in &results.servers {
        table.row([
            server.candidate.to_string(),
            mebibytes(server.memory.resident),
            mebibytes(server.memory.peak),
            format!("{:.1} ms", server.start_up.median),
        ]);
    }
    format!(
        "## Memory and start-up\n\n\
         Memory is resident memory after all of the above. Start-up is from the start of the process \
         to the first right answer.\n\n{table}"
    )
}

/// A whole number with commas.
fn thousands(number: f64) -> String {
    if number.is_infinite() {
        return "∞".to_owned();
    }
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!([7.0, 1234.4, 123_456.0].map(thousands), ["7", "1,234", "123,456"]);
    }
}
