//! The report of a comparison.

use std::fmt::Write as _;

use callgate_bench::candidate::Candidate;
use callgate_bench::case::{Case, Era};
use callgate_bench::chart::{Bar, Chart, Group};
use callgate_bench::packages::run;
use callgate_bench::suite::{Level, Suite};
use callgate_bench::table::Table;

use crate::machine::Machine;
use crate::measure::Plan;
use crate::results::{CaseResults, Cores, Latencies, MAX_DISTURBED, Results};
use crate::statistics::Spread;

/// Returns the report as Markdown.
pub(crate) fn markdown(plan: &Plan, machine: &Machine, results: &Results) -> String {
    let (title, name) = match plan.suite {
        Suite::Forward => ("forwarded calls", "forward"),
        Suite::Batch => ("batches", "batches"),
        Suite::Server | Suite::Scale => ("server", "server"),
    };
    let mut out = format!("# Benchmark: {title}\n\n{}", heading(name, machine, &results.versions));
    if let Some(picture) = picture_title(plan.suite) {
        let _ = writeln!(out, "![{picture}]({name}.svg)\n");
    }
    out.push_str(&method(plan, results));
    for case in plan.suite.cases() {
        let levels: Vec<&CaseResults> =
            results.cases.iter().filter(|case_results| case_results.case == case).collect();
        out.push_str(&case_section(case, &levels, plan.suite.baseline()));
    }
    out.push_str(&server_section(results));
    out
}

/// Returns the sentences about the command, the machine and the versions.
pub(crate) fn heading(name: &str, machine: &Machine, versions: &[String]) -> String {
    let date = run(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]));
    format!(
        "Written by `cargo xtask bench {name}`. Measured on {} on {} cores of {}, Linux {}. \
         Versions: {}.\n\n",
        date.unwrap_or_default(),
        machine.cores,
        machine.processor,
        machine.kernel,
        versions.join("; "),
    )
}

fn method(plan: &Plan, results: &Results) -> String {
    let text = match plan.suite {
        Suite::Forward => FORWARD,
        Suite::Batch => BATCH,
        Suite::Server | Suite::Scale => SERVER,
    };
    let mut out = format!("## Method\n\n{text}\n\n");
    for (candidate, reason) in &results.skipped {
        let _ = writeln!(out, "**{candidate} was not measured**: {reason}\n");
    }
    let baseline = plan.suite.baseline();
    let _ = writeln!(
        out,
        "With one thread, a server has one core; with two threads, it has two cores. Each server \
         creates a thread or a worker process for each core. The load generator has another core; \
         if there is none, it shares the cores of the servers. The load generator keeps its \
         connections busy and checks every reply; a wrong reply ends the measurement. There are {} \
         rounds, and in each of them every server is measured for {:?}. Each figure is the median \
         of the rounds. Figures in parentheses are the minimum and the maximum. Columns such as \
         `CPU to {baseline}` have the ratio to the figure of {baseline} in the same round. CPU time is that of the processes of the server, including kernel time.\n\n\
         Latency is measured with 1 thread and 32 connections at a fixed rate, in {} rounds of \
         {:?}. The rate is half of the requests per second that {baseline} reached. Latency is \
         counted from the time at which a request was due, so it includes waiting for a slow \
         server. A server cannot keep up with a rate if it has not accepted all requests at the \
         end of most rounds. In this case, latency is also measured at a second rate: half of the \
         requests per second that the slowest server reached.\n\n\
         A round is repeated if other processes, or the host of the virtual machine, took more \
         than {:.0} % of a core. There are at most as many repetitions as rounds.\n",
        plan.rounds,
        plan.length,
        plan.latency_rounds,
        plan.latency_length,
        MAX_DISTURBED * 100.0,
    );
    out
}

const SERVER: &str = "\
    - **bare** is an axum handler that reads the JSON-RPC envelope and writes the bytes of \
    Callgate's reply. It checks neither tokens nor arguments, and runs no tool. Its cost is \
    the lower bound.\n\
    - **callgate** is the packaged program with its registry in SQLite, its default limits and \
    its demo. It checks the token, the access of the caller, and the arguments against the schema \
    of the tool.\n\
    - **rmcp** is rmcp without sessions and with JSON replies, behind a token check in axum. The \
    tools of each set of grants are computed beforehand. Arguments are not checked against a \
    schema.\n\n\
    Callgate and rmcp have 1,000 tokens, each of a different user, and 100 different sets of \
    grants. All servers list the same 50 tools, and have the same allocator. bare and rmcp are \
    compiled with `opt-level = 3`, and Callgate with the options of its packages. \
    Calls name `user_get`, with all tokens in turn. In Callgate and rmcp, `user_get` is a function \
    in the process of the server. In Callgate, it is a function of the demo; the other 49 tools \
    belong to a service that is not called. Requests for lists use the 500 tokens with which all \
    50 tools are visible.";

const FORWARD: &str = "\
    - **nginx** is the Debian package, as a reverse proxy with persistent connections to the \
    service and no access log. It passes requests and replies on unchanged.\n\
    - **hyper** is a reverse proxy that consists of hyper's server and pooled client.\n\
    - **callgate** is the packaged program with its registry in SQLite and its default limits. The \
    registry has 50 tools, 1,000 tokens (each of a different user) and 100 different sets of \
    grants. Callgate checks the token, the access of the caller and the arguments. It writes a \
    JSON-RPC request, reads the reply and writes an MCP result.\n\
    - **MCP Toolbox** (npm `@toolbox-sdk/server`) has one tool of the kind `http`, without \
    authentication.\n\
    - **FastMCP** (PyPI) has one tool, created by `from_openapi`. It runs in uvicorn, without \
    sessions and authentication.\n\n\
    All of them call the same service, a hyper server that returns a constant result of 28 bytes. \
    The service shares the cores of the servers, so requests per second also depend on the \
    service. CPU time does not include the service. Each request has one of 1,000 tokens. Only \
    Callgate checks the token.";

const BATCH: &str = "\
    - **callgate** is the packaged program with its default limits. Each call is one request.\n\
    - **callgate, batch** is the same program with `batch = true`: calls that arrive together are \
    sent as one JSON-RPC batch.\n\n\
    Both call `eth_chainId` of anvil, an Ethereum node. The node shares the core of the servers, so \
    requests per second also depend on the node. CPU time does not include the node.";

fn case_section(case: Case, levels: &[&CaseResults], baseline: Candidate) -> String {
    let mut out = format!("## {case}\n\n");
    let (cpu, throughput) = (format!("CPU to {baseline}"), format!("requests/s to {baseline}"));
    let mut table = Table::new(&[
        "server",
        "threads",
        "connections",
        "CPU µs/request",
        &cpu,
        "requests/s",
        &throughput,
        "reply bytes",
    ]);
    let ratio_text =
        |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |s| s.to_string());
    for results in levels {
        let other = results.load(baseline);
        for load in &results.loads {
            table.row([
                load.candidate.to_string(),
                results.level.threads.to_string(),
                results.level.connections.to_string(),
                format!("{:.1}", load.median(|round| round.cpu)),
                ratio_text(other.map(|other| load.ratio(other, |round| round.cpu))),
                thousands(load.median(|round| round.throughput)),
                ratio_text(other.map(|other| load.ratio(other, |round| round.throughput))),
                load.reply_bytes.to_string(),
            ]);
        }
    }
    let _ = writeln!(out, "{table}");
    for failure in levels.iter().flat_map(|results| &results.failures) {
        let _ = writeln!(out, "Failed at {failure}\n");
    }
    for latencies in levels.iter().flat_map(|results| &results.latencies) {
        let _ = writeln!(out, "{}", latency_table(latencies, baseline));
    }
    out.push_str(&utilisation(levels));
    out
}

fn latency_table(latencies: &Latencies, baseline: Candidate) -> Table {
    let rate = format!("µs at {}/s", thousands(latencies.per_second));
    let mut table = Table::new(&[&rate, "p50", "p99", &format!("p99 to {baseline}")]);
    for (candidate, rounds) in &latencies.servers {
        let name = candidate.to_string();
        if !latencies.sustained_rate(*candidate) {
            table.row([name, "cannot keep up".to_owned(), String::new(), String::new()]);
            continue;
        }
        let p50 = Spread::of(rounds.iter().map(|round| round.p50));
        let Spread { median, min, max } = Spread::of(rounds.iter().map(|round| round.p99));
        let [median, min, max] = [median, min, max].map(thousands);
        let ratio = latencies.ratio(*candidate, baseline).to_string();
        table.row([name, thousands(p50.median), format!("{median} ({min}..{max})"), ratio]);
    }
    table
}

/// Describes how far the load generator and other processes influenced the results.
fn utilisation(levels: &[&CaseResults]) -> String {
    let all = || levels.iter().flat_map(|results| &results.loads).flat_map(|load| &load.rounds);
    let answered: f64 = all().map(|round| f64::from(round.answered)).sum();
    let repeated: usize = levels.iter().map(|results| results.repeated).sum();
    let cores: Vec<Cores> = all().map(|round| round.cores).collect();
    format!(
        "{} replies under full load, all correct. {} Number of repeated rounds: {repeated}.\n\n",
        thousands(answered),
        disturbance(&cores),
    )
}

/// Describes the use of the cores, and how often other processes or the host disturbed a measurement.
pub(crate) fn disturbance(cores: &[Cores]) -> String {
    let share =
        |figure: fn(&Cores) -> f64| Spread::of(cores.iter().map(|cores| figure(cores) * 100.0));
    let (other_processes, stolen) =
        (share(|cores| cores.other_processes), share(|cores| cores.stolen));
    let (servers, generator) = (share(|cores| cores.servers), share(|cores| cores.generator));
    let disturbed = cores.iter().filter(|cores| cores.is_disturbed()).count();
    format!(
        "The measured server, with its service if it has one, used {:.0} to {:.0} % of a core. The \
         load generator used {:.0} to {:.0} %. Other processes used {:.1} % in the median and at \
         most {:.1} %, the host {:.1} % in the median and at most {:.1} %. Of the measurements \
         that were kept, {disturbed} of {} exceeded the limit for other processes and the host.",
        servers.min,
        servers.max,
        generator.min,
        generator.max,
        other_processes.median,
        other_processes.max,
        stolen.median,
        stolen.max,
        cores.len(),
    )
}

fn server_section(results: &Results) -> String {
    let mut table = Table::new(&["server", "memory", "highest", "start-up"]);
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
         Each server has one thread. `memory` is the resident memory after all measurements, and \
         `highest` is its peak. `start-up` is the time from the start of the process to the first \
         correct reply.\n\n{table}"
    )
}

fn picture_title(suite: Suite) -> Option<&'static str> {
    match suite {
        Suite::Server => Some("Requests per second on one core, 32 connections, 50 tools"),
        Suite::Forward => Some(
            "Forwarded tool calls per second: 32 connections, one core for gateway and service",
        ),
        Suite::Batch | Suite::Scale => None,
    }
}

/// Returns a picture of the throughput at [`Level::MAIN`], in the modern era.
pub(crate) fn picture(suite: Suite, results: &Results) -> Option<String> {
    let title = picture_title(suite)?.to_owned();
    let is_pictured = |case_results: &&CaseResults| {
        case_results.level == Level::MAIN && case_results.case.era == Era::Modern
    };
    let groups = results.cases.iter().filter(is_pictured).map(|case_results| {
        let bars = case_results.loads.iter().map(|load| {
            let throughput = load.median(|round| round.throughput);
            let is_callgate = load.candidate == Candidate::Callgate;
            let label = label(load.candidate);
            Bar {
                label: label.to_owned(),
                value: throughput,
                text: thousands(throughput),
                is_callgate,
            }
        });
        let heading = if suite == Suite::Forward { "" } else { case_results.case.method.as_str() };
        Group { heading: heading.to_owned(), bars: bars.collect() }
    });
    Some(Chart { title, groups: groups.collect() }.to_string())
}

fn label(candidate: Candidate) -> &'static str {
    match candidate {
        Candidate::Bare => "bare axum, no checks",
        Candidate::Callgate => "Callgate",
        Candidate::Nginx => "nginx, proxy only",
        Candidate::Hyper => "hyper, proxy only",
        other => other.as_str(),
    }
}

/// Formats memory.
pub(crate) fn mebibytes(kibibytes: u32) -> String {
    format!("{:.1} MiB", f64::from(kibibytes) / 1024.0)
}

/// Formats a number as an integer with commas between thousands.
pub(crate) fn thousands(number: f64) -> String {
    if number.is_infinite() {
        return "∞".to_owned();
    }
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
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
    fn numbers_have_commas_between_thousands() {
        assert_eq!([7.0, 1234.4, 123_456.0].map(thousands), ["7", "1,234", "123,456"]);
    }
}
