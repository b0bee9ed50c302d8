//! The report.

use std::fmt::Write as _;

use callgate_bench::candidate::Candidate;
use callgate_bench::suite::Suite;

use crate::machine::Machine;
use crate::measure::Plan;
use crate::results::{CaseResults, Cores, Latencies, MAX_WAITING, Results};
use crate::statistics::Spread;
use callgate_bench::table::Table;

/// Returns the report as Markdown.
pub(crate) fn markdown(
    plan: &Plan,
    machine: &Machine,
    results: &Results,
    date: Option<&str>,
) -> String {
    let title = match plan.suite {
        Suite::Local => "server",
        Suite::Forward => "forwarded calls",
        Suite::Batch => "batches",
    };
    let mut out = format!("# Benchmark: {title}\n\n");
    let date = date.map(|date| format!(" on {date}")).unwrap_or_default();
    let cores = if machine.pinned {
        "The servers use one core, the load generator another."
    } else {
        "Processes were not pinned to cores, so the figures are noisy."
    };
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        out,
        "Written by `cargo xtask bench`. Measured{date} on {} cores of an {}, Linux {}. {cores}\n",
        machine.cores, machine.processor, machine.kernel,
    );
    out.push_str(&method(plan));
    for case in &results.cases {
        out.push_str(&case_section(case, plan.suite.baseline()));
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
    let baseline = plan.suite.baseline();
    format!(
        "## Method\n\n{candidates}\n\n{setting} Every server has a runtime with one thread. \
         A load generator keeps 32 connections busy and checks every reply; a wrong reply ends the measurement. The servers take turns in {} \
         rounds of {:?} each. Ratios are computed within a round. Each figure is the median of the \
         rounds, with minimum and maximum in parentheses. CPU time is that of the server process, \
         including kernel time.\n\n\
         Latency is measured at a fixed rate, half of the maximum of {baseline}, in {} rounds of \
         {:?}. It is counted from the time at which a request was due, so it includes waiting for \
         a slow server. If a server cannot reach that rate, a second rate is half of the maximum \
         of the slowest server.\n\n\
         A round is repeated if a server or the load generator waited for its core for more than \
         {:.0} % of the time, because of other processes or of the host. There are at most as many \
         repetitions as rounds.\n\n",
        plan.rounds,
        plan.length,
        plan.latency_rounds,
        plan.latency_length,
        MAX_WAITING * 100.0,
    )
}

const LOCAL: &str = "\
    - **bare** is an axum handler that reads the JSON-RPC envelope and writes a reply of the same \
    shape as Callgate's. It checks neither tokens nor arguments and has no tools. It is the lower \
    bound.\n\
    - **callgate** is the router of the library. It checks the token, the access of the caller, \
    and the arguments against the schema of the tool.\n\
    - **rmcp** is rmcp 3.8.0 without sessions and with JSON replies, behind a token check in axum. \
    The tools of each set of grants are computed beforehand. Arguments are not checked against a \
    schema.";

const LOCAL_SETTING: &str = "\
    Every server has 50 tools, 1,000 tokens and 100 different sets of grants, and is the same \
    program with the same allocator. Calls use all tokens in turn. Lists use tokens that see all \
    tools.";

const FORWARD: &str = "\
    - **nginx** is the Debian package, as a reverse proxy with persistent connections to the \
    service, one worker and no access log. It passes requests and replies on unchanged.\n\
    - **hyper** is a reverse proxy that consists of hyper's server and pooled client.\n\
    - **callgate** is the router of the library with an upstream. It checks the token, the access \
    of the caller and the arguments, writes a JSON-RPC request, reads the reply and writes an MCP \
    result.";

const FORWARD_SETTING: &str = "\
    All of them use the same service, a hyper server that reads the id of the request and returns \
    a constant result. It shares the core of the servers, so requests per second include the \
    service; CPU time does not. Callgate has 50 tools, 1,000 tokens and 100 different sets of \
    grants. Calls use all tokens in turn.";

const BATCH: &str = "\
    - **callgate** is the router of the library with an upstream. Each call is one request.\n\
    - **callgate, batch** is the same with `batch = true`: calls that arrive together are sent as \
    one JSON-RPC batch.";

const BATCH_SETTING: &str = "\
    Both call `eth_chainId` of anvil, an Ethereum node. It shares the core of the servers, so \
    requests per second include the node; CPU time does not.";

fn case_section(results: &CaseResults, baseline: Candidate) -> String {
    let mut out = format!("## {}\n\n", results.case);
    let latency_headings: Vec<String> = results
        .latencies
        .iter()
        .map(|latencies| format!("µs at {}/s: p50, p99", thousands(latencies.per_second)))
        .collect();
    let (cpu, throughput) = (format!("CPU to {baseline}"), format!("requests/s to {baseline}"));
    let mut headings = vec!["", "CPU µs/request", &cpu, "requests/s", &throughput];
    headings.extend(latency_headings.iter().map(String::as_str));
    headings.push("reply bytes");
    let mut table = Table::new(&headings);
    let baseline = results.load(baseline);
    let shown = |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |s| s.to_string());
    for load in &results.loads {
        let mut row = vec![
            load.candidate.to_string(),
            format!("{:.1}", load.median(|round| round.cpu)),
            shown(baseline.map(|other| load.ratio(other, |round| round.cpu))),
            thousands(load.median(|round| round.throughput)),
            shown(baseline.map(|other| load.ratio(other, |round| round.throughput))),
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

/// Describes how far the load generator and other processes influenced the results.
fn utilisation(results: &CaseResults) -> String {
    let all = || results.loads.iter().flat_map(|load| &load.rounds);
    let share =
        |figure: fn(&Cores) -> f64| Spread::of(all().map(|round| figure(&round.cores) * 100.0));
    let server = share(|cores| cores.server);
    let generator = share(|cores| cores.generator);
    let answered: u64 = all().map(|round| u64::from(round.answered)).sum();
    let disturbed = all().filter(|round| round.cores.is_disturbed()).count();
    format!(
        "{answered} replies under full load, all correct. The servers used {:.0} to {:.0} % of \
         their core, the load generator {:.0} to {:.0} % of its core. Other processes used at most \
         {:.1} %, the host at most {:.1} %. Repeated rounds: {}. Disturbed turns that are \
         included: {disturbed} of {}.\n\n",
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
         Memory is resident memory after all measurements. Start-up is the time from the start of \
         the process to the first correct reply.\n\n{table}"
    )
}

/// Formats an integer with commas.
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
