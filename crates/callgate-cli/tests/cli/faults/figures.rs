//! The figures of `docs/internals/benchmarks/faults.md`, from the program as it is released. What the page promises in seconds
//! is judged here.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::alone;
use super::cluster::Brand;
use super::filled::{Filled, Program};
use super::kept::Kept;
use super::load::CLIENTS;
use super::proxy::Wire;
use super::record::{Call, Outcome};
use super::scenario::{self, GRACE, Shown};
use super::start_up;
use super::upstream::{End, Manner};
use super::warm::warm_calls;

/// Around what is written anew.
const MARKS: [&str; 2] = ["<!-- figures -->\n", "<!-- end of figures -->\n"];
const METHODS: usize = 100_000;
const CALLS: usize = 100_000;
/// So many starts there are after the first.
const STARTS: usize = 5;
/// The best of them takes less than this.
const MAX_START: Duration = Duration::from_secs(3);

#[test]
#[ignore = "takes minutes and wants a quiet machine; `cargo xtask bench faults` runs it"]
fn the_figures_of_the_page_on_reliability() {
    let _alone = alone();
    let cores = std::thread::available_parallelism().unwrap();
    let mut text = format!(
        "\nOne run of the release build, on {cores} cores that it shares with the clients, the \
         service and the database.\n"
    );
    let mut late = faults(&mut text);
    late.extend(starts(&mut text));
    warm(&mut text);
    eprintln!("{text}");
    assert!(late.is_empty(), "too slow, so the page stays as it is:\n{}", late.join("\n"));
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/benchmarks/faults.md");
    let old = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, with_figures(&old, &text)).unwrap();
}

/// The page with other figures.
fn with_figures(page: &str, text: &str) -> String {
    let [begin, end] = MARKS;
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    format!("{before}{begin}{text}\n{end}{after}")
}

#[test]
fn the_page_on_reliability_has_a_place_for_figures() {
    let page =
        with_figures(include_str!("../../../../../docs/internals/benchmarks/faults.md"), "new");
    let [begin, end] = MARKS;
    assert!(page.contains(&format!("{begin}new\n{end}")), "{page}");
}

/// Comes back with what took too long, a line each.
fn faults(text: &mut String) -> Vec<String> {
    let release = Program::Dist;
    let mut all = Vec::new();
    for brand in [Brand::Postgres, Brand::MariaDb] {
        all.push(Shown::judged(|| scenario::database_is_killed(release, brand)));
        all.push(Shown::judged(|| scenario::gateway_is_killed(release, brand)));
        all.push(Shown::judged(|| scenario::gateway_behind_nginx_is_killed(release, brand)));
        for how in [Wire::Swallows, Wire::IsCut] {
            all.push(Shown::judged(|| scenario::gateway_is_cut_off(release, brand, how)));
        }
    }
    let grace = GRACE.as_secs();
    let _ = writeln!(
        text,
        "\n## Results: faults\n\n{CLIENTS} clients, `token_grace_seconds = {grace}`. No wrong \
         replies, no repeated calls and no unexplained errors occurred; otherwise this table is \
         not written.\n\n\
         | fault | calls | 503 | lost connections | duration | recovery | last use of revoked \
         rights at other servers | at the server that is cut off |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for shown in &all {
        fault(text, shown);
    }
    let _ = writeln!(
        text,
        "\nThe last use at other servers is counted from the return of the command, the last use at \
         the server that is cut off from the cut."
    );
    service(text, &all);
    let late = all.iter().flat_map(|Shown { what, times, .. }| {
        times.problems().into_iter().map(move |problem| format!("{what}: {problem}"))
    });
    late.collect()
}

fn fault(text: &mut String, shown: &Shown) {
    let (calls, times) = (&shown.story.calls, shown.times);
    let count = |is_it: fn(&Call) -> bool| calls.iter().filter(|call| is_it(call)).count();
    let away = grouped(count(|call| call.outcome == Outcome::Away));
    // nginx says 502 of those that it lost.
    let lost = grouped(count(|call| match &call.outcome {
        Outcome::Broken(_) => true,
        Outcome::Failed(words) => words.starts_with("502"),
        _ => false,
    }));
    let lasted = shown.story.faults.iter().map(|fault| fault.end - fault.begin).max();
    let lasted = shown_time(lasted.unwrap_or_default());
    let (what, all) = (&shown.what, grouped(calls.len()));
    let recovery = shown_time(times.recovery);
    let [heard, honoured] =
        [times.heard, times.honoured].map(|time| time.map_or_else(String::new, shown_time));
    let _ = writeln!(
        text,
        "| {what} | {all} | {away} | {lost} | {lasted} | {recovery} | {heard} | {honoured} |"
    );
}

/// What the service broke off, and what became of it.
fn service(text: &mut String, all: &[Shown]) {
    let executed = || all.iter().flat_map(|shown| &shown.story.executed);
    let broken = executed().filter(|it| it.end != End::Answered).count();
    let again = all.iter().map(|shown| {
        let keys: HashSet<_> = shown.story.executed.iter().map(|it| &it.key).collect();
        shown.story.executed.len() - keys.len()
    });
    let _ = writeln!(
        text,
        "\nOf {} calls that ran, the service aborted {}. {} of those were read-only and were sent \
         once more; the others were reported to their callers as failures.",
        grouped(executed().count()),
        grouped(broken),
        grouped(again.sum())
    );
}

/// Comes back with what took too long, a line each.
fn starts(text: &mut String) -> Vec<String> {
    let mut late = Vec::new();
    let _ = writeln!(
        text,
        "\n## Results: start-up\n\nTime from the start of the process until `/readyz` is 200, with \
         {} methods. The first start also assigns tool names, which are stored in the background. \
         Then the best and the median of {STARTS} starts, and the time to read the rows.\n\n\
         | database | first | best | reading rows | median | reading rows |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |",
        grouped(METHODS)
    );
    for (name, kept) in Kept::real() {
        let filled = Filled::new(Program::Dist, kept.url(), Manner::Calm);
        start_up::add_methods(&filled, &kept, METHODS);
        eprintln!("{name} has {METHODS} methods");
        let first = start_up::first_start(&filled, &kept);
        let mut starts: Vec<_> = (0..STARTS).map(|_| start_up::start(&filled, &kept)).collect();
        starts.sort_by_key(|start| start.all);
        eprintln!("{name}: {first:?}, {starts:?}");
        assert!(starts.iter().all(|start| start.tools >= METHODS as u64));
        let (best, median) = (starts[0], starts[STARTS / 2]);
        if best.all >= MAX_START {
            late.push(format!("a start on {name}: {best:?}, not {MAX_START:?}"));
        }
        let times = [first.all, best.all, best.read, median.all, median.read].map(shown_time);
        let _ = writeln!(text, "| {name} | {} |", times.join(" | "));
    }
    late
}

fn warm(text: &mut String) {
    let _ = writeln!(
        text,
        "\n## Results: database statements of calls\n\n\
         | database | calls | reads of the counters | statements sent | counted by the database |\n\
         | --- | ---: | ---: | ---: | ---: |"
    );
    for (name, kept) in Kept::all() {
        let filled = Filled::new(Program::Dist, kept.url(), Manner::Calm);
        let counted = warm_calls(&filled, &kept, CALLS);
        eprintln!("{name}: {counted:?}");
        assert_eq!(counted.statements, counted.looks);
        let seen = counted.seen.map_or_else(String::new, |seen| seen.to_string());
        let (calls, looks, statements) =
            (grouped(counted.calls), counted.looks, counted.statements);
        let _ = writeln!(text, "| {name} | {calls} | {looks} | {statements} | {seen} |");
    }
}

/// With commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[test]
fn thousands_are_told_apart() {
    assert_eq!(
        [0, 12, 999, 1000, 1_234_567].map(grouped),
        ["0", "12", "999", "1,000", "1,234,567"]
    );
}

fn shown_time(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        millis => format!("{}.{:02} s", millis / 1000, millis % 1000 / 10),
    }
}
