//! Measures the packaged program for `docs/internals/benchmarks/faults.md` and checks the documented limits.

pub(crate) mod start_up;
pub(crate) mod warm_calls;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use callgate_test_support::Engine;

use crate::faults::cluster::database::RegistryDatabase;
use crate::faults::cluster::proxy::Link;
use crate::faults::cluster::registry::{Program, TestRegistry};
use crate::faults::cluster::upstream::{End, UpstreamMode};
use crate::faults::load::CLIENTS;
use crate::faults::load::call_log::{Call, Outcome};
use crate::faults::lock_scenarios;
use crate::faults::scenario::{self, GRACE, ScenarioResult};
use warm_calls::warm_calls;

/// Markers around the generated part of the page.
const MARKERS: [&str; 2] = ["<!-- figures -->\n", "<!-- end of figures -->\n"];
const METHODS: usize = 100_000;
const CALLS: usize = 100_000;
/// Number of starts after the first.
const STARTS: usize = 5;
/// Limit for the best of these starts.
const MAX_START: Duration = Duration::from_secs(3);

#[test]
#[ignore = "takes minutes and needs a quiet machine; `cargo xtask bench faults` runs it"]
fn measurements_update_the_page_on_faults() {
    let _lock = lock_scenarios();
    let cores = std::thread::available_parallelism().unwrap();
    let mut text = format!(
        "\nThese figures are from one run of the packaged program. The program, the clients, the \
         service and the database shared {cores} cores.\n"
    );
    let mut exceeded = add_faults(&mut text);
    exceeded.extend(add_starts(&mut text));
    add_warm_calls(&mut text);
    eprintln!("{text}");
    assert!(exceeded.is_empty(), "limits exceeded, page not updated:\n{}", exceeded.join("\n"));
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/benchmarks/faults.md");
    let content = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, with_measurements(&content, &text)).unwrap();
}

/// Returns the page with a new generated part.
fn with_measurements(page: &str, text: &str) -> String {
    let [begin, end] = MARKERS;
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    format!("{before}{begin}{text}\n{end}{after}")
}

#[test]
fn the_page_on_faults_has_the_markers() {
    let page = with_measurements(
        include_str!("../../../../../docs/internals/benchmarks/faults.md"),
        "new",
    );
    let [begin, end] = MARKERS;
    assert!(page.contains(&format!("{begin}new\n{end}")), "{page}");
}

/// Runs the scenarios and adds their results to `text`. Returns the exceeded limits.
fn add_faults(text: &mut String) -> Vec<String> {
    let program = Program::Dist;
    let mut results = Vec::new();
    for engine in Engine::ALL {
        results.push(ScenarioResult::checked(|| scenario::database_is_killed(program, engine)));
        results.push(ScenarioResult::checked(|| scenario::server_is_killed(program, engine)));
        results.push(ScenarioResult::checked(|| {
            scenario::server_behind_nginx_is_killed(program, engine)
        }));
        for link in [Link::Blackhole, Link::Reset] {
            results.push(ScenarioResult::checked(|| {
                scenario::server_is_isolated(program, engine, link)
            }));
        }
    }
    let grace = GRACE.as_secs();
    let _ = writeln!(
        text,
        "\n## Results: faults\n\n{CLIENTS} clients, `token_grace_seconds = {grace}`. There were no \
         wrong replies, no forbidden repetitions of calls, and no unexplained errors; otherwise \
         this table is not written.\n\n\
         | fault | calls | 503 | lost connections | duration | recovery | last use of revoked \
         rights at other servers | last use of revoked rights at the server that is cut off |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for result in &results {
        add_fault(text, result);
    }
    let _ = writeln!(
        text,
        "\n`duration` is the time from the beginning of the fault until all servers are ready \
         again. `recovery` is the part of this time after the end of the fault. The last two \
         columns are times too. At other servers, the time is counted from the return of the \
         command that revokes the rights. At the server that is cut off, it is counted from the \
         cut."
    );
    add_upstream_failures(text, &results);
    let exceeded = results.iter().flat_map(|ScenarioResult { name, timings, .. }| {
        timings.violations().into_iter().map(move |violation| format!("{name}: {violation}"))
    });
    exceeded.collect()
}

fn add_fault(text: &mut String, result: &ScenarioResult) {
    let (calls, timings) = (&result.run.calls, result.timings);
    let count =
        |is_counted: fn(&Call) -> bool| calls.iter().filter(|call| is_counted(call)).count();
    let unavailable = with_commas(count(|call| call.outcome == Outcome::Unavailable));
    // nginx replies 502 if its connection to the server was lost.
    let lost = with_commas(count(|call| match &call.outcome {
        Outcome::ConnectionLost(_) => true,
        Outcome::Failed(text) => text.starts_with("502"),
        _ => false,
    }));
    let duration = result.run.faults.iter().map(|fault| fault.end - fault.begin).max();
    let duration = format_time(duration.unwrap_or_default());
    let (name, total) = (&result.name, with_commas(calls.len()));
    let recovery = format_time(timings.recovery);
    let [revocation, isolated_use] = [timings.revocation, timings.isolated_use]
        .map(|time| time.map_or_else(String::new, format_time));
    let _ = writeln!(
        text,
        "| {name} | {total} | {unavailable} | {lost} | {duration} | {recovery} | {revocation} | {isolated_use} |"
    );
}

/// Adds the number of calls that the upstream aborted to `text`.
fn add_upstream_failures(text: &mut String, results: &[ScenarioResult]) {
    let executed = || results.iter().flat_map(|result| &result.run.executed);
    let aborted = executed().filter(|it| it.end != End::Answered).count();
    let retried = results.iter().map(|result| {
        let keys: HashSet<_> = result.run.executed.iter().map(|it| &it.key).collect();
        result.run.executed.len() - keys.len()
    });
    let _ = writeln!(
        text,
        "\nOf {} calls that ran, the service aborted {}. Of the aborted calls, {} were read-only and \
         were sent once more. The callers of all others got an error.",
        with_commas(executed().count()),
        with_commas(aborted),
        with_commas(retried.sum())
    );
}

/// Measures the starts and adds their times to `text`. Returns the exceeded limits.
fn add_starts(text: &mut String) -> Vec<String> {
    let mut exceeded = Vec::new();
    let _ = writeln!(
        text,
        "\n## Results: start-up\n\nThe table has the time from the start of the process until \
         `/readyz` is 200, with {} methods. The first start also assigns tool names, which are \
         stored in the background. The columns `best` and `median` are the best and the median of \
         {STARTS} later starts. The column `reading rows` after each of them is the part of this \
         time in which the server reads the rows.\n\n\
         | database | first | best | reading rows | median | reading rows |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |",
        with_commas(METHODS)
    );
    for (name, database) in RegistryDatabase::without_sql_server() {
        let registry = TestRegistry::new(Program::Dist, database.url(), UpstreamMode::Reliable);
        start_up::add_methods(&registry, &database, METHODS);
        eprintln!("{name} has {METHODS} methods");
        let first = start_up::first_start(&registry, &database);
        let mut starts: Vec<_> =
            (0..STARTS).map(|_| start_up::start(&registry, &database)).collect();
        starts.sort_by_key(|start| start.total);
        eprintln!("{name}: {first:?}, {starts:?}");
        assert!(starts.iter().all(|start| start.tools >= METHODS as u64));
        let (best, median) = (starts[0], starts[STARTS / 2]);
        if best.total >= MAX_START {
            exceeded.push(format!("start on {name}: {best:?}, limit {MAX_START:?}"));
        }
        let timings =
            [first.total, best.total, best.read, median.total, median.read].map(format_time);
        let _ = writeln!(text, "| {name} | {} |", timings.join(" | "));
    }
    exceeded
}

fn add_warm_calls(text: &mut String) {
    let _ = writeln!(
        text,
        "\n## Results: database statements of calls\n\n\
         | database | calls | reads of the counters | statements sent | counted by the database |\n\
         | --- | ---: | ---: | ---: | ---: |"
    );
    for (name, database) in RegistryDatabase::all() {
        let registry = TestRegistry::new(Program::Dist, database.url(), UpstreamMode::Reliable);
        let counts = warm_calls(&registry, &database, CALLS);
        eprintln!("{name}: {counts:?}");
        assert_eq!(counts.statements, counts.polls);
        let by_database =
            counts.counted_by_database.map_or_else(String::new, |count| count.to_string());
        let (calls, polls, statements) =
            (with_commas(counts.calls), counts.polls, counts.statements);
        let _ = writeln!(text, "| {name} | {calls} | {polls} | {statements} | {by_database} |");
    }
}

/// Returns a number with commas between thousands.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut with_commas = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            with_commas.push(',');
        }
        with_commas.push(digit);
    }
    with_commas
}

#[test]
fn numbers_have_commas_between_thousands() {
    assert_eq!(
        [0, 12, 999, 1000, 1_234_567].map(with_commas),
        ["0", "12", "999", "1,000", "1,234,567"]
    );
}

fn format_time(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        millis => format!("{}.{:02} s", millis / 1000, millis % 1000 / 10),
    }
}
