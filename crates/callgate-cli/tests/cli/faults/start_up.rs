//! How long a gateway takes to start with a large catalog, and how much of it is the database's.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::alone;
use super::filled::{Filled, Program};
use super::kept::Kept;
use super::metrics::Metrics;
use super::upstream::Manner;
use super::wire::get;
use crate::real::servers::free_address;
use crate::support::PATIENCE;

/// What a start took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// From the start of the process until `/readyz` is 200.
    pub(crate) all: Duration,
    /// Of that, reading the rows of the catalog.
    pub(crate) read: Duration,
    /// How many tools there were.
    pub(crate) tools: u64,
}

/// Adds so many methods, each with three parameters, a description, a section and what it needs there.
pub(crate) fn add_methods(filled: &Filled, kept: &Kept, count: usize) {
    filled.run(&["section", "add", "bulk"]);
    let numbers = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
    );
    kept.sql(
        filled,
        &format!(
            "INSERT INTO rpc_methods (rpc_method, params, description, sections, safety, upstream)
                 {numbers} SELECT CONCAT('bulk.item', n, '.find'),
                 '[\"string $query\", \"int $limit = 50\", \"bool $archived = false\"]',
                 CONCAT('Finds the items of collection ', n, ' that match a query, newest first.'),
                 'bulk', 'read_only', 'default' FROM numbers;
             INSERT INTO section_actions (id_section, plugin, method, mask)
                 {numbers} SELECT (SELECT id FROM sections WHERE ident = 'bulk'), 'default',
                 CONCAT('bulk.item', n, '.find'), '2' FROM numbers;"
        ),
    );
}

/// A process that ends with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first start on a registry. Once it is ready it goes on until the names that it gave to tools are
/// written down, so that later starts find them.
pub(crate) fn first_start(filled: &Filled, kept: &Kept) -> Start {
    started(filled, kept, Metrics::until_quiet)
}

/// Starts a gateway and waits until it is ready.
pub(crate) fn start(filled: &Filled, kept: &Kept) -> Start {
    started(filled, kept, |_| {})
}

fn started(filled: &Filled, kept: &Kept, then: impl Fn(SocketAddr)) -> Start {
    let (address, log) = (free_address(), filled.place.path("start.log"));
    let mut command = filled.command(&["serve", "--json", "--listen", &address.to_string()]);
    command.env("CALLGATE_DATABASE", kept.url()).env("CALLGATE_LOG_FORMAT", "json");
    command.env("CALLGATE_METRICS", "true");
    command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let begun = Instant::now();
    let gateway = Ended(command.spawn().unwrap());
    let is_ready = || get(address, "/readyz").is_ok_and(|answer| answer.status == 200);
    while !is_ready() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    let all = begun.elapsed();
    then(address);
    drop(gateway);
    let log = std::fs::read_to_string(log).unwrap();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let loaded = lines.find(|line| line["message"] == "catalog loaded");
    let loaded = loaded.unwrap_or_else(|| panic!("it does not start: {log}"));
    let read = duration(loaded["read"].as_str().unwrap());
    Start { all, read, tools: loaded["tools"].as_u64().unwrap() }
}

/// As the log writes it: `1.25s`, `812.3ms`.
fn duration(text: &str) -> Duration {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text.trim_end_matches(unit).parse().unwrap();
    let seconds = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        _ => panic!("{text}"),
    };
    Duration::from_secs_f64(number * seconds)
}

#[test]
fn durations_of_the_log_are_read() {
    let times = ["1.25s", "812.5ms", "3µs"].map(duration);
    assert_eq!(times.map(|time| time.as_micros()), [1_250_000, 812_500, 3]);
}

#[test]
fn starts_are_told_with_what_reading_cost() {
    let _alone = alone();
    let filled = Filled::new(Program::Tested, Kept::File.url(), Manner::Calm);
    add_methods(&filled, &Kept::File, 300);
    for start in [first_start(&filled, &Kept::File), start(&filled, &Kept::File)] {
        assert_eq!(start.tools, 305, "{start:?}");
        assert!(start.read < start.all, "{start:?}");
    }
}
